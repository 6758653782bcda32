"""Packed moments within slabs of a direction v: every distinct monomial of what is orthogonal to v.

The moment tensors of degree <= k in m variables have C(m + k, k) distinct entries. They are read
off the Gram matrix of the monomials of degree <= k/2, one matrix product per slab.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.monomials import (
    count_monomials,
    extend_monomials,
    gram_positions,
    sub_batch_rows,
)
from streamhalf.kernels.slabs import SlabOrder


def complement_basis(v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal basis of the complement of the unit vector v, as columns (d, d - 1).

    The Householder reflection that swaps v and the first axis, up to sign, without its first
    column: orthogonal to rounding whatever v is.
    """
    dim = len(v)
    mirror = v / np.linalg.norm(v)
    mirror[0] += 1.0 if mirror[0] >= 0 else -1.0
    reflection = np.eye(dim) - np.outer(mirror, mirror) * (2 / float(mirror @ mirror))
    return np.ascontiguousarray(reflection[:, 1:])


def split_basis(
    basis: NDArray[np.float64], direction: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The unit vector along the direction's part within a basis, and a basis of what is left."""
    along = basis.T @ direction
    along = along / np.linalg.norm(along)
    return basis @ along, np.ascontiguousarray(basis @ complement_basis(along))


def sum_slab_monomials(
    X: NDArray[np.floating[Any]],
    signs: NDArray[np.int8],
    basis: NDArray[np.float64],
    order: SlabOrder,
    degree: int,
) -> NDArray[np.float64]:
    """Per slab, the sum of every monomial of even degree <= `degree` of s = sign·basis^T x.

    Each slab is one product, (n_slabs, monomials) in all, in pieces that stay in cache. All of it
    in float64 whatever X is: bounds that hold for certain rest on these sums, and of a sum of n
    float32 numbers no more than 24 - log2(n) bits are certain.
    """
    dim = basis.shape[1]
    p = count_monomials(dim, degree // 2)
    rows, columns = gram_positions(dim, degree)
    positions = rows * p + columns
    turned = np.ascontiguousarray(basis.T)
    step = sub_batch_rows(p, turned.itemsize)
    features = np.empty((p, min(step, len(X))))
    sums = np.zeros((len(order.counts), len(positions)))
    with np.errstate(over="ignore", invalid="ignore"):
        for window in order.windows(step):
            filled = features[:, : len(window.rows)]
            taken = np.take(X, window.rows, axis=0).astype(np.float64, copy=False)
            np.matmul(turned, taken.T, out=filled[1 : dim + 1])
            filled[1 : dim + 1] *= np.take(signs, window.rows)
            extend_monomials(dim, degree // 2, filled)
            for number, columns_of in window.segments():
                piece = filled[:, columns_of]
                sums[number] += np.take(piece @ piece.T, positions)
    return sums


def slab_extremes(
    margin: NDArray[np.float64], order: SlabOrder
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest margin in each slab; infinity and -infinity where a slab is empty."""
    low, high = np.full(len(order.counts), np.inf), np.full(len(order.counts), -np.inf)
    held = np.flatnonzero(order.counts)
    if len(held):
        ordered = np.take(margin, order.order)
        low[held] = np.minimum.reduceat(ordered, order.bounds[held])
        high[held] = np.maximum.reduceat(ordered, order.bounds[held])
    return low, high
