"""v·x of rows, with bits that depend on the row alone and not on the chunk it came in."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

GRID_ROWS = 8192
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
    therefore multiplied in windows of 8,192 row numbers, each row at its own place in its window,
    what is missing filled with anything: the bits depend on the row and its number alone.
    """
    vectors = np.ascontiguousarray(V.T, dtype=X.dtype)
    result = np.empty((len(V), len(X)), dtype=X.dtype)
    if len(X) == 0:
        return result
    firsts = np.arange(rows[0] // GRID_ROWS, rows[-1] // GRID_ROWS + 2) * GRID_ROWS
    bounds = np.searchsorted(rows, firsts).tolist()
    padded = np.zeros((GRID_ROWS, X.shape[1]), dtype=X.dtype)
    product = np.empty((GRID_ROWS, len(V)), dtype=X.dtype)
    for begin, end in itertools.pairwise(bounds):
        if end - begin == GRID_ROWS:
            np.matmul(X[begin:end], vectors, out=product)
            result[:, begin:end] = product.T
        elif end > begin:
            places = rows[begin:end] % GRID_ROWS
            padded[places] = X[begin:end]
            np.matmul(padded, vectors, out=product)
            result[:, begin:end] = np.take(product, places, axis=0).T
    return result
