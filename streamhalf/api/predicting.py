"""Predictions of a fit: in memory, and which model may be used on which data."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from streamhalf.api._warnings import warn_unverified
from streamhalf.api.weights import check_columns
from streamhalf.data.exact import array_of
from streamhalf.data.feature_names import names_of_array
from streamhalf.data.frames import chosen_columns, dense_columns, frame_rows, is_frame
from streamhalf.data.labelled import map_rows, predict_rows
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
    halfspace, columns = usable_halfspace(model), model.data.features
    warn_unverified(model, stacklevel=3)
    if is_frame(X):
        X = dense_columns(chosen_columns(X, columns))
    check_columns(model, names_of_array(X, "X"), field="model")
    rows = frame_rows("X", X) if is_frame(X) or hasattr(X, "shape") else array_of("X", X)
    if rows.ndim != 2 or rows.shape[1] != len(halfspace.normal):
        raise DataError(
            f"X: shape {tuple(rows.shape)}; the model was fitted on "
            f"{plural(len(halfspace.normal), 'feature')}: give (rows, features)"
        )
    classes = np.array(model.data.classes or (-1, 1))
    predict = partial(predict_rows, plane=halfspace.plane, classes=classes)
    return map_rows(predict, rows, dtype=classes.dtype)
