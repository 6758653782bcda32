"""Slabs {x : edge_i <= v·x < edge_{i+1}}: which slab a row lies in, and sums within slabs.

With m edges there are m + 1 slabs: number 0 below the first edge, number m from the last one on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamhalf import kernels
from streamhalf.kernels.margins import frozen, padded
from streamhalf.kernels.monomials import SUB_BATCH_NBYTES

Rows = NDArray[np.floating[Any]]
Array = NDArray[np.float64]
_PRODUCT_ENTRIES = 10_000  # one small matrix product takes as long as so many products of two features of one row


def assign_slabs(margin: Rows, edges: Array) -> NDArray[np.int32]:
    """Slab number of every margin, of any shape."""
    values = np.ascontiguousarray(margin, dtype=np.float64)
    slabs = np.zeros(values.shape, dtype=np.int32)
    if not len(edges):  # one slab, infinite margins included
        return slabs
    kernels.loops.number_cells(frozen(values.reshape(-1)), *_located(edges), slabs.reshape(-1))
    return slabs


def scan_thresholds(X: Rows, y: NDArray[np.int8], V: Array, thresholds: Array, edges: Array) -> NDArray[np.int64]:
    """Rows of either label, -1 first, in each slab of v·x - t: (c, 2, n_slabs)."""
    counts = np.zeros((len(V), 2, len(edges) + 1), dtype=np.int64)
    kernels.loops.scan_thresholds(frozen(X), frozen(y), padded(V), padded(thresholds), *_located(edges), counts)
    return counts


def _located(edges: Array) -> tuple[Array, NDArray[np.int32], int]:
    """Edges, how many lie before each cell, and how often the fullest cell is halved."""
    edges = np.array(edges if len(edges) else [np.inf], dtype=np.float64)
    first = _edges_before_cells(edges.tobytes())
    return edges, first, int(np.diff(first).max()).bit_length()


@lru_cache(maxsize=64)
def _edges_before_cells(edges: bytes) -> NDArray[np.int32]:
    """Edges in cells before each one; a cell is the leading bits of float32 numbers, in order."""
    with np.errstate(over="ignore"):
        words = (np.frombuffer(edges) + 0.0).astype(np.float32).view(np.uint32)
    masks = np.where(words >> np.uint32(31) == 1, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))
    cells = (words ^ masks) >> np.uint32(kernels.loops.CELL_SHIFT)
    return np.searchsorted(cells, np.arange(2 ** (32 - kernels.loops.CELL_SHIFT) + 1)).astype(np.int32)


def count_slabs(slab: NDArray[np.int32], n_slabs: int) -> NDArray[np.int64]:
    """Rows in each slab."""
    return np.bincount(slab, minlength=n_slabs).astype(np.int64)


def masses_about(eta: float, half_count: int, threshold: float) -> Array:
    """Return the N(0, 1) mass of the lower tail, slabs of width eta, and the upper tail."""
    edges = threshold + eta * np.arange(-half_count, half_count + 1)
    below = ndtr(edges)
    return np.concatenate([below[:1], np.diff(below), ndtr(-edges[-1:])])


@dataclass(frozen=True, slots=True, eq=False)
class SlabOrder:
    """Rows in an order that puts them slab by slab; slab i is bounds[i] to bounds[i + 1] of it."""

    order: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, slab: NDArray[np.int32], n_slabs: int) -> SlabOrder:
        """Sort rows by the number of their slab."""
        # 16-bit keys are sorted by counting
        order = np.argsort(slab.astype(np.int16) if n_slabs < 2**15 else slab, kind="stable")
        return cls(order, np.concatenate([[0], np.cumsum(count_slabs(slab, n_slabs))]))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows in each slab."""
        return np.diff(self.bounds)


def pack_symmetric(matrices: Array) -> Array:
    """The upper halves of symmetric matrices (..., d, d), row by row: (..., d (d + 1) / 2)."""
    packed: Array = matrices[..., *np.triu_indices(matrices.shape[-1])]
    return packed


