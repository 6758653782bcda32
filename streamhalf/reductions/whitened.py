"""A reduction over whitened rows, beside others that see the rows as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamhalf.data.block import Block
from streamhalf.data.whitening import Whitening
from streamhalf.reductions.base import Reduction


@dataclass(frozen=True, slots=True, eq=False)
class Whitened:
    """An inner reduction that sees W (x - mu)."""

    inner: Reduction[Any, Any]
    whitening: Whitening

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"whitened-{self.inner.name}"

    def empty(self, dim: int) -> Any:
        """The inner partial of no rows."""
        return self.inner.empty(dim)

    def map(self, block: Block) -> Any:
        """Whiten and reduce."""
        return self.inner.map(Block(self.whitening.apply(block.X), block.y, block.rows))

    def combine(self, left: Any, right: Any) -> Any:
        """Combine inside."""
        return self.inner.combine(left, right)

    def finalize(self, partial: Any) -> Any:
        """Finalize inside."""
        return self.inner.finalize(partial)

    def partial_nbytes(self, dim: int) -> int:
        """The inner size."""
        return self.inner.partial_nbytes(dim)
