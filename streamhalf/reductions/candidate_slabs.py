"""For each candidate halfspace: the histogram of its margin over thin slabs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import grid_margins
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.slabs import count_slabs, number_slabs
from streamhalf.reductions.base import Summed

_SUB_BATCH = 16_384


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
        normals = np.array([plane.normal for plane in self.candidates])
        return self.count([*grid_margins(block.X, normals, block.rows)])

    def count(self, along: Sequence[NDArray[np.floating[Any]]]) -> CandidateSlabsResult:
        """The same with each candidate's v·x of the rows (n,) at hand, in pieces for the cache."""
        found = self.empty(self.candidates[0].dim).counts
        for counts, plane, margins in zip(found, self.candidates, along, strict=True):
            threshold = margins.dtype.type(plane.threshold)
            for start in range(0, len(margins), _SUB_BATCH):
                piece = margins[start : start + _SUB_BATCH] - threshold
                slab = number_slabs(piece, self.width, self.half_count)
                counts += count_slabs(slab, self.n_slabs)
        return CandidateSlabsResult(len(along[0]), found)

    def partial_nbytes(self, dim: int) -> int:
        """One histogram per candidate."""
        return 8 * (len(self.candidates) * self.n_slabs + 1)
