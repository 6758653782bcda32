"""A reduction over rows in another position, beside others that see them as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamhalf.data.block import Block
from streamhalf.data.positions.base import RowMap
from streamhalf.reductions.wrapping import Wrapping


@dataclass(frozen=True, slots=True, eq=False)
class Mapped(Wrapping):
    """An inner reduction that sees what the row map makes of a block.

    With `wide`, of a block in float64: what is certified must not rest on rows rounded to float32.
    """

    row_map: RowMap
    wide: bool = False

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"mapped-{self.inner.name}"

    def map(self, block: Block) -> Any:
        """Change the rows and reduce."""
        if self.wide:
            block = Block(block.X.astype(np.float64, copy=False), block.y, block.rows)
        return self.inner.map(self.row_map.apply(block))
