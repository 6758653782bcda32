"""A reduction over rows in radial transform that takes back the signs which were drawn for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamhalf.data.block import Block
from streamhalf.kernels.radii import turns_at
from streamhalf.reductions.wrapping import Wrapping


@dataclass(frozen=True, slots=True, eq=False)
class Unturned(Wrapping):
    """An inner reduction that sees stored labels, and features on the side where they are stored.

    Drawn signs would hide from it that labels, or the sides of rows, come in an order.
    """

    seed: int

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"unturned-{self.inner.name}"

    def map(self, block: Block) -> Any:
        """Negate once more what was negated, features and label; rows at the centre were not."""
        turns = turns_at(self.seed, block.rows) & block.X.any(axis=1)
        X = np.where(turns[:, None], -block.X, block.X)
        return self.inner.map(Block(X, np.where(turns, -block.y, block.y), block.rows))
