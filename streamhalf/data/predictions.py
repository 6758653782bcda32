"""Predictions of a halfspace, written chunk by chunk."""

from __future__ import annotations

import numpy as np

from streamhalf.data.block import RowRange
from streamhalf.data.source import Source
from streamhalf.data.stores import Column, Target
from streamhalf.errors import DataError
from streamhalf.names import plural
from streamhalf.records import Halfspace

ARRAY = "prediction"


def create_predictions(
    target: Target, source: Source, halfspace: Halfspace, *, overwrite: bool = False
) -> None:
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
