"""A share of the rows, chosen by row number alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import map_drawn
from streamhalf.reductions.localized import Localized
from streamhalf.reductions.wrapping import Wrapping


@dataclass(frozen=True, slots=True, eq=False)
class Sampled(Wrapping):
    """An inner reduction over the rows whose uniform number lies in [low, high).

    Shares with disjoint intervals and the same seed and stream hold disjoint rows, each a fair
    sample of the whole data set however its rows are ordered. Where a row's number u lies in the
    interval, (u - low) / (high - low) is a number that nobody has used yet: an inner reduction
    that draws on its own draws that.
    """

    low: float
    high: float
    seed: int
    stream: int

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"sampled-{self.inner.name}"

    def map(self, block: Block) -> Any:
        """Reduce the chosen rows."""
        return self.map_drawn(block, uniforms_at(self.seed, self.stream, block.rows))

    def map_drawn(self, block: Block, uniforms: NDArray[np.float64]) -> Any:
        """The same with numbers that were drawn."""
        inside = uniforms < self.high
        if self.low > 0:
            inside &= uniforms >= self.low
        if isinstance(self.inner, Localized):  # it takes few rows: no need to copy the others
            left = (uniforms - self.low) / (self.high - self.low)
            return self.inner.map_drawn(block, np.where(inside, left, np.inf))
        keep = np.flatnonzero(inside)
        left = (uniforms[keep] - self.low) / (self.high - self.low)
        return map_drawn(self.inner, block.take(keep), left)
