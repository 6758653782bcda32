"""The one abstraction: a statistic is a mergeable reduction over blocks of rows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

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
        """Name of the statistic in records and task names."""
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


def reads_labels(reduction: Reduction[Any, Any]) -> bool:
    """Return True if a reduction needs labels; the default of one that does not say."""
    return getattr(reduction, "reads_labels", True)


def combine_all(reduction: Reduction[P, Any], parts: Sequence[P]) -> P:
    """Return the partial of two neighbours or more, the same bits as one after the other; mutates none.

    A reduction whose partials are large may have a `combine_all` of its own, which copies them once.
    """
    at_once: Callable[[Sequence[P]], P] | None = getattr(reduction, "combine_all", None)
    return functools.reduce(reduction.combine, parts) if at_once is None else at_once(parts)


class Summed:
    """Base of most statistics: partials are dataclasses of numbers and arrays that add up.

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
