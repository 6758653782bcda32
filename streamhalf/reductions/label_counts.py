"""How many rows carry each label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamhalf.data.block import Block


@dataclass(frozen=True, slots=True)
class LabelCountsResult:
    """Rows with label +1 and with label -1."""

    positive: int
    negative: int

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self.positive + self.negative


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Counts of both labels; exact."""

    name = "labels"

    def empty(self, dim: int) -> LabelCountsResult:
        """No rows."""
        return LabelCountsResult(0, 0)

    def map(self, block: Block) -> LabelCountsResult:
        """Count one block."""
        positive = int(np.count_nonzero(block.y > 0))
        return LabelCountsResult(positive, block.n_rows - positive)

    def combine(self, left: LabelCountsResult, right: LabelCountsResult) -> LabelCountsResult:
        """Add."""
        return LabelCountsResult(left.positive + right.positive, left.negative + right.negative)

    def finalize(self, partial: LabelCountsResult) -> LabelCountsResult:
        """The counts are the result."""
        return partial

    def rows_used(self, partial: LabelCountsResult) -> int:
        """Rows that were summed."""
        return partial.n_rows

    def partial_nbytes(self, dim: int) -> int:
        """Two words."""
        return 16
