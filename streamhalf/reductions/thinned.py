"""Several reductions over nested samples of the rows, for which every row is drawn once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import grid_margins
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Bundle, Reduction
from streamhalf.reductions.candidate_slabs import CandidateSlabs
from streamhalf.reductions.localized import Localized
from streamhalf.reductions.sampled import Sampled

_DENSE = 0.25
"""From this share of the rows on, margins of all at once cost less than one after the other."""


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
            reduce = _map_all if top >= _DENSE else _map_each
            found |= zip(places, reduce(members, block, uniforms / top), strict=True)
        return tuple(found[i] for i in range(len(self.members)))


def _map_all(
    members: tuple[Reduction[Any, Any], ...], block: Block, uniforms: NDArray[np.float64]
) -> tuple[Any, ...]:
    """The members' partials; coordinates along all planes that they ask for are taken at once."""
    planes = {id(plane): plane for member in members for plane in _planes(member)}
    if not planes:
        return _map_each(members, block, uniforms)
    normals = np.array([plane.normal for plane in planes.values()])
    along = dict(zip(planes, grid_margins(block.X, normals, block.rows), strict=True))

    def reduce(member: Reduction[Any, Any]) -> Any:
        if isinstance(member, Localized):
            return member.accept(block, uniforms, along[id(member.frame.plane)])
        if isinstance(member, CandidateSlabs):
            return member.count(block, np.stack([along[id(one)] for one in member.candidates]))
        return map_drawn(member, block, uniforms)

    return tuple(reduce(member) for member in members)


def _planes(reduction: Reduction[Any, Any]) -> tuple[Plane, ...]:
    """The planes that a reduction asks for the coordinates along."""
    if isinstance(reduction, Localized):
        return (reduction.frame.plane,)
    return reduction.candidates if isinstance(reduction, CandidateSlabs) else ()


def _map_each(
    members: tuple[Reduction[Any, Any], ...], block: Block, uniforms: NDArray[np.float64]
) -> tuple[Any, ...]:
    return tuple(map_drawn(member, block, uniforms) for member in members)


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
