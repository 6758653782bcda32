"""The errors of several halfspaces on stored rows, one by one and in pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import wrong_rows
from streamhalf.kernels.plane import Plane, stack_planes
from streamhalf.kernels.segments import Segments, error_segments
from streamhalf.reductions.base import Summed

_PIECE = 16_384
"""Rows whose errors stay in cache."""


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

    As if margins were taken in float64: a threshold may cancel most of what features sum up to.
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
        result, segments, planes = self.empty(block.dim), self.segments, stack_planes(self.planes)
        for start in range(0, block.n_rows, _PIECE):
            piece = block.cut(slice(start, start + _PIECE))
            wrong = wrong_rows(piece.X, piece.y, *planes)
            shared = wrong @ wrong.T  # exact: whole numbers below 2^24
            result.shared[...] += shared.astype(np.int64)
            positive = wrong @ (piece.y > 0).astype(np.float32)
            result.positive_errors[...] += positive.astype(np.int64)
            for segment, part in segments.cut(piece.rows):
                result.segment_rows[segment] += part.stop - part.start
                errors = wrong[:, part].sum(axis=1)
                result.segment_errors[:, segment] += errors.astype(np.int64)
        return replace(result, positives=int(np.count_nonzero(block.y > 0)))

    def partial_nbytes(self, dim: int) -> int:
        """Errors of each plane by segment and in pairs."""
        c, s = len(self.planes), self.segments.count
        return 8 * (c * (s + c + 1) + s + 1)
