"""Localisation (Algorithm 4): margins, acceptance by rejection sampling, whitening, the map back.

delta is the scale of the localisation: accepted rows of N(0, I) follow N(0, Sigma) with
Sigma = I - (1 - delta^2) v v^T, and Sigma^{-1/2} x = x + (1/delta - 1) (v·x) v.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

GRID_ROWS = 4096
_SUB_BATCH = 16_384


def margins(X: NDArray[np.floating[Any]], v: NDArray[np.float64]) -> NDArray[np.floating[Any]]:
    """v·x of every row, in the precision of X.

    einsum sums each row by itself: unlike BLAS, its bits do not depend on where a chunk begins,
    so whether a row is accepted does not either.
    """
    result: NDArray[np.floating[Any]] = np.einsum("ij,j->i", X, v.astype(X.dtype))
    return result


def wide_margins(X: NDArray[np.floating[Any]], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """v·x of every row in float64 whatever X is, without a wide copy of all rows."""
    result = np.empty(len(X))
    for start in range(0, len(X), _SUB_BATCH):
        piece = X[start : start + _SUB_BATCH].astype(np.float64, copy=False)
        np.einsum("ij,j->i", piece, v, out=result[start : start + _SUB_BATCH])
    return result


def grid_margins(
    X: NDArray[np.floating[Any]], V: NDArray[np.float64], rows: NDArray[np.int64]
) -> NDArray[np.floating[Any]]:
    """v·x of every row for all vectors V (c, d) at once: (c, n), in the precision of X.

    BLAS may round a row differently depending on where it stands in the matrix. Rows are
    therefore multiplied in windows of 4,096 row numbers, each row at its own place in its window,
    what is missing filled with zeros: the bits depend on the row and its number alone.
    """
    vectors = np.ascontiguousarray(V, dtype=X.dtype)
    result = np.empty((len(V), len(X)), dtype=X.dtype)
    if len(X) == 0:
        return result
    firsts = np.arange(rows[0] // GRID_ROWS, rows[-1] // GRID_ROWS + 2) * GRID_ROWS
    bounds = np.searchsorted(rows, firsts).tolist()
    padded = np.zeros((GRID_ROWS, X.shape[1]), dtype=X.dtype)
    for begin, end in itertools.pairwise(bounds):
        if end - begin == GRID_ROWS:
            np.matmul(vectors, X[begin:end].T, out=result[:, begin:end])
        elif end > begin:
            places = rows[begin:end] % GRID_ROWS
            padded[places] = X[begin:end]
            result[:, begin:end] = (vectors @ padded.T)[:, places]
            padded[places] = 0
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
