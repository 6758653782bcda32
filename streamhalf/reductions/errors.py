"""How many rows halfspaces get wrong, one by one and in pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import count_errors
from streamhalf.kernels.plane import Plane, stack_planes
from streamhalf.kernels.segments import Segments, error_segments
from streamhalf.reductions.base import Reduction
from streamhalf.results import LabelErrors


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
        return int(self.segment_rows.sum())

    @property
    def errors(self) -> NDArray[np.int64]:
        """Errors of each plane (c,)."""
        return np.asarray(self.segment_errors.sum(axis=1))

    def disagreements(self, left: int, right: int) -> int:
        """Rows that one of two planes gets wrong, and the other right."""
        errors = self.errors
        return int(errors[left] + errors[right] - 2 * self.shared[left, right])

    def by_label(self, plane: int = 0) -> LabelErrors:
        """Rows of each label, and the errors of a plane among them."""
        wrong, positive_errors = int(self.errors[plane]), int(self.positive_errors[plane])
        return LabelErrors(self.positives, self.n_rows - self.positives, positive_errors, wrong - positive_errors)


@dataclass(frozen=True, slots=True, eq=False)
class PlaneErrors(Reduction[PlaneErrorsResult, PlaneErrorsResult]):
    """Exact counts for `planes`, by contiguous segments of the data set's `total_rows` rows.

    Of the rows in `ranges` alone, if they are given: rising, disjoint pairs (start, stop).
    """

    planes: tuple[Plane, ...]
    total_rows: int = 1
    ranges: NDArray[np.int64] | None = None

    name = "plane-errors"

    @property
    def segments(self) -> Segments:
        return error_segments(self.total_rows)

    def empty(self, dim: int) -> PlaneErrorsResult:
        c, s = len(self.planes), self.segments.count
        shapes = (s,), (c, s), (c, c), (c,)
        rows, errors, shared, positive = (np.zeros(shape, dtype=np.int64) for shape in shapes)
        return PlaneErrorsResult(rows, errors, shared, 0, positive)

    def map(self, block: Block) -> PlaneErrorsResult:
        if self.ranges is not None:
            # inside a range, a row has gone past one start more than past stops
            passed = np.searchsorted(self.ranges.ravel(), block.rows, side="right")
            block = block.select(passed % 2 == 1)
        result, planes = self.empty(block.dim), stack_planes(self.planes)
        for segment, part in self.segments.cut(block.rows):
            shared, positive = count_errors(block.X[part], block.y[part], *planes)
            result.shared[...] += shared
            result.positive_errors[...] += positive
            result.segment_rows[segment] = part.stop - part.start
            result.segment_errors[:, segment] = np.diagonal(shared)
        return replace(result, positives=int(np.count_nonzero(block.y > 0)))
