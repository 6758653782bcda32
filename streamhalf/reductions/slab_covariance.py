"""For each candidate and each slab of its margin: rows, and the summed products of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import margins
from streamhalf.kernels.plane import Plane, stack_planes
from streamhalf.kernels.slabs import (
    assign_slabs,
    count_slabs,
    sum_slab_products,
    unpack_symmetric,
)
from streamhalf.reductions.base import Summed


@dataclass(frozen=True, slots=True, eq=False)
class SlabCovariancePartial:
    """Counts (c, s) int64; sums of x x^T (c, s, d (d + 1) / 2), float64."""

    counts: NDArray[np.int64]
    products: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """All rows: every candidate counts each of them once."""
        return int(self.counts[0].sum())


@dataclass(frozen=True, slots=True, eq=False)
class SlabCovarianceResult:
    """Per candidate and slab: rows, and the second moment orthogonal to the candidate."""

    candidates: tuple[Plane, ...]
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    products: NDArray[np.float64]

    def second_moments(self, candidate: int) -> NDArray[np.float64]:
        """Mean of x x^T over each slab's rows, projected orthogonally to the candidate."""
        v = self.candidates[candidate].normal
        matrices = unpack_symmetric(self.products[candidate], len(v))
        projector = np.eye(len(v)) - np.outer(v, v)
        shares = 1 / np.maximum(1, self.counts[candidate])
        projected: NDArray[np.float64] = shares[:, None, None] * (projector @ matrices @ projector)
        return projected


@dataclass(frozen=True, slots=True, eq=False)
class SlabCovariance(Summed):
    """Slabs between consecutive `edges` of v·x - t, the first and last open-ended."""

    candidates: tuple[Plane, ...]
    edges: NDArray[np.float64]

    name = "slab-covariance"
    reads_labels = False

    @property
    def n_slabs(self) -> int:
        """One more than edges."""
        return len(self.edges) + 1

    def empty(self, dim: int) -> SlabCovariancePartial:
        """No rows."""
        shape = (len(self.candidates), self.n_slabs)
        packed = dim * (dim + 1) // 2
        return SlabCovariancePartial(np.zeros(shape, dtype=np.int64), np.zeros((*shape, packed)))

    def map(self, block: Block) -> SlabCovariancePartial:
        """Number the slabs of every candidate, and sum the products within them."""
        normals, thresholds = stack_planes(self.candidates)
        along = margins(block.X, normals) - thresholds[:, None]
        slabs = assign_slabs(along, self.edges)
        counts = np.array([count_slabs(slab, self.n_slabs) for slab in slabs])
        return SlabCovariancePartial(counts, sum_slab_products(block.X, slabs, self.n_slabs))

    def finalize(self, partial: SlabCovariancePartial) -> SlabCovarianceResult:
        """Keep the sums; projections are taken slab by slab."""
        return SlabCovarianceResult(self.candidates, self.edges, partial.counts, partial.products)

    def partial_nbytes(self, dim: int) -> int:
        """One packed matrix per candidate and slab."""
        return 8 * len(self.candidates) * self.n_slabs * (dim * (dim + 1) // 2 + 1)