def unpack_symmetric(packed: Array, dim: int) -> Array:
    """The matrices again."""
    i, j = np.triu_indices(dim)
    matrices = np.zeros((*packed.shape[:-1], dim, dim))
    matrices[..., i, j] = matrices[..., j, i] = packed
    return matrices


def sum_slab_products(X: Rows, slabs: NDArray[np.int32], n_slabs: int) -> Array:
    """Sums of x x^T within slabs, packed: (c, n_slabs, d (d + 1) / 2) for `slabs` (c, n).

    Where a slab has many rows it is one matrix product; where slabs hold a few rows each, the products of a row are
    written out, and added to the sums of its slabs. Products in the precision of X; sums in float64.
    """
    n_rows, dim = X.shape
    n_products = dim * (dim + 1) // 2
    if n_rows * n_products >= min(n_slabs, n_rows) * _PRODUCT_ENTRIES:
        return np.array([_multiply_slabs(X, slab, n_slabs) for slab in slabs])
    sums = np.zeros((len(slabs), n_slabs, n_products))
    kernels.loops.sum_slab_products(frozen(X), frozen(slabs), sums)
    return sums


def _multiply_slabs(X: Rows, slab: NDArray[np.int32], n_slabs: int) -> Array:
    """Sort rows by slab, and multiply slab by slab, in pieces that stay in cache."""
    dim = X.shape[1]
    products, ordered = np.zeros((n_slabs, dim, dim)), SlabOrder.of(slab, n_slabs)
    step = max(256, SUB_BATCH_NBYTES // (dim * X.itemsize))
    edges = np.unique(np.concatenate([ordered.bounds, np.arange(0, len(X), step)]))
    slabs = np.searchsorted(ordered.bounds, edges[:-1], side="right") - 1
    for number, begin, end in zip(slabs.tolist(), edges.tolist(), edges[1:].tolist(), strict=False):
        piece = np.take(X, ordered.order[begin:end], axis=0)
        products[number] += piece.T @ piece
    return pack_symmetric(products)


def complement_basis(v: Array) -> Array:
    """Orthonormal basis of the complement of the unit vector v, as columns (d, d - 1).

    The Householder reflection that swaps v and the first axis, up to sign, without its first column: orthogonal to
    rounding whatever v is.
    """
    dim = len(v)
    mirror = v / np.linalg.norm(v)
    mirror[0] += 1.0 if mirror[0] >= 0 else -1.0
    reflection = np.eye(dim) - np.outer(mirror, mirror) * (2 / float(mirror @ mirror))
    return np.ascontiguousarray(reflection[:, 1:])


def split_basis(basis: Array, direction: Array) -> tuple[Array, Array]:
    """The unit vector along the direction's part within a basis, and a basis of what is left."""
    along = basis.T @ direction
    along = along / np.linalg.norm(along)
    return basis @ along, np.ascontiguousarray(basis @ complement_basis(along))


def sum_slab_monomials(
    X: Rows, signs: NDArray[np.int8], basis: Array, order: SlabOrder, degree: int, sums: Array
) -> None:
    """Add to `sums` (n_slabs, monomials) every monomial of degree <= `degree` of s = sign·basis^T x, per slab.

    All of it in float64 whatever X is: bounds that hold for certain rest on these sums, and of a sum of n float32
    numbers no more than 24 - log2(n) bits are certain.
    """
    rows = frozen(order.order), frozen(order.bounds)
    kernels.loops.sum_slab_monomials(frozen(X), frozen(signs), np.ascontiguousarray(basis), *rows, degree, sums)


def slab_extremes(margin: Array, order: SlabOrder) -> tuple[Array, Array]:
    """Smallest and largest margin in each slab; infinity and -infinity where a slab is empty."""
    low, high = np.full(len(order.counts), np.inf), np.full(len(order.counts), -np.inf)
    held = np.flatnonzero(order.counts)
    if len(held):
        ordered = np.take(margin, order.order)
        low[held] = np.minimum.reduceat(ordered, order.bounds[held])
        high[held] = np.maximum.reduceat(ordered, order.bounds[held])
    return low, high
