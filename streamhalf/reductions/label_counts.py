"""How many rows carry each label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamhalf.data.block import Block
from streamhalf.reductions.base import Dims, Summed


@dataclass(frozen=True, slots=True)
class LabelCountsResult:
    """Rows with label +1 and with label -1."""

    positive: int
    negative: int

    dims: ClassVar[Dims] = {"positive": (), "negative": ()}

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self.positive + self.negative


@dataclass(frozen=True, slots=True)
class LabelCounts(Summed):
    """Counts of both labels; exact."""

    name = "labels"

    def empty(self, dim: int) -> LabelCountsResult:
        """No rows."""
        return LabelCountsResult(0, 0)

    def map(self, block: Block) -> LabelCountsResult:
        """Count one block."""
        positive = int(np.count_nonzero(block.y > 0))
        return LabelCountsResult(positive, block.n_rows - positive)
