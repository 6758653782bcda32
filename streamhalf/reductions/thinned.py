"""Several reductions over nested samples of the rows, for which every row is drawn once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.frame import find_accepted
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Bundle, Reduction, is_drawing, map_drawn
from streamhalf.reductions.localized import Localized
from streamhalf.reductions.sampled import Sampled

_NEARLY = 0.45
"""A frame whose sample is no smaller than this part of another looks at that one."""


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
        return self.map_drawn(block, uniforms_at(self.seed, self.stream, block.rows))

    def map_drawn(self, block: Block, uniforms: NDArray[np.float64]) -> tuple[Any, ...]:
        """The same with numbers that were drawn."""
        tops = zip(self.members, self.tops, strict=True)
        leaves = dict(enumerate(leaf for member, top in tops for leaf in _leaves(member, top)))
        found: dict[int, Any] = {}
        left = dict(leaves)
        while left:
            reached = max(top for _, top in left.values())
            if reached < 1:
                chosen = np.flatnonzero(uniforms < reached)
                block, uniforms = block.take(chosen), uniforms[chosen]
            here = {i: leaf for i, leaf in left.items() if _is_due(*leaf, reached)}
            found |= _map_together(here, block, uniforms)
            left = {i: leaf for i, leaf in left.items() if i not in here}
        partials = (found[i] for i in leaves)
        return tuple(_gather(member, partials) for member in self.members)


def _is_due(reduction: Reduction[Any, Any], top: float, reached: float) -> bool:
    """Whether a reduction looks at the sample below `reached`: at its own, or a larger one.

    Frames accept no row whose number is not below their top, and to take half of the rows out of a
    sample costs more than to look at all of them.
    """
    return top == reached or (isinstance(reduction, Localized) and top > _NEARLY * reached)


def _map_together(
    leaves: Mapping[int, tuple[Reduction[Any, Any], float]],
    block: Block,
    uniforms: NDArray[np.float64],
) -> dict[int, Any]:
    """The partials of one sample; all frames look at it at once."""
    found: dict[int, Any] = {}
    local: dict[int, tuple[Localized, float]] = {}
    for i, (one, top) in leaves.items():
        if isinstance(one, Localized):
            local[i] = one, top
        else:
            drawn = uniforms / top if is_drawing(one) else uniforms
            found[i] = map_drawn(one, block, drawn)
    tops = [top for _, top in local.values()]
    accepted = find_accepted([one.frame for one, _ in local.values()], block.X, uniforms, tops)
    for (i, (one, top)), (places, along) in zip(local.items(), accepted, strict=True):
        n_seen = int(np.count_nonzero(uniforms < top))
        found[i] = one.reduce(n_seen, block.take(places), along)
    return found


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
