"""Linear classifiers: from weights, fitted models and results; and their predictions."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.source import Source
from streamhalf.data.table_source import map_frame
from streamhalf.errors import DataError, UnverifiedWarning, UsageError
from streamhalf.redact import one_line, plural, printable
from streamhalf.report.first_screen import remedy
from streamhalf.results import CertifyResult, FitResult, Halfspace, is_as_written

_STEP = 2.0**20  # How far the steps of a pipeline are probed: far, so that offsets do not cancel digits away
_SCALES = (1e-3, 1.0, 1e3)
_TOLERANCE = 1e-6
_MOST_NAMED = 12


def columns_of(model: Any) -> tuple[str, ...]:
    """Names of the features that a model was fitted on, if they have any."""
    if isinstance(model, FitResult | CertifyResult):
        return model.data.features
    return tuple(map(str, getattr(model, "feature_names_in_", ())))


def check_columns(model: Any, columns: tuple[str, ...], *, field: str) -> None:
    """Refuse a model of features of other names, or of the same in another order.

    Where either comes without names, there is nothing to compare.
    """
    fitted = columns_of(model)
    if not fitted or not columns or fitted == columns or len(fitted) != len(columns):
        return
    raise UsageError(
        f"{field}: fitted on the features {_listed(fitted)}; the data have {_listed(columns)}; "
        "give the same features in the same order, or the weights without names"
    )


def like_fitted(result: FitResult, source: Source) -> Source:
    """Return the source of new rows; refused where its features are not those of the fit."""
    check_columns(result, source.schema.columns, field="result")
    if source.dim != result.data.dim:
        raise DataError(
            f"{source.name}: {plural(source.dim, 'feature')}; the result is of {result.data.dim:,}: give the same ones"
        )
    return source


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return printable(", ".join(names[:_MOST_NAMED])) + more


def as_halfspace(weights: Any, dim: int, *, columns: tuple[str, ...] = (), field: str = "weights") -> Halfspace:
    """A halfspace from a vector, a fitted linear model or pipeline, or a result.

    Results are those of `fit` and `certify`, refused where their features have other names than
    `columns`; errors call it by the name of its `field`.
    """
    check_columns(weights, columns, field=field)
    if isinstance(weights, FitResult) and weights.halfspace is None:
        raise UsageError(f"{field}: the run was {weights.verdict} and has no halfspace; give another model")
    if isinstance(weights, FitResult | CertifyResult):
        weights = weights.halfspace
    weights = getattr(weights, "best_estimator_", weights)  # of a search over parameters
    if isinstance(weights, Halfspace):
        normal, offset = np.array(weights.normal), weights.offset
    elif hasattr(weights, "named_steps"):
        normal, offset = _fold(field, weights, dim)
    else:
        normal, offset = _linear(field, weights)
    normal = np.atleast_1d(normal)
    if normal.shape != (dim,):
        raise UsageError(
            f"{field}: shape {normal.shape}; the data have {plural(dim, 'feature')}; give data "
            "with the features that it was fitted on"
        )
    if not (np.isfinite(normal).all() and np.isfinite(offset) and np.any(normal)):
        raise UsageError(f"{field}: must be finite and not all 0")
    return Halfspace(tuple(normal.tolist()), offset)


def _linear(field: str, weights: Any) -> tuple[NDArray[np.float64], float]:
    normal = _numbers(field, weights, getattr(weights, "coef_", weights))
    intercept = _numbers(field, weights, getattr(weights, "intercept_", 0.0))
    if intercept.ndim:
        raise UsageError(f"{field}: more than one intercept; only two classes can be told apart")
    return normal, float(intercept)


def _numbers(field: str, weights: Any, found: Any) -> NDArray[np.float64]:
    """Weights as numbers, or what is accepted in place of what was given."""
    try:
        return np.asarray(found, dtype=np.float64).squeeze()
    except (TypeError, ValueError) as error:
        kind = type(weights).__name__
        raise UsageError(
            f"{field}: {kind} is no linear classifier; give a vector, a Halfspace, a result of "
            "fit or certify, or a fitted model with coef_ (and intercept_), alone or as the last "
            "step of a Pipeline of linear steps"
        ) from error


def _fold(field: str, pipeline: Any, dim: int) -> tuple[NDArray[np.float64], float]:
    """Weights on raw features of a pipeline whose steps are all x -> x A + b."""
    steps = [(name, step) for name, step in pipeline.steps if step not in (None, "passthrough")]
    (_, last), before = steps[-1], steps[:-1]
    normal, offset = _linear(field, last)
    matrix, shift = np.eye(dim), np.zeros(dim)
    for name, step in before:
        one, moved = _affine(field, name, step, matrix.shape[1])
        matrix, shift = matrix @ one, shift @ one + moved
    normal = np.atleast_1d(normal)
    if normal.shape != shift.shape:
        raise UsageError(
            f"{field}: the last step of the Pipeline has weights of shape {normal.shape}, the "
            f"steps before it give {plural(len(shift), 'feature')}"
        )
    return matrix @ normal, float(offset + shift @ normal)


def _affine(field: str, name: str, step: Any, dim: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A and b of a fitted step, found by probing it; refused where it is anything else."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([scale * rng.standard_normal((8, dim)) for scale in _SCALES])
    try:
        b = _transform(step, np.zeros((1, dim)))[0]
        A = (_transform(step, _STEP * np.eye(dim)) - b) / _STEP
        found = _transform(step, rows)
    except Exception as error:
        raise UsageError(
            f"{field}: step {name!r} ({type(step).__name__}) of the Pipeline cannot be folded into "
            f"the weights: {one_line(error)}"
        ) from error
    size = np.abs(rows) @ np.abs(A) + np.abs(b)
    if not np.all(np.abs(found - (rows @ A + b)) <= _TOLERANCE * size):
        raise UsageError(
            f"{field}: step {name!r} ({type(step).__name__}) of the Pipeline is not linear, so the "
            "whole is no halfspace; apply this step to the data and certify what follows it"
        )
    return A, b


def _transform(step: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    names = getattr(step, "feature_names_in_", None)
    given: Any = rows
    if names is not None:  # it was fitted on a data frame, so there is pandas
        import pandas

        given = pandas.DataFrame(rows, columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names of features: those of the data are not at hand
        found = step.transform(given)
    dense = found.toarray() if hasattr(found, "toarray") else found
    return np.asarray(dense, dtype=np.float64)


def usable_halfspace(model: FitResult) -> Halfspace:
    """Return the halfspace of a fit, if it has one and it was not changed."""
    if model.digest and not is_as_written(model):
        raise DataError(
            "model: the result was changed after fit returned it (its digest does not fit); fit "
            "again, or give the halfspace itself: model=result.halfspace"
        )
    if model.halfspace is None:
        raise UsageError(f"model: the run was {model.verdict} and has no halfspace; {remedy(model)}")
    return model.halfspace


def doubt(result: FitResult) -> str:
    """Return what to know before a halfspace without a bound is used; else an empty text."""
    error = result.error
    if error is None:
        return f"the run was {result.verdict}: nothing bounds the error of its halfspace"
    if error.beats_guess:
        return ""
    guess = 1.0 if error.by_label is None else error.by_label.guess_error
    return (
        f"the halfspace may be no better than always guessing one class: its error is at most "
        f"{error.upper:.4g}, that of the guess {guess:.4g}"
    )


def warn_unverified(result: FitResult, *, stacklevel: int) -> None:
    """Warn the caller of a halfspace without a bound, in one line."""
    if words := doubt(result):
        warnings.warn(words, UnverifiedWarning, stacklevel=stacklevel + 1)


def predict_in_memory(model: FitResult, X: Any) -> Any:
    """Return the label of every row, as `FitResult.predict` does."""
    from streamhalf.data.kinds import is_frame
    from streamhalf.data.labelled import map_rows, predict_rows  # imports xarray
    from streamhalf.data.schema import array_of
    from streamhalf.data.zarr_groups import names_of_array

    halfspace = usable_halfspace(model)
    warn_unverified(model, stacklevel=3)
    classes = np.array(model.data.classes or (-1, 1))
    predict = partial(predict_rows, plane=halfspace.plane, classes=classes)
    if is_frame(X):
        return map_frame(predict, X, model.data.encoding, model.data.features, dtype=classes.dtype)
    check_columns(model, names_of_array(X, "X"), field="model")
    rows = X if hasattr(X, "shape") else array_of("X", X)
    if rows.ndim != 2 or rows.shape[1] != len(halfspace.normal):
        raise DataError(
            f"X: shape {tuple(rows.shape)}; the model was fitted on "
            f"{plural(len(halfspace.normal), 'feature')}: give (rows, features)"
        )
    return map_rows(predict, rows, dtype=classes.dtype)
