"""The one abstraction: a statistic is a mergeable reduction over blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from streamhalf.data.block import Block

P = TypeVar("P")
R_co = TypeVar("R_co", covariant=True)


class Reduction(Protocol[P, R_co]):
    """A statistic that is summed over chunks.

    A reduction is a frozen dataclass whose fields are its parameters.
    `streamhalf.testing.check_reduction` states what all of them obey: `empty` is neutral, `combine`
    is associative up to rounding and never mutates, any chunking equals one chunk, a partial
    pickles and its size does not depend on the number of rows.
    """

    @property
    def name(self) -> str:
        """What the statistic is called in records and task names."""
        ...

    def empty(self, dim: int) -> P:
        """Return the partial of no rows."""
        ...

    def map(self, block: Block) -> P:
        """Return the partial of one block."""
        ...

    def combine(self, left: P, right: P) -> P:
        """Return the partial of both, mutating neither."""
        ...

    def finalize(self, partial: P) -> R_co:
        """Turn the partial of all rows into the statistic."""
        ...

    def partial_nbytes(self, dim: int) -> int:
        """Size of one partial, which the planner budgets with."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Several reductions that share one read of every block; results come in members' order."""

    members: tuple[Reduction[Any, Any], ...]

    @property
    def name(self) -> str:
        """The members' names, joined."""
        return "+".join(member.name for member in self.members)

    def empty(self, dim: int) -> tuple[Any, ...]:
        """Return the members' empty partials."""
        return tuple(member.empty(dim) for member in self.members)

    def map(self, block: Block) -> tuple[Any, ...]:
        """Return the members' partials of one block."""
        return tuple(member.map(block) for member in self.members)

    def combine(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        """Combine member by member."""
        return tuple(
            member.combine(a, b) for member, a, b in zip(self.members, left, right, strict=True)
        )

    def finalize(self, partial: tuple[Any, ...]) -> tuple[Any, ...]:
        """Finalize member by member."""
        return tuple(
            member.finalize(part) for member, part in zip(self.members, partial, strict=True)
        )

    def partial_nbytes(self, dim: int) -> int:
        """Sum of the members' sizes."""
        return sum(member.partial_nbytes(dim) for member in self.members)
