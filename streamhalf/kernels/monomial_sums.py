"""Sums over rows of every monomial of degree <= k: the monomial sketch, each entry once.

The Gram matrix of the monomials of degree <= k/2 holds all of them, the larger ones several times.
One symmetric product is the simplest way to them. Mostly it is faster to take degree 4 apart: with
x_0 = 1, a monomial of degree <= 4 is x_i x_j x_k x_l with i <= j <= k <= l, so pairs (i, j) meet
only those pairs (k, l) that begin where they end. That needs a third of the products.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.monomials import count_monomials, gram_positions, monomial_gram, monomial_ranks, monomial_tuples

_SPLIT_FROM, _SPLIT_TO, _SPLIT_AGAIN = 5, 12, 20
"""Features with which taking degree 4 apart is faster than one symmetric product: from 5 to 12, and
from 20 on. Between them the pieces are neither small nor large enough for BLAS."""

_SMALL_GROUP, _LARGE_GROUP = 3, 8
_FEW_FEATURES, _SUB_BATCH = 4096, 1024
"""Rows of which features are made at once, where they are few, and rows of one product."""


def sum_monomials(X: NDArray[np.floating[Any]], degree: int) -> NDArray[np.float64]:
    """Sum over rows of every monomial of even degree <= `degree`, in rank order.

    Products stay in the input's precision inside a sub-batch and are summed in float64. Where
    float32 overflows, the sum is taken again in float64.
    """
    dim = X.shape[1]
    if degree != 4 or not (_SPLIT_FROM <= dim <= _SPLIT_TO or dim >= _SPLIT_AGAIN):
        rows, columns = gram_positions(dim, degree)
        return monomial_gram(X, degree // 2)[rows, columns]
    with np.errstate(over="ignore", invalid="ignore"):
        sums = _sum_split(X)
    if X.dtype == np.float32 and not np.isfinite(sums).all():
        return sum_monomials(X.astype(np.float64), degree)
    return sums


def spread_gram(moments: NDArray[np.float64], dim: int, degree: int) -> NDArray[np.float64]:
    """The Gram matrix of the monomials of degree <= `degree`, from moments up to twice that."""
    return moments[product_ranks(dim, degree)]


@lru_cache(maxsize=8)
def product_ranks(dim: int, degree: int) -> NDArray[np.int32]:
    """Rank of the product of any two monomials of degree <= `degree`: (p, p)."""
    tuples = np.concatenate([np.pad(monomial_tuples(dim, m) + 1, ((0, 0), (degree - m, 0))) for m in range(degree + 1)])
    ranks = np.empty((len(tuples), len(tuples)), dtype=np.int32)
    for row, factor in zip(ranks, tuples, strict=True):
        both = np.column_stack([np.broadcast_to(factor, tuples.shape), tuples])
        row[:] = _padded_ranks(np.sort(both, axis=1), dim)
    ranks.setflags(write=False)
    return ranks


def _padded_ranks(tuples: NDArray[np.int64], dim: int) -> NDArray[np.int64]:
    """Ranks of rising tuples of variables 1, ..., d; lower degrees have zeros in front."""
    ranks = np.empty(len(tuples), dtype=np.int64)
    zeros = np.count_nonzero(tuples == 0, axis=1)
    for padding in np.unique(zeros):
        chosen = zeros == padding
        ranks[chosen] = monomial_ranks(tuples[chosen][:, padding:] - 1, dim)
    return ranks


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """Pairs (i, j) with j in a group, times all pairs (k, l) with k from the group's first on."""

    pairs: slice
    n_partners: int
    entries: NDArray[np.int64]
    ranks: NDArray[np.int64]


@lru_cache(maxsize=4)
def _split_products(dim: int) -> tuple[_Product, ...]:
    """The products for variables 0, ..., d, and which of their entries is which monomial."""
    last, size = dim + 1, _SMALL_GROUP if dim <= _SPLIT_TO else _LARGE_GROUP
    partners = np.array([(k, m) for k in range(dim, -1, -1) for m in range(k, last)])
    products = []
    for first in range(0, last, size):
        stop = min(first + size, last)
        pairs = np.array([(i, j) for j in range(first, stop) for i in range(j + 1)])
        met = partners[: _triangle(last - first)]
        row, column = np.nonzero(pairs[:, 1:] <= met[:, 0])
        tuples = np.column_stack([pairs[row], met[column]])
        products.append(
            _Product(
                slice(_triangle(first), _triangle(stop)), len(met), row * len(met) + column, _padded_ranks(tuples, dim)
            )
        )
    return tuple(products)


def _sum_split(X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    dim = X.shape[1]
    products = _split_products(dim)
    step = min(_FEW_FEATURES if dim <= _SPLIT_TO else _SUB_BATCH, max(1, len(X)))
    variables = np.ones((dim + 1, step), dtype=X.dtype)
    low, high = (np.empty((_triangle(dim + 1), step), dtype=X.dtype) for _ in range(2))
    totals = [np.zeros((one.pairs.stop - one.pairs.start, one.n_partners)) for one in products]
    for start in range(0, len(X), step):
        piece = X[start : start + step]
        variables[1:, : len(piece)] = piece.T
        ends = itertools.accumulate(range(1, dim + 2))
        for j, end in enumerate(ends):
            np.multiply(variables[: j + 1], variables[j], out=low[end - j - 1 : end])
            k = dim - j
            np.multiply(variables[k:], variables[k], out=high[end - j - 1 : end])
        for begin in range(0, len(piece), _SUB_BATCH):
            window = slice(begin, min(begin + _SUB_BATCH, len(piece)))
            for one, total in zip(products, totals, strict=True):
                total += low[one.pairs, window] @ high[: one.n_partners, window].T
    sums = np.empty(count_monomials(dim, 4))
    for one, total in zip(products, totals, strict=True):
        sums[one.ranks] = total.ravel()[one.entries]
    return sums


def _triangle(count: int) -> int:
    return count * (count + 1) // 2
