"""Several reductions over nested samples of the rows, for which every row is drawn once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import grid_margins
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Bundle, Reduction
from streamhalf.reductions.localized import Localized
from streamhalf.reductions.sampled import Sampled


@dataclass(frozen=True, slots=True, eq=False)
class Thinned(Bundle):
    """A bundle whose members see only the rows with a uniform number below a top of their own.

    What would see more rows than it needs sees fewer of the same ones; every sample is a fair one
    of the whole data set, however its rows are ordered. Where a row's number u is below the top,
    u / top is a number that nobody has used yet: members that draw on their own draw that.
    """

    tops: tuple[float, ...]
    seed: int
    stream: int

    @property
    def name(self) -> str:
        """The members' names, marked."""
        return f"thinned-{'+'.join(member.name for member in self.members)}"

    def map(self, block: Block) -> tuple[Any, ...]:
        """Draw once, then reduce each member's rows, taken from the next larger sample."""
        uniforms = uniforms_at(self.seed, self.stream, block.rows)
        found: dict[int, Any] = {}
        for top in sorted(set(self.tops), reverse=True):
            keep = uniforms < top
            block, uniforms = block.select(keep), uniforms[keep]
            places = [i for i, one in enumerate(self.tops) if one == top]
            members = tuple(self.members[i] for i in places)
            found |= zip(places, _map_all(members, block, uniforms / top), strict=True)
        return tuple(found[i] for i in range(len(self.members)))


def _map_all(
    members: tuple[Reduction[Any, Any], ...], block: Block, uniforms: NDArray[np.float64]
) -> tuple[Any, ...]:
    """The members' partials; coordinates along the frames of all who localise are taken at once."""
    local = {i: member for i, member in enumerate(members) if isinstance(member, Localized)}
    normals = np.array([member.frame.plane.normal for member in local.values()])
    along = dict(
        zip(local, grid_margins(block.X, normals, block.rows), strict=True) if local else ()
    )
    return tuple(
        local[i].accept(block, uniforms, along[i])
        if i in local
        else map_drawn(member, block, uniforms)
        for i, member in enumerate(members)
    )


def map_drawn(reduction: Reduction[Any, Any], block: Block, uniforms: NDArray[np.float64]) -> Any:
    """The partial of rows that have been drawn a uniform number each, which is still unused."""
    match reduction:
        case Bundle():
            return tuple(map_drawn(member, block, uniforms) for member in reduction.members)
        case Sampled():
            low, high = reduction.low, reduction.high
            keep = (uniforms >= low) & (uniforms < high)
            left = (uniforms[keep] - low) / (high - low)
            return map_drawn(reduction.inner, block.select(keep), left)
        case Localized():
            return reduction.accept(block, uniforms)
    return reduction.map(block)
