"""Packed moments within slabs of a direction v: every distinct monomial of what is orthogonal to v.

The moment tensors of degree <= k in m variables have C(m + k, k) distinct entries. They are read
off the Gram matrix of the monomials of degree <= k/2, one matrix product per slab.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.monomials import (
    count_monomials,
    degree_offset,
    monomial_gram,
    monomial_ranks,
    monomial_tuples,
)
from streamhalf.kernels.slabs import count_slabs


def complement_basis(v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal basis of the complement of the unit vector v, as columns (d, d - 1).

    The Householder reflection that swaps v and the first axis, up to sign, without its first
    column: orthogonal to rounding whatever v is.
    """
    dim = len(v)
    mirror = np.array(v, dtype=np.float64)
    mirror[0] += 1.0 if mirror[0] >= 0 else -1.0
    reflection = np.eye(dim) - np.outer(mirror, mirror) * (2 / float(mirror @ mirror))
    return np.ascontiguousarray(reflection[:, 1:])


@cache
def gram_positions(dim: int, degree: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of the Gram matrix at which each distinct monomial stands."""
    rows = np.empty(count_monomials(dim, degree), dtype=np.int64)
    columns = np.empty_like(rows)
    for m in range(degree + 1):
        tuples = monomial_tuples(dim, m)
        here = slice(degree_offset(dim, m), degree_offset(dim, m) + len(tuples))
        rows[here] = monomial_ranks(tuples[:, : m // 2], dim)
        columns[here] = monomial_ranks(tuples[:, m // 2 :], dim)
    return rows, columns


def sum_slab_monomials(
    S: NDArray[np.floating[Any]], slab: NDArray[np.int32], n_slabs: int, degree: int
) -> NDArray[np.float64]:
    """Per slab, the sum of every monomial of even degree <= `degree`: (n_slabs, monomials).

    Rows are sorted by slab and each slab is one product. Products in the precision of S, in
    pieces that stay in cache; sums in float64.
    """
    order = np.argsort(slab.astype(np.int16) if n_slabs < 2**15 else slab, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(count_slabs(slab, n_slabs))])
    ordered = S[order]
    rows, columns = gram_positions(S.shape[1], degree)
    sums = np.zeros((n_slabs, len(rows)))
    for i in np.flatnonzero(np.diff(bounds)):
        gram = monomial_gram(ordered[bounds[i] : bounds[i + 1]], degree // 2)
        sums[i] = gram[rows, columns]
    return sums


def slab_extremes(
    size: NDArray[np.float64], slab: NDArray[np.int32], n_slabs: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest `size` in each slab; infinity and 0 where a slab is empty."""
    low = np.full(n_slabs, np.inf)
    high = np.zeros(n_slabs)
    np.minimum.at(low, slab, size)
    np.maximum.at(high, slab, size)
    return low, high
