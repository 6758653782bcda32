"""v·x of rows and what follows from it: sums in a fixed order, in float64 whatever the rows are.

A row's margin has the same bits in every chunk, so whether a row is accepted, wrong or in a slab depends on the row
alone. The loops are compiled (`kernels.loops`); Numba is imported when the first of them is called.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Rows = NDArray[np.floating[Any]]
_PIECE = 16_384  # rows whose float64 copies stay in cache


def margins(X: Rows, V: NDArray[np.float64]) -> NDArray[np.float64]:
    """v·x of every row: (n,) for one vector, (c, n) for vectors (c, d)."""
    from streamhalf.kernels import loops

    vectors = np.atleast_2d(V)
    out = np.empty((len(vectors), len(X)))
    loops.margins(frozen(X), padded(vectors), padded(np.zeros(len(vectors))), out)
    return out[0] if V.ndim == 1 else out


def transform_rows(
    X: Rows, centre: NDArray[np.float64], matrix: NDArray[np.float64], dtype: DTypeLike = np.float64
) -> NDArray[Any]:
    """W (x - centre) of every row, (n, k): computed in float64, then rounded to `dtype`."""
    from streamhalf.kernels import loops

    X, k, W = frozen(X), len(matrix), padded(matrix)
    centre = np.array(centre, dtype=np.float64)
    result = np.empty((len(X), k), dtype=dtype)
    for start in range(0, len(X), _PIECE):
        piece = X[start : start + _PIECE]
        out = np.empty((len(piece), k))
        loops.transform(piece, centre, W, out)
        result[start : start + _PIECE] = out
    return result


def count_errors(
    X: Rows, y: NDArray[np.int8], V: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows whose label is neither sgn(v·x - t) of two planes (c, c), with sgn(0) = +1.

    The diagonal are the errors of each; and those of them with label +1 (c,).
    """
    from streamhalf.kernels import loops

    shared, positive = np.zeros((len(V), len(V)), dtype=np.int64), np.zeros(len(V), dtype=np.int64)
    loops.count_errors(frozen(X), frozen(y), padded(V), padded(thresholds), shared, positive)
    return np.tril(shared) + np.tril(shared, -1).T, positive


def count_slabs_along(
    X: Rows, V: NDArray[np.float64], thresholds: NDArray[np.float64], *, width: float, half_count: int
) -> NDArray[np.int64]:
    """Rows in each slab of equal width of v·x - t, (c, 2 half_count + 2), the outer two tails.

    Slab 1 + half_count + i is i <= (v·x - t) / width < i + 1.
    """
    from streamhalf.kernels import loops

    counts = np.zeros((len(V), 2 * half_count + 2), dtype=np.int64)
    loops.count_slabs(frozen(X), padded(V), padded(thresholds), float(width), counts)
    return counts


def native_margins(X: Rows, v: NDArray[np.float64]) -> Rows:
    """v·x of every row in the precision of X: synthetic data are defined by its bits."""
    result: Rows = np.einsum("ij,j->i", X, v.astype(X.dtype))
    return result


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The array in C order, read-only: one kind of argument for which a loop is compiled."""
    view = np.require(array, requirements=("C", "A")).view()
    view.flags.writeable = False
    return view


def padded(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """A copy with every dimension filled up with zeros to a multiple of 4."""
    copy = np.zeros([-(-size // 4) * 4 for size in array.shape])
    copy[tuple(map(slice, array.shape))] = array
    return copy
