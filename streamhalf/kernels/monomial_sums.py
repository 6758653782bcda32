"""Sums over rows of every monomial of degree <= k: the monomial sketch, each entry once.

The Gram matrix of the monomials of degree <= k/2 holds all of them, the larger ones several times. One symmetric
product is the simplest way to them. Degree 4 has a loop of its own: with x_0 = 1, a monomial of degree <= 4 is x_i x_j
x_k x_l with i <= j <= k <= l, so pairs (i, j) meet only those pairs (k, l) that begin where they end. That needs a
third of the products.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import frozen
from streamhalf.kernels.monomials import gram_positions, monomial_gram, monomial_ranks, monomial_tuples


def sum_monomials(X: NDArray[np.floating[Any]], degree: int) -> NDArray[np.float64]:
    """Sum over rows of every monomial of even degree <= `degree`, in rank order.

    Products stay in the input's precision among a few rows and are summed in float64. Where float32 overflows, the sum
    is taken again in float64.
    """
    dim = X.shape[1]
    if degree != 4:
        rows, columns = gram_positions(dim, degree)
        return monomial_gram(X, degree // 2)[rows, columns]
    with np.errstate(over="ignore", invalid="ignore"):
        sums = _sum_in_loop(X)
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


def _partners(dim: int) -> NDArray[np.int64]:
    """Pairs (k, l), k <= l, falling k first: those with k >= j come before all others."""
    return np.array([(k, m) for k in range(dim, -1, -1) for m in range(k, dim + 1)])


@lru_cache(maxsize=8)
def _loop_ranks(dim: int) -> NDArray[np.int64]:
    """Ranks of the sums of the loop, in its order."""
    last, partners = dim + 1, _partners(dim)
    pairs = ((i, j, partners[: (last - j) * (last - j + 1) // 2]) for j in range(last) for i in range(j + 1))
    return _padded_ranks(np.concatenate([np.insert(met, [0, 0], (i, j), axis=1) for i, j, met in pairs]), dim)


def _sum_in_loop(X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    from streamhalf.kernels import loops

    ranks = _loop_ranks(X.shape[1])
    found, sums = np.zeros(len(ranks)), np.empty(len(ranks))
    loops.sum_quartics(frozen(X), found)
    sums[ranks] = found
    return sums
