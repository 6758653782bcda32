"""The errors of several halfspaces on stored rows, one by one and in pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import grid_margins
from streamhalf.kernels.plane import Plane, are_wrong
from streamhalf.kernels.segments import Segments, error_segments
from streamhalf.reductions.base import Summed

_SUB_BATCH = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class PlaneErrorsResult:
    """Rows (s,) and errors (c, s) of each segment, and errors that two share (c, c).

    Of all rows those with label +1, and the errors of each plane among them (c,). All int64.
    """

    segment_rows: NDArray[np.int64]
    segment_errors: NDArray[np.int64]
    shared: NDArray[np.int64]
    positives: int
    positive_errors: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """All rows."""
        return int(self.segment_rows.sum())

    @property
    def errors(self) -> NDArray[np.int64]:
        """Errors of each plane (c,)."""
        return np.asarray(self.segment_errors.sum(axis=1))

    def disagreements(self, left: int, right: int) -> int:
        """Rows that one of two planes gets wrong, and the other right."""
        errors = self.errors
        return int(errors[left] + errors[right] - 2 * self.shared[left, right])


@dataclass(frozen=True, slots=True, eq=False)
class PlaneErrors(Summed):
    """Exact counts for `planes`, by contiguous segments of the data set's `total_rows` rows.

    Margins are taken in float64: a threshold may cancel most of what stored features sum up to.
    """

    planes: tuple[Plane, ...]
    total_rows: int

    name = "plane-errors"

    @property
    def segments(self) -> Segments:
        """The segments that errors are counted by."""
        return error_segments(self.total_rows)

    def empty(self, dim: int) -> PlaneErrorsResult:
        """No rows."""
        c, s = len(self.planes), self.segments.count
        return PlaneErrorsResult(
            np.zeros(s, dtype=np.int64),
            np.zeros((c, s), dtype=np.int64),
            np.zeros((c, c), dtype=np.int64),
            0,
            np.zeros(c, dtype=np.int64),
        )

    def map(self, block: Block) -> PlaneErrorsResult:
        """Count one block, in pieces for the cache."""
        result, segments = self.empty(block.dim), self.segments
        normals = np.array([plane.normal for plane in self.planes])
        thresholds = np.array([[plane.threshold] for plane in self.planes])
        for start in range(0, block.n_rows, _SUB_BATCH):
            window = slice(start, start + _SUB_BATCH)
            X, y, rows = block.X[window].astype(np.float64), block.y[window], block.rows[window]
            wrong = are_wrong(grid_margins(X, normals, rows) - thresholds, y)
            for segment, part in segments.cut(rows):
                result.segment_rows[segment] += part.stop - part.start
                result.segment_errors[:, segment] += [np.count_nonzero(row[part]) for row in wrong]
            ones = wrong.astype(np.float32)  # counts up to 2^24 are exact
            result.shared[...] += (ones @ ones.T).astype(np.int64)
            result.positive_errors[...] += (ones @ (y > 0)).astype(np.int64)
        return replace(result, positives=int(np.count_nonzero(block.y > 0)))

    def partial_nbytes(self, dim: int) -> int:
        """Errors of each plane by segment and in pairs."""
        c, s = len(self.planes), self.segments.count
        return 8 * (c * (s + c + 1) + s + 1)
