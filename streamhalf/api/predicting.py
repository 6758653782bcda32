"""Predictions of a fit: in memory, and which model may be used on which data."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from streamhalf.api._warnings import warn_unverified
from streamhalf.api.weights import check_columns
from streamhalf.data.kinds import is_frame
from streamhalf.data.labelled import map_rows, predict_rows
from streamhalf.data.schema import array_of
from streamhalf.data.zarr_groups import names_of_array
from streamhalf.errors import DataError, UsageError
from streamhalf.redact import plural
from streamhalf.report.voices import remedy
from streamhalf.results import FitResult, Halfspace, is_as_written


def usable_halfspace(model: FitResult) -> Halfspace:
    """The halfspace of a fit, if it has one and nobody changed it."""
    if model.digest and not is_as_written(model):
        raise DataError(
            "model: the result was changed after fit returned it (its digest does not fit); fit "
            "again, or give the halfspace itself: model=result.halfspace"
        )
    if model.halfspace is None:
        raise UsageError(
            f"model: the run was {model.verdict} and has no halfspace; {remedy(model)}"
        )
    return model.halfspace


def predict_in_memory(model: FitResult, X: Any) -> Any:
    """What `FitResult.predict` returns: the label of every row."""
    halfspace = usable_halfspace(model)
    warn_unverified(model, stacklevel=3)
    classes = np.array(model.data.classes or (-1, 1))
    predict = partial(predict_rows, plane=halfspace.plane, classes=classes)
    if is_frame(X):
        from streamhalf.data.table_source import map_frame

        return map_frame(predict, X, model.data.encoding, model.data.features, dtype=classes.dtype)
    check_columns(model, names_of_array(X, "X"), field="model")
    rows = X if hasattr(X, "shape") else array_of("X", X)
    if rows.ndim != 2 or rows.shape[1] != len(halfspace.normal):
        raise DataError(
            f"X: shape {tuple(rows.shape)}; the model was fitted on "
            f"{plural(len(halfspace.normal), 'feature')}: give (rows, features)"
        )
    return map_rows(predict, rows, dtype=classes.dtype)
