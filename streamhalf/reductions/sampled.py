"""A share of the rows, chosen by row number alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamhalf.data.block import Block
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Reduction


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """An inner reduction over the rows whose uniform number lies in [low, high).

    Shares with disjoint intervals and the same seed and stream hold disjoint rows, each a fair
    sample of the whole data set however its rows are ordered.
    """

    inner: Reduction[Any, Any]
    low: float
    high: float
    seed: int
    stream: int

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"sampled-{self.inner.name}"

    def empty(self, dim: int) -> Any:
        """The inner partial of no rows."""
        return self.inner.empty(dim)

    def map(self, block: Block) -> Any:
        """Reduce the chosen rows."""
        uniforms = uniforms_at(self.seed, self.stream, block.rows)
        return self.inner.map(block.select((uniforms >= self.low) & (uniforms < self.high)))

    def combine(self, left: Any, right: Any) -> Any:
        """Combine inside."""
        return self.inner.combine(left, right)

    def finalize(self, partial: Any) -> Any:
        """Finalize inside."""
        return self.inner.finalize(partial)

    def partial_nbytes(self, dim: int) -> int:
        """The inner size."""
        return self.inner.partial_nbytes(dim)
