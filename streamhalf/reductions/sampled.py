"""A share of the rows, chosen by row number alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamhalf.data.block import Block
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.wrapping import Wrapping


@dataclass(frozen=True, slots=True, eq=False)
class Sampled(Wrapping):
    """An inner reduction over the rows whose uniform number lies in [low, high).

    Shares with disjoint intervals and the same seed and stream hold disjoint rows, each a fair
    sample of the whole data set however its rows are ordered.
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
        uniforms = uniforms_at(self.seed, self.stream, block.rows)
        return self.inner.map(block.select((uniforms >= self.low) & (uniforms < self.high)))
