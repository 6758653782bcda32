"""For each candidate halfspace: the histogram of its margin over thin slabs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import count_slabs_along
from streamhalf.kernels.plane import Plane, stack_planes
from streamhalf.reductions.base import Summed


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSlabsResult:
    """Rows, and slab counts (c, 2 B + 2), the outer two tails; all int64."""

    n_rows: int
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSlabs(Summed):
    """Exact counts for `candidates`, planes with normals of length 1.

    Slab i in -B <= i < B is width·i <= v·x - t < width·(i + 1); below and above them are the tails
    (Algorithm 2, line 3, read as disjoint and covering).
    """

    candidates: tuple[Plane, ...]
    width: float
    half_count: int

    name = "candidate-slabs"
    reads_labels = False

    @property
    def n_slabs(self) -> int:
        """Slabs and both tails."""
        return 2 * self.half_count + 2

    def empty(self, dim: int) -> CandidateSlabsResult:
        """No rows."""
        return CandidateSlabsResult(
            0, np.zeros((len(self.candidates), self.n_slabs), dtype=np.int64)
        )

    def map(self, block: Block) -> CandidateSlabsResult:
        """Count slabs of every candidate."""
        planes = stack_planes(self.candidates)
        counts = count_slabs_along(block.X, *planes, width=self.width, half_count=self.half_count)
        return CandidateSlabsResult(block.n_rows, counts)

    def partial_nbytes(self, dim: int) -> int:
        """One histogram per candidate."""
        return 8 * (len(self.candidates) * self.n_slabs + 1)
