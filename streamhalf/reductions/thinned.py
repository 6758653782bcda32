"""Several reductions over nested samples of the rows, for which every row is drawn once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
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
from streamhalf.reductions.sampled import Sampled, map_drawn

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
        """Draw once, then reduce the rows of each sample, taken from the next larger one."""
        tops = zip(self.members, self.tops, strict=True)
        leaves = [leaf for member, top in tops for leaf in _leaves(member, top)]
        highest = max(top for _, top in leaves)
        samples = [_dense_sample(*leaf, highest) for leaf in leaves]
        uniforms = uniforms_at(self.seed, self.stream, block.rows)
        found: dict[int, Any] = {}
        for below in {sample for sample in samples if sample is not None}:
            dense = {i: leaves[i] for i, sample in enumerate(samples) if sample == below}
            found |= _map_dense(dense, block, uniforms, below)
        others = (i for i in range(len(leaves)) if i not in found)
        reached = math.inf
        for i in sorted(others, key=lambda i: -leaves[i][1]):
            one, top = leaves[i]
            if top < reached:
                chosen = np.flatnonzero(uniforms < top)
                block, uniforms, reached = block.take(chosen), uniforms[chosen], top
            found[i] = map_drawn(one, block, uniforms / top)
        partials = (found[i] for i in range(len(leaves)))
        return tuple(_gather(member, partials) for member in self.members)


def _leaves(
    reduction: Reduction[Any, Any], top: float
) -> Iterator[tuple[Reduction[Any, Any], float]]:
    """The statistics in a member, each with a top of its own: a sample of a sample is one."""
    match reduction:
        case Bundle():
            for member in reduction.members:
                yield from _leaves(member, top)
        case Sampled(low=0.0):
            yield from _leaves(reduction.inner, top * reduction.high)
        case _:
            yield reduction, top


def _gather(reduction: Reduction[Any, Any], partials: Iterator[Any]) -> Any:
    """The member's partial, of those of its leaves."""
    match reduction:
        case Bundle():
            return tuple(_gather(member, partials) for member in reduction.members)
        case Sampled(low=0.0):
            return _gather(reduction.inner, partials)
    return next(partials)


def _dense_sample(reduction: Reduction[Any, Any], top: float, highest: float) -> float | None:
    """The top of the sample whose coordinates a reduction shares; None if it takes its own."""
    if isinstance(reduction, CandidateSlabs):
        return top
    return highest if isinstance(reduction, Localized) and top >= _DENSE else None


def _map_dense(
    leaves: Mapping[int, tuple[Reduction[Any, Any], float]],
    block: Block,
    uniforms: NDArray[np.float64],
    below: float,
) -> dict[int, Any]:
    """The partials of reductions that share coordinates along all of their normals.

    Coordinates are all that most rows are asked for, so features are taken where rows are kept.
    """
    planes = {i: _planes(one) for i, (one, _) in leaves.items()}
    normals = {id(plane.normal): plane.normal for some in planes.values() for plane in some}
    chosen = np.flatnonzero(uniforms < below)
    along = grid_margins(block.X, np.array([*normals.values()]), block.rows, chosen)
    places = dict(zip(normals, along, strict=True))
    drawn = uniforms[chosen]
    found: dict[int, Any] = {}
    for i, (one, top) in leaves.items():
        coordinates = [places[id(plane.normal)] for plane in planes[i]]
        if isinstance(one, CandidateSlabs):
            found[i] = one.count(coordinates)
        elif isinstance(one, Localized):
            found[i] = one.accept(block, drawn, *coordinates, top=top, chosen=chosen)
    return found


def _planes(reduction: Reduction[Any, Any]) -> tuple[Plane, ...]:
    """The planes that a reduction asks for the coordinates along."""
    if isinstance(reduction, Localized):
        return (reduction.frame.plane,)
    return reduction.candidates if isinstance(reduction, CandidateSlabs) else ()
