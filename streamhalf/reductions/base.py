"""The one abstraction: a statistic is a mergeable reduction over blocks of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block

P = TypeVar("P")
R_co = TypeVar("R_co", covariant=True)

Dims: TypeAlias = Mapping[str, tuple[str, ...]]
"""Names of the dimensions of a result's arrays and numbers, by attribute (`streamhalf.lazy`)."""


class Reduction(Protocol[P, R_co]):
    """A statistic that is summed over chunks.

    A reduction is a frozen dataclass whose fields are its parameters. `streamhalf.testing` states
    what all of them obey: `empty` is neutral, `combine` is associative up to rounding and never
    mutates, any chunking equals one chunk, a partial pickles and its size does not depend on the
    number of rows. One that never looks at labels says so: `reads_labels = False`.
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

    def rows_used(self, partial: P) -> int:
        """Rows behind a partial: those that were not left out."""
        ...

    def partial_nbytes(self, dim: int) -> int:
        """Size of one partial, which the planner budgets with."""
        ...


class Drawing(Protocol):
    """A reduction that draws a number for every row, or holds one that does."""

    def map_drawn(self, block: Block, uniforms: NDArray[np.float64]) -> Any:
        """The partial of rows that have been drawn a number each, which nobody has used yet."""
        ...


def is_drawing(reduction: object) -> TypeGuard[Drawing]:
    """Whether a reduction draws; asked for every block, of which a protocol would make much."""
    return hasattr(reduction, "map_drawn")


def map_drawn(reduction: Reduction[Any, Any], block: Block, uniforms: NDArray[np.float64]) -> Any:
    """The partial of rows that have been drawn a uniform number each, which is still unused."""
    if is_drawing(reduction):
        return reduction.map_drawn(block, uniforms)
    return reduction.map(block)


def reads_labels(reduction: Reduction[Any, Any]) -> bool:
    """Whether a reduction needs labels; one that does not say is taken to."""
    return getattr(reduction, "reads_labels", True)


class Summed:
    """What most statistics share: partials are dataclasses of numbers and arrays that add up.

    Their field `n_rows` counts rows. A statistic whose partials may be large has a
    `partial_nbytes` of its own, which allocates nothing.
    """

    __slots__ = ()

    def combine(self, left: Any, right: Any) -> Any:
        """Add field by field."""
        names = (field.name for field in dataclasses.fields(left))
        return type(left)(*(getattr(left, name) + getattr(right, name) for name in names))

    def finalize(self, partial: Any) -> Any:
        """The sums are the result."""
        return partial

    def rows_used(self, partial: Any) -> int:
        """Rows that were summed."""
        return int(partial.n_rows)

    def partial_nbytes(self, dim: int) -> int:
        """As much as the partial of no rows."""
        empty = self.empty(dim)  # type: ignore[attr-defined]
        values = (getattr(empty, field.name) for field in dataclasses.fields(empty))
        return sum(np.asarray(value).nbytes for value in values)


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

    def map_drawn(self, block: Block, uniforms: NDArray[np.float64]) -> tuple[Any, ...]:
        """The same of rows that have been drawn a number each."""
        return tuple(map_drawn(member, block, uniforms) for member in self.members)

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

    def rows_used(self, partial: tuple[Any, ...]) -> int:
        """The most that any member used."""
        pairs = zip(self.members, partial, strict=True)
        return max((member.rows_used(part) for member, part in pairs), default=0)

    @property
    def reads_labels(self) -> bool:
        """Whether a member does."""
        return any(reads_labels(member) for member in self.members)

    def partial_nbytes(self, dim: int) -> int:
        """Sum of the members' sizes."""
        return sum(member.partial_nbytes(dim) for member in self.members)
