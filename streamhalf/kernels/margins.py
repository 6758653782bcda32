"""v·x of rows and what follows from it: sums in a fixed order, in float64 whatever the rows are.

A row's margin has the same bits in every chunk, so whether a row is accepted, wrong or in a slab depends on the row
alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from streamhalf import kernels

Rows = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]
_PIECE = 16_384  # rows whose float64 copies stay in cache
_SMALLEST, _LARGEST = 1e-140, 1e140  # lengths whose squares neither vanish nor overflow
_LEAST = 1e-290  # the inverses of shorter lengths overflow


def margins(X: Rows, V: Doubles) -> Doubles:
    """v·x of every row: (n,) for one vector, (c, n) for vectors (c, d)."""
    vectors = np.atleast_2d(V)
    out = np.empty((len(vectors), len(X)))
    kernels.loops.margins(frozen(X), padded(vectors), out)
    return out[0] if V.ndim == 1 else out


def transform_rows(X: Rows, centre: Doubles, matrix: Doubles, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """W (x - centre) of every row, (n, k): computed in float64, then rounded to `dtype`."""
    X, W, centre = frozen(X), padded(matrix), np.array(centre, dtype=np.float64)
    result = np.empty((len(X), len(matrix)), dtype=dtype)
    for start in range(0, len(X), _PIECE):
        piece = X[start : start + _PIECE]
        out = np.empty((len(piece), len(matrix)))
        kernels.loops.transform(piece, centre, W, out)
        result[start : start + _PIECE] = out
    return result


def count_errors(X: Rows, y: NDArray[np.int8], V: Doubles, thresholds: Doubles) -> tuple[Counts, Counts]:
    """Rows whose label is neither sgn(v·x - t) of two planes (c, c), with sgn(0) = +1; those of each labelled +1 (c,).

    The diagonal are the errors of each plane.
    """
    shared, positive = np.zeros((len(V), len(V)), dtype=np.int64), np.zeros(len(V), dtype=np.int64)
    kernels.loops.count_errors(frozen(X), frozen(y), padded(V), padded(thresholds), shared, positive)
    return np.tril(shared) + np.tril(shared, -1).T, positive


def count_slabs_along(X: Rows, V: Doubles, thresholds: Doubles, *, width: float, half_count: int) -> Counts:
    """Rows in each slab of equal width of v·x - t, (c, 2 half_count + 2), the outer two tails.

    Slab 1 + half_count + i is i <= (v·x - t) / width < i + 1.
    """
    counts = np.zeros((len(V), 2 * half_count + 2), dtype=np.int64)
    kernels.loops.count_slabs(frozen(X), padded(V), padded(thresholds), float(width), counts)
    return counts


def native_margins(X: Rows, v: Doubles) -> Rows:
    """v·x of every row in the precision of X: synthetic data are defined by its bits."""
    return np.asarray(np.einsum("ij,j->i", X, v.astype(X.dtype)))


def row_lengths(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lengths of rows, however long; what is so short that it has no inverse counts as 0.

    Each row by itself: the bits do not depend on the others.
    """
    with np.errstate(over="ignore", under="ignore"):
        lengths: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", Z, Z))
    odd = np.flatnonzero(~((lengths > _SMALLEST) & (lengths < _LARGEST)))
    if len(odd):
        largest = np.abs(Z[odd]).max(axis=1)
        largest[largest < _LEAST] = 0.0
        scaled = Z[odd] / np.where(largest > 0, largest, 1.0)[:, None]
        lengths[odd] = largest * np.linalg.norm(scaled, axis=1)
    return lengths


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array in C order, read-only: one kind of argument for which a loop is compiled."""
    view = np.require(array, requirements=("C", "A")).view()
    view.flags.writeable = False
    return view


def padded(array: Doubles) -> Doubles:
    """A copy with every dimension filled up with zeros to a multiple of 4."""
    copy = np.zeros([-(-size // 4) * 4 for size in array.shape])
    copy[tuple(map(slice, array.shape))] = array
    return copy
