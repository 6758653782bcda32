"""v·x of rows, with bits that depend on the row alone and not on the chunk it came in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

GRID_ROWS = 8192
_SUB_BATCH, _ROUGH_BATCH = 16_384, 8192


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


def rough_margins(
    X: NDArray[np.floating[Any]], V: NDArray[np.float64], shifts: NDArray[np.float64] | None = None
) -> Iterator[tuple[slice, NDArray[np.floating[Any]], NDArray[np.float64]]]:
    """v·x - shift of all rows for all vectors V (c, d), in pieces for the cache: (c, m), as X is.

    The way BLAS rounds changes with a row's place in memory. Beside each piece comes how far its
    numbers may be, at most, (c,), from those that any other order of summation gives in this
    precision or a higher one, `margins` and `wide_margins` among them: what is further from a
    border than that is settled.
    """
    kind, dim = np.finfo(X.dtype), X.shape[1]
    vectors = np.column_stack([V, np.zeros(len(V)) if shifts is None else shifts])
    largest = max(1.0, float(X.max(initial=0)), -float(X.min(initial=0)))
    slack = 2 * (dim + 5) * (float(kind.eps) * largest * np.abs(vectors).sum(axis=1) + kind.tiny)
    rounded = vectors.astype(X.dtype) if shifts is not None else V.astype(X.dtype)
    turned = np.empty((rounded.shape[1], min(_ROUGH_BATCH, len(X))), dtype=X.dtype)
    turned[dim:] = -1
    for start in range(0, len(X), _ROUGH_BATCH):
        window = slice(start, min(start + _ROUGH_BATCH, len(X)))
        piece = turned[:, : window.stop - start]
        piece[:dim] = X[window].T
        with np.errstate(over="ignore", invalid="ignore"):
            yield window, rounded @ piece, slack


def grid_margins(
    X: NDArray[np.floating[Any]],
    V: NDArray[np.float64],
    rows: NDArray[np.int64],
    chosen: NDArray[np.int64] | None = None,
) -> NDArray[np.floating[Any]]:
    """v·x of all rows, or of those `chosen`, for all vectors V (c, d) at once: (c, n), as X is.

    BLAS may round a row differently depending on where it stands in the matrix. Rows are
    therefore multiplied in windows of 8,192 row numbers, each row at its own place in its window,
    what is missing filled with anything: the bits depend on the row and its number alone. Whole
    windows are multiplied where they are, which costs less than to put chosen rows into place.
    """
    vectors = np.ascontiguousarray(V.T, dtype=X.dtype)
    result = np.empty((len(V), len(X) if chosen is None else len(chosen)), dtype=X.dtype)
    if len(X) == 0:
        return result
    firsts = np.arange(rows[0] // GRID_ROWS, rows[-1] // GRID_ROWS + 2) * GRID_ROWS
    bounds = np.searchsorted(rows, firsts)
    targets = bounds if chosen is None else np.searchsorted(chosen, bounds)
    order, padded = np.zeros(GRID_ROWS, dtype=np.int64), np.empty((GRID_ROWS, X.shape[1]), X.dtype)
    product = np.empty((GRID_ROWS, len(V)), dtype=X.dtype)
    windows = (itertools.pairwise(some.tolist()) for some in (bounds, targets))
    for (begin, end), (first, last) in zip(*windows, strict=True):
        if first == last:
            continue
        window = X[begin:end]
        taken = slice(None) if chosen is None else chosen[first:last] - begin
        if len(window) == GRID_ROWS:
            np.matmul(window, vectors, out=product)
        else:
            places = rows[begin:end] % GRID_ROWS
            # to take rows for places is faster than to put them there
            order[places] = np.arange(end - begin)
            np.matmul(np.take(window, order, axis=0, out=padded, mode="clip"), vectors, out=product)
            taken = places[taken]
        if isinstance(taken, slice):
            result[:, first:last] = product.T
        else:
            result[:, first:last] = np.take(product, taken, axis=0).T
    return result
