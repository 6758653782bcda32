"""For each candidate halfspace: its errors, and the histogram of its margin over thin slabs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import GRID_ROWS
from streamhalf.kernels.plane import Plane, are_wrong, grid_plane_margins
from streamhalf.kernels.slabs import count_slabs, number_slabs
from streamhalf.reductions.base import Summed

_SUB_BATCH = 4 * GRID_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSlabsResult:
    """Rows, errors (c,) and slab counts (c, 2 B + 2), all int64; the outer two slabs are tails."""

    n_rows: int
    errors: NDArray[np.int64]
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
        c = len(self.candidates)
        counts = np.zeros((c, self.n_slabs), dtype=np.int64)
        return CandidateSlabsResult(0, np.zeros(c, dtype=np.int64), counts)

    def map(self, block: Block) -> CandidateSlabsResult:
        """Count errors and slabs of every candidate, in pieces whose margins stay in cache."""
        result = self.empty(block.dim)
        for start in range(0, block.n_rows, _SUB_BATCH):
            piece = slice(start, start + _SUB_BATCH)
            margins = grid_plane_margins(self.candidates, block.X[piece], block.rows[piece])
            result.errors[:] += np.count_nonzero(are_wrong(margins, block.y[piece]), axis=1)
            for counts, slab in zip(
                result.counts, number_slabs(margins, self.width, self.half_count), strict=True
            ):
                counts += count_slabs(slab, self.n_slabs)
        return CandidateSlabsResult(block.n_rows, result.errors, result.counts)

    def partial_nbytes(self, dim: int) -> int:
        """One histogram per candidate."""
        return 8 * len(self.candidates) * (self.n_slabs + 1) + 8
