"""Predictions of a halfspace, written chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    predicted = predict_rows(source.read(rows).X, halfspace)
    target.write(ARRAY, rows, predicted)
    return int(np.count_nonzero(predicted > 0))


def finish_predictions(target: Target, source: Source, n_positive: int) -> None:
    """Mark the store as complete."""
    marks = {"fingerprint": source.fingerprint, "n_positive": n_positive}
    target.finish((ARRAY,), marks)


def predict_rows(X: NDArray[np.floating[Any]], halfspace: Halfspace) -> NDArray[np.int8]:
    """sgn(normal·x + offset) of raw rows, in float64: an offset may cancel most of the product."""
    margin = np.einsum("ij,j->i", X.astype(np.float64), np.array(halfspace.normal))
    return np.where(margin + halfspace.offset >= 0, np.int8(1), np.int8(-1))
