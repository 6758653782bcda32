"""A reduction over whitened rows, beside others that see the rows as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamhalf.data.block import Block
from streamhalf.data.whitening import Whitening
from streamhalf.reductions.wrapping import Wrapping


@dataclass(frozen=True, slots=True, eq=False)
class Whitened(Wrapping):
    """An inner reduction that sees W (x - mu)."""

    whitening: Whitening

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"whitened-{self.inner.name}"

    def map(self, block: Block) -> Any:
        """Whiten and reduce."""
        return self.inner.map(Block(self.whitening.apply(block.X), block.y, block.rows))
