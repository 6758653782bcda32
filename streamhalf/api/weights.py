"""A linear classifier, however it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.errors import UsageError
from streamhalf.names import plural
from streamhalf.records import CertifyResult, FitResult, Halfspace


def _numbers(field: str, weights: Any, found: Any) -> NDArray[np.float64]:
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
            f"{field}: {kind} is no linear classifier; give a vector, a Halfspace, a result of "
            f"fit, or a fitted model with coef_ (and intercept_){steps}"
        ) from error


def as_halfspace(weights: Any, dim: int, *, field: str = "weights") -> Halfspace:
    """A halfspace from a vector, a fitted linear model, or a result of `fit` or `certify`.

    Errors call it by the name of its `field`.
    """
    if isinstance(weights, FitResult) and weights.halfspace is None:
        raise UsageError(
            f"{field}: the run was {weights.verdict} and has no halfspace; give another model"
        )
    if isinstance(weights, FitResult | CertifyResult):
        weights = weights.halfspace
    if isinstance(weights, Halfspace):
        normal, offset = np.array(weights.normal), weights.offset
    else:
        normal = _numbers(field, weights, getattr(weights, "coef_", weights))
        intercept = _numbers(field, weights, getattr(weights, "intercept_", 0.0))
        if intercept.ndim:
            raise UsageError(
                f"{field}: more than one intercept; only two classes can be told apart"
            )
        offset = float(intercept)
    normal = np.atleast_1d(normal)
    if normal.shape != (dim,):
        raise UsageError(f"{field}: shape {normal.shape}; the data have {plural(dim, 'feature')}")
    if not (np.isfinite(normal).all() and np.isfinite(offset) and np.any(normal)):
        raise UsageError(f"{field}: must be finite and not all 0")
    return Halfspace(tuple(normal.tolist()), offset)
