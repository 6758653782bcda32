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
from streamhalf.reductions.base import Bundle, Reduction
from streamhalf.reductions.localized import Localized
from streamhalf.reductions.sampled import Sampled, map_drawn


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
        uniforms = uniforms_at(self.seed, self.stream, block.rows)
        found: dict[int, Any] = {}
        for top in sorted({top for _, top in leaves}, reverse=True):
            chosen = np.flatnonzero(uniforms < top)
            block, uniforms = block.take(chosen), uniforms[chosen]
            here = {i: one for i, (one, own) in enumerate(leaves) if own == top}
            found |= _map_together(here, block, uniforms / top)
        partials = (found[i] for i in range(len(leaves)))
        return tuple(_gather(member, partials) for member in self.members)


def _map_together(
    leaves: Mapping[int, Reduction[Any, Any]], block: Block, uniforms: NDArray[np.float64]
) -> dict[int, Any]:
    """The partials of rows that have been drawn a number each; frames look at all of them once."""
    local = {i: one for i, one in leaves.items() if isinstance(one, Localized)}
    accepted = find_accepted([one.frame for one in local.values()], block.X, uniforms)
    found = {
        i: one.reduce(block, *places)
        for (i, one), places in zip(local.items(), accepted, strict=True)
    }
    others = ((i, one) for i, one in leaves.items() if i not in local)
    return found | {i: map_drawn(one, block, uniforms) for i, one in others}


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
