"""v·x of rows, with bits that depend on the row alone and not on the chunk it came in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

GRID_ROWS = 8192
_SUB_BATCH, _ROUGH_BATCH = 16_384, 8192

_TURNED = 16
"""Rows of fewer features are turned into columns first; of more, to turn them costs more than the
product, and what comes out is turned instead."""

_WIDE, _FEW = 64, 32
"""With so many features, v·x of up to so many vectors row by row costs less than to place rows."""


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
    reach = largest * np.abs(vectors).sum(axis=1)
    slack = 2 * (dim + 5) * (float(kind.eps) * reach + float(kind.tiny))
    slack[reach > float(kind.max) / 8] = np.inf  # a part of the sum may overflow, and not the sum
    rounded = vectors.astype(X.dtype) if shifts is not None else V.astype(X.dtype)
    multiply = _turned_first if dim < _TURNED else _turned_last
    with np.errstate(over="ignore", invalid="ignore"):
        for start, product in zip(
            range(0, len(X), _ROUGH_BATCH), multiply(X, rounded), strict=True
        ):
            yield slice(start, start + product.shape[1]), product, slack


def _turned_first(
    X: NDArray[np.floating[Any]], vectors: NDArray[np.floating[Any]]
) -> Iterator[NDArray[np.floating[Any]]]:
    """Products of pieces of the rows, and of -1 beyond them, with vectors: (c, m) each."""
    dim = X.shape[1]
    turned = np.empty((vectors.shape[1], min(_ROUGH_BATCH, len(X))), dtype=X.dtype)
    turned[dim:] = -1
    for start in range(0, len(X), _ROUGH_BATCH):
        rows = X[start : start + _ROUGH_BATCH]
        piece = turned[:, : len(rows)]
        piece[:dim] = rows.T
        yield vectors @ piece


def _turned_last(
    X: NDArray[np.floating[Any]], vectors: NDArray[np.floating[Any]]
) -> Iterator[NDArray[np.floating[Any]]]:
    """The same products."""
    dim = X.shape[1]
    columns = np.ascontiguousarray(vectors[:, :dim].T)
    for start in range(0, len(X), _ROUGH_BATCH):
        product = X[start : start + _ROUGH_BATCH] @ columns
        for shift in vectors.T[dim:]:
            product -= shift
        yield np.ascontiguousarray(product.T)


def grid_margins(
    X: NDArray[np.floating[Any]], V: NDArray[np.float64], rows: NDArray[np.int64]
) -> NDArray[np.floating[Any]]:
    """v·x of all rows for all vectors V (c, d) at once: (c, n), as X is.

    BLAS may round a row differently depending on where it stands in the matrix. Rows are
    therefore multiplied in windows of 8,192 row numbers, each row at its own place in its window,
    what is missing filled with anything: the bits depend on the row and its number alone. Whole
    windows are multiplied where they are.
    """
    if X.shape[1] >= _WIDE and len(V) <= _FEW:
        return np.stack([margins(X, v) for v in V])
    vectors = np.ascontiguousarray(V.T, dtype=X.dtype)
    result = np.empty((len(V), len(X)), dtype=X.dtype)
    if len(X) == 0:
        return result
    firsts = np.arange(rows[0] // GRID_ROWS, rows[-1] // GRID_ROWS + 2) * GRID_ROWS
    order, padded = np.zeros(GRID_ROWS, dtype=np.int64), np.empty((GRID_ROWS, X.shape[1]), X.dtype)
    product = np.empty((GRID_ROWS, len(V)), dtype=X.dtype)
    for begin, end in itertools.pairwise(np.searchsorted(rows, firsts).tolist()):
        window = X[begin:end]
        if len(window) == GRID_ROWS:
            np.matmul(window, vectors, out=product)
            result[:, begin:end] = product.T
        elif len(window):
            places = rows[begin:end] % GRID_ROWS
            # to take rows for places is faster than to put them there
            order[places] = np.arange(end - begin)
            np.matmul(np.take(window, order, axis=0, out=padded, mode="clip"), vectors, out=product)
            result[:, begin:end] = np.take(product, places, axis=0).T
    return result
