"""Predictions of a halfspace, written chunk by chunk: to a store, and from there to a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamhalf.data.block import RowRange
from streamhalf.data.row_files import open_rows
from streamhalf.data.source import Source
from streamhalf.data.zarr_writer import Column, Target
from streamhalf.errors import DataError
from streamhalf.paths import storage_errors
from streamhalf.redact import plural
from streamhalf.results import Halfspace

ARRAY = "prediction"


def create_predictions(target: Target, source: Source, halfspace: Halfspace, *, overwrite: bool = False) -> None:
    """Make an unfinished store with one int8 array; its chunks are the source's blocks."""
    if len(halfspace.normal) != source.dim:
        raise DataError(
            f"{source.name}: {plural(source.dim, 'feature')}, but the model has "
            f"{len(halfspace.normal)}; predict on data with the features the model was fitted on"
        )
    if not np.isfinite([*halfspace.normal, halfspace.offset]).all() or not any(halfspace.normal):
        raise DataError("model: its halfspace must be finite and not all 0; fit again")
    column = Column(ARRAY, (source.n_rows,), source.blocks[0].n_rows, "int8", 0, ("row",))
    target.create((column,), {"fingerprint": source.fingerprint}, overwrite=overwrite)


def write_predictions(target: Target, source: Source, halfspace: Halfspace, rows: RowRange) -> int:
    """Predict and write one block; returns how many rows are predicted +1."""
    predicted = halfspace.plane.signs(source.read(rows).X)
    target.write(ARRAY, rows, predicted)
    return int(np.count_nonzero(predicted > 0))


def finish_predictions(
    target: Target, source: Source, n_positive: int, classes: tuple[int | float | str, ...] = ()
) -> None:
    """Mark the store as complete; `classes` are what -1 and +1 stand for, if something else."""
    marks = {"fingerprint": source.fingerprint, "n_positive": n_positive}
    marks |= {"classes": list(classes)} if classes else {}
    target.finish((ARRAY,), marks)


def write_prediction_table(
    target: Target, path: Path, source: Source, classes: tuple[int | float | str, ...] = (), keep: Sequence[str] = ()
) -> None:
    """Write a finished store as CSV or Parquet: kept columns, then the labels of the data.

    Where rows were left out, a column "row" says which are there.
    """
    stored, names = target.array(ARRAY), np.array(classes or (-1, 1))
    step, numbered = stored.chunks[0], len(source.dropped) > 0

    def columns(start: int, stop: int) -> dict[str, Any]:
        rows = np.arange(start, stop)
        found: dict[str, Any] = {"row": source.stored_numbers(rows)} if numbered else {}
        signs = np.asarray(stored[start:stop])
        return found | source.kept_columns(rows, keep) | {ARRAY: names[(signs > 0).astype(np.intp)]}

    with storage_errors(f"{path.name}: cannot be written"), open_rows(path, columns(0, 0)) as file:
        for start in range(0, stored.shape[0], step):
            file.append(columns(start, min(start + step, stored.shape[0])))
