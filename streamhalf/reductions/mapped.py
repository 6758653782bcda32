"""A reduction over rows in another transform, beside others that see them as they are stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.transforms.base import RowTransform
from streamhalf.data.transforms.stored import Identity
from streamhalf.reductions.base import Bundle, Reduction, map_drawn
from streamhalf.reductions.sampled import Sampled
from streamhalf.reductions.wrapping import Wrapping


@dataclass(frozen=True, slots=True, eq=False)
class Mapped(Wrapping):
    """An inner reduction that sees what the row map makes of a block.

    With `wide`, of a block in float64: what is certified must not rest on rows rounded to float32.
    """

    row_transform: RowTransform
    wide: bool = False

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"mapped-{self.inner.name}"

    def map(self, block: Block) -> Any:
        """Change the rows and reduce."""
        return self.inner.map(self._apply(block))

    def map_drawn(self, block: Block, uniforms: NDArray[np.float64]) -> Any:
        """The same of rows that have been drawn a number each."""
        return map_drawn(self.inner, self._apply(block), uniforms)

    def _apply(self, block: Block) -> Block:
        if self.wide:
            block = Block(block.X.astype(np.float64, copy=False), block.y, block.rows)
        return self.row_transform.apply(block)


def lay_out(
    reduction: Reduction[Any, Any],
    row_transform: RowTransform,
    beside: Reduction[Any, Any] | None = None,
) -> Reduction[Any, Any]:
    """A reduction in a transform, and one beside it of the same rows as they are stored.

    Which rows a sample takes depends on their numbers alone: only those are put into transform.
    """
    if isinstance(reduction, Sampled):
        return replace(reduction, inner=lay_out(reduction.inner, row_transform, beside))
    mapped = reduction if isinstance(row_transform, Identity) else Mapped(reduction, row_transform)
    return mapped if beside is None else Bundle((mapped, beside))
