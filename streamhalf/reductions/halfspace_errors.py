"""How many rows a given halfspace gets wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.base import Summed


@dataclass(frozen=True, slots=True)
class HalfspaceErrorsResult:
    """Rows and errors."""

    n_rows: int
    n_errors: int


@dataclass(frozen=True, slots=True, eq=False)
class HalfspaceErrors(Summed):
    """Errors of the halfspace behind `plane` over the rows in `ranges` (None: all rows).

    `ranges` holds rising, disjoint pairs (start, stop).
    """

    plane: Plane
    ranges: NDArray[np.int64] | None = None

    name = "halfspace-errors"

    def empty(self, dim: int) -> HalfspaceErrorsResult:
        """No rows."""
        return HalfspaceErrorsResult(0, 0)

    def map(self, block: Block) -> HalfspaceErrorsResult:
        """Count one block."""
        if self.ranges is not None:
            # inside a range, a row has gone past one start more than past stops
            passed = np.searchsorted(self.ranges.ravel(), block.rows, side="right")
            block = block.select(passed % 2 == 1)
        return HalfspaceErrorsResult(block.n_rows, self.plane.errors(block.X, block.y))
