"""Localisation (Algorithm 4): margins, acceptance by rejection sampling, whitening, the map back.

delta is the scale of the localisation: accepted rows of N(0, I) follow N(0, Sigma) with
Sigma = I - (1 - delta^2) v v^T, and Sigma^{-1/2} x = x + (1/delta - 1) (v·x) v.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def margins(X: NDArray[np.floating[Any]], v: NDArray[np.float64]) -> NDArray[np.floating[Any]]:
    """v·x of every row, in the precision of X.

    einsum sums each row by itself: unlike BLAS, its bits do not depend on where a chunk begins,
    so whether a row is accepted does not either.
    """
    result: NDArray[np.floating[Any]] = np.einsum("ij,j->i", X, v.astype(X.dtype))
    return result


def acceptance_probability(
    margin: NDArray[np.floating[Any]], delta: float
) -> NDArray[np.floating[Any]]:
    """exp(-(v·x)^2 (delta^-2 - 1) / 2); under N(0, I) its mean is delta (Algorithm 4, line 1)."""
    rate = margin.dtype.type((delta**-2 - 1) / 2)
    result: NDArray[np.floating[Any]] = np.exp(-np.square(margin) * rate)
    return result


def whiten_localized(
    X: NDArray[np.floating[Any]],
    margin: NDArray[np.floating[Any]],
    v: NDArray[np.float64],
    delta: float,
) -> NDArray[np.floating[Any]]:
    """Sigma^{-1/2} x of every row (Algorithm 4, line 3)."""
    stretch = X.dtype.type(1 / delta - 1)
    result: NDArray[np.floating[Any]] = X + np.outer(margin * stretch, v.astype(X.dtype))
    return result


def map_back(w: NDArray[np.float64], v: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """Unit vector along Sigma^{-1/2} w (Algorithm 4, last line, whose Sigma^{1/2} is a slip)."""
    raw = w + (1 / delta - 1) * float(w @ v) * v
    return raw / np.linalg.norm(raw)
