"""Predictions of a halfspace, written chunk by chunk: to a store, and from there to a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamhalf.data.block import RowRange
from streamhalf.data.row_files import open_rows
from streamhalf.data.source import Source, nearest_names
from streamhalf.data.zarr_writer import Column, Target
from streamhalf.errors import DataError, UsageError
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


def check_kept(source: Source, keep: Sequence[str]) -> None:
    """Refuse columns to keep that the data do not have."""
    if keep and source.table is None:
        raise UsageError("keep: the data are arrays, which have no other columns; leave it out")
    own = source.table.table.columns if keep else ()
    if unknown := [name for name in keep if name not in own]:
        raise UsageError(
            f"keep: {', '.join(map(repr, unknown))} not among the columns; {nearest_names(unknown[0], own)}"
        )


def write_prediction_table(
    target: Target, path: Path, source: Source, classes: tuple[int | float | str, ...] = (), keep: Sequence[str] = ()
) -> None:
    """Write a finished store as CSV or Parquet: kept columns, then the labels of the data.

    Where rows were left out, a column "row" says which are there.
    """
    stored, names = target.array(ARRAY), np.array(classes or (-1, 1))
    step = stored.chunks[0]
    numbered = np.empty(0, np.int64)
    kinds = {"row": numbered} if len(source.dropped) else {}
    if keep:
        first = source.table.take(source.stored_numbers(numbered[:0]), keep)
        kinds |= {name: first.column(name).combine_chunks() for name in keep}
    kinds |= {ARRAY: names}
    with storage_errors(f"{path.name}: cannot be written"), open_rows(path, kinds) as file:
        for start in range(0, stored.shape[0], step):
            signs = np.asarray(stored[start : start + step])
            rows = source.stored_numbers(np.arange(start, start + len(signs)))
            found: dict[str, Any] = {"row": rows} if len(source.dropped) else {}
            if keep:
                kept = source.table.take(rows, keep)
                found |= {name: kept.column(name).combine_chunks() for name in keep}
            file.append(found | {ARRAY: names[(signs > 0).astype(np.intp)]})
