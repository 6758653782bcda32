"""How many rows a given halfspace gets wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane, are_wrong
from streamhalf.kernels.segments import error_segments
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
    errors are counted by segments of it too, the same as those of `CandidateSlabs`.
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
