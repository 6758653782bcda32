"""For each candidate halfspace: its errors, and the histogram of its margin over thin slabs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import grid_margins
from streamhalf.kernels.plane import Plane, are_wrong
from streamhalf.kernels.segments import Segments, error_segments
from streamhalf.kernels.slabs import count_slabs, number_slabs
from streamhalf.reductions.base import Summed

_SUB_BATCH = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSlabsResult:
    """Slab counts (c, 2 B + 2), the outer two tails; rows (s,) and errors (c, s) of each segment.

    Of all rows those with label +1, and the errors of each candidate among them (c,). All int64.
    """

    segment_rows: NDArray[np.int64]
    segment_errors: NDArray[np.int64]
    counts: NDArray[np.int64]
    positives: int
    positive_errors: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """All rows."""
        return int(self.segment_rows.sum())

    @property
    def errors(self) -> NDArray[np.int64]:
        """Errors of each candidate (c,)."""
        return np.asarray(self.segment_errors.sum(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSlabs(Summed):
    """Exact counts for `candidates`, planes with normals of length 1.

    Slab i in -B <= i < B is width·i <= v·x - t < width·(i + 1); below and above them are the tails
    (Algorithm 2, line 3, read as disjoint and covering). Errors are counted by contiguous segments
    of the data set's `total_rows` rows.
    """

    candidates: tuple[Plane, ...]
    width: float
    half_count: int
    total_rows: int

    name = "candidate-slabs"

    @property
    def n_slabs(self) -> int:
        """Slabs and both tails."""
        return 2 * self.half_count + 2

    @property
    def segments(self) -> Segments:
        """The segments that errors are counted by."""
        return error_segments(self.total_rows)

    def empty(self, dim: int) -> CandidateSlabsResult:
        """No rows."""
        c, n_segments = len(self.candidates), self.segments.count
        return CandidateSlabsResult(
            np.zeros(n_segments, dtype=np.int64),
            np.zeros((c, n_segments), dtype=np.int64),
            np.zeros((c, self.n_slabs), dtype=np.int64),
            0,
            np.zeros(c, dtype=np.int64),
        )

    def map(self, block: Block) -> CandidateSlabsResult:
        """Count errors and slabs of every candidate."""
        normals = np.array([plane.normal for plane in self.candidates])
        return self.count(block.y, block.rows, [*grid_margins(block.X, normals, block.rows)])

    def count(
        self,
        y: NDArray[np.int8],
        row_numbers: NDArray[np.int64],
        along: Sequence[NDArray[np.floating[Any]]],
    ) -> CandidateSlabsResult:
        """The same with each candidate's v·x of the rows (n,) at hand, in pieces for the cache."""
        result, segments = self.empty(self.candidates[0].dim), self.segments
        thresholds = np.array([[plane.threshold] for plane in self.candidates], along[0].dtype)
        for start in range(0, len(y), _SUB_BATCH):
            window = slice(start, start + _SUB_BATCH)
            margins = np.stack([one[window] for one in along])
            margins -= thresholds
            wrong = are_wrong(margins, y[window])
            for segment, rows in segments.cut(row_numbers[window]):
                result.segment_rows[segment] += rows.stop - rows.start
                # one by one is faster than along an axis
                result.segment_errors[:, segment] += [np.count_nonzero(row[rows]) for row in wrong]
            slabs = number_slabs(margins, self.width, self.half_count)
            for counts, slab in zip(result.counts, slabs, strict=True):
                counts += count_slabs(slab, self.n_slabs)
        positives = int(np.count_nonzero(y > 0))
        # rows on the positive side are positives, less the errors among them, and all other errors
        predicted = result.counts[:, self.half_count + 1 :].sum(axis=1)
        positive_errors = (result.errors + positives - predicted) // 2
        return replace(result, positives=positives, positive_errors=positive_errors)

    def partial_nbytes(self, dim: int) -> int:
        """One histogram per candidate, and its errors by segment and by label."""
        c, n_segments = len(self.candidates), self.segments.count
        return 8 * (c * (self.n_slabs + n_segments + 1) + n_segments + 1)
