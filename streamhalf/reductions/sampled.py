"""A share of the rows, chosen by row number alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Bundle, Reduction
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
        return map_drawn(self, block, uniforms_at(self.seed, self.stream, block.rows))


def map_drawn(reduction: Reduction[Any, Any], block: Block, uniforms: NDArray[np.float64]) -> Any:
    """The partial of rows that have been drawn a uniform number each, which is still unused."""
    match reduction:
        case Bundle():
            return tuple(map_drawn(member, block, uniforms) for member in reduction.members)
        case Sampled():
            low, high = reduction.low, reduction.high
            keep = np.flatnonzero((uniforms >= low) & (uniforms < high))
            left = (uniforms[keep] - low) / (high - low)
            return map_drawn(reduction.inner, block.take(keep), left)
        case Localized():
            return reduction.accept(block, uniforms)
    return reduction.map(block)
