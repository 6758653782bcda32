"""How many rows halfspaces get wrong: of one, and of several one by one and in pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import count_errors
from streamhalf.kernels.plane import Plane, are_wrong, stack_planes
from streamhalf.kernels.segments import Segments, error_segments
from streamhalf.reductions.base import Summed


@dataclass(frozen=True, slots=True, eq=False)
class HalfspaceErrorsResult:
    """Rows and errors of each segment (s,), int64; rows labelled +1, and errors among them."""

    segment_rows: NDArray[np.int64]
    segment_errors: NDArray[np.int64]
    positives: int
    positive_errors: int

    @property
    def n_rows(self) -> int:
        """All rows."""
        return int(self.segment_rows.sum())

    @property
    def n_errors(self) -> int:
        """All errors."""
        return int(self.segment_errors.sum())


@dataclass(frozen=True, slots=True, eq=False)
class HalfspaceErrors(Summed):
    """Errors of the halfspace behind `plane` over the rows in `ranges` (None: all rows).

    `ranges` holds rising, disjoint pairs (start, stop). With the `total_rows` of the data set
    errors are counted by segments of it too, the same as those of `PlaneErrors`.
    """

    plane: Plane
    ranges: NDArray[np.int64] | None = None
    total_rows: int = 1

    name = "halfspace-errors"

    def empty(self, dim: int) -> HalfspaceErrorsResult:
        """No rows."""
        none = np.zeros(error_segments(self.total_rows).count, dtype=np.int64)
        return HalfspaceErrorsResult(none, none.copy(), 0, 0)

    def map(self, block: Block) -> HalfspaceErrorsResult:
        """Count one block."""
        if self.ranges is not None:
            # inside a range, a row has gone past one start more than past stops
            passed = np.searchsorted(self.ranges.ravel(), block.rows, side="right")
            block = block.select(passed % 2 == 1)
        wrong = are_wrong(self.plane.margins(block.X), block.y)
        positive = block.y > 0
        result = replace(
            self.empty(block.dim),
            positives=int(np.count_nonzero(positive)),
            positive_errors=int(np.count_nonzero(wrong & positive)),
        )
        for segment, window in error_segments(self.total_rows).cut(block.rows):
            result.segment_rows[segment] = window.stop - window.start
            result.segment_errors[segment] = np.count_nonzero(wrong[window])
        return result


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
    """Exact counts for `planes`, by contiguous segments of the data set's `total_rows` rows."""

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
        shapes = (s,), (c, s), (c, c), (c,)
        rows, errors, shared, positive = (np.zeros(shape, dtype=np.int64) for shape in shapes)
        return PlaneErrorsResult(rows, errors, shared, 0, positive)

    def map(self, block: Block) -> PlaneErrorsResult:
        """Count one block, segment by segment."""
        result, planes = self.empty(block.dim), stack_planes(self.planes)
        for segment, part in self.segments.cut(block.rows):
            shared, positive = count_errors(block.X[part], block.y[part], *planes)
            result.shared[...] += shared
            result.positive_errors[...] += positive
            result.segment_rows[segment] = part.stop - part.start
            result.segment_errors[:, segment] = np.diagonal(shared)
        return replace(result, positives=int(np.count_nonzero(block.y > 0)))
