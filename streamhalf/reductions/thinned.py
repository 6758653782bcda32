"""Several reductions over nested samples of the rows, which are drawn once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamhalf.data.block import Block
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Bundle


@dataclass(frozen=True, slots=True, eq=False)
class Thinned(Bundle):
    """A bundle whose members see only the rows with a uniform number below a top of their own.

    What would see more rows than it needs sees fewer of the same ones; every sample is a fair one
    of the whole data set, however its rows are ordered.
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
        seen: dict[float, Block] = {}
        for top in sorted(set(self.tops), reverse=True):
            keep = uniforms < top
            block, uniforms = block.select(keep), uniforms[keep]
            seen[top] = block
        return tuple(
            member.map(seen[top]) for member, top in zip(self.members, self.tops, strict=True)
        )
