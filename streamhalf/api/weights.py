"""A linear classifier, however it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.errors import UsageError
from streamhalf.names import plural
from streamhalf.records import FitResult, Halfspace


def _numbers(weights: Any, found: Any) -> NDArray[np.float64]:
    """Weights as numbers, or what is accepted in place of what was given."""
    try:
        return np.asarray(found, dtype=np.float64).squeeze()
    except (TypeError, ValueError) as error:
        kind = type(weights).__name__
        steps = (
            "; of a Pipeline give the weights on raw features: those of its last step, with every "
            "scaling before it multiplied in"
            if hasattr(weights, "named_steps")
            else ""
        )
        raise UsageError(
            f"weights: {kind} is no linear classifier; give a vector, a Halfspace, a result of "
            f"fit, or a fitted model with coef_ (and intercept_){steps}"
        ) from error


def as_halfspace(weights: Any, dim: int) -> Halfspace:
    """A halfspace from a vector, a fitted linear model, or a result of `fit`."""
    if isinstance(weights, FitResult):
        weights = weights.halfspace
    if isinstance(weights, Halfspace):
        normal, offset = np.array(weights.normal), weights.offset
    else:
        normal = _numbers(weights, getattr(weights, "coef_", weights))
        intercept = _numbers(weights, getattr(weights, "intercept_", 0.0))
        if intercept.ndim:
            raise UsageError("weights: more than one intercept; only two classes can be certified")
        offset = float(intercept)
    normal = np.atleast_1d(normal)
    if normal.shape != (dim,):
        raise UsageError(f"weights: shape {normal.shape}; the data have {plural(dim, 'feature')}")
    if not (np.isfinite(normal).all() and np.isfinite(offset) and np.any(normal)):
        raise UsageError("weights: must be finite and not all 0")
    return Halfspace(tuple(normal.tolist()), offset)
