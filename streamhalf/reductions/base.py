"""The one abstraction: a statistic is a mergeable reduction over blocks of rows."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block

P = TypeVar("P")
R = TypeVar("R")
# Names of the dimensions of a result's arrays and numbers, by attribute (`streamhalf.lazy`)
Dims: TypeAlias = Mapping[str, tuple[str, ...]]


class Reduction(Generic[P, R]):
    """A statistic that is merged over chunks; by default partials add up, and are the result.

    A statistic is a frozen dataclass whose fields are its parameters, with a `name`, `empty` and `map`
    of its own. Partials are dataclasses of numbers and arrays that are never mutated; their `n_rows`
    counts rows. `streamhalf.testing` states what all of them obey: `empty` is neutral, `combine` is
    associative up to rounding and never mutates, any chunking equals one chunk, a partial pickles and
    its size does not depend on the number of rows.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """Name of the statistic in records and task names."""
        raise NotImplementedError

    @property
    def reads_labels(self) -> bool:
        """False for a statistic that takes features without labels."""
        return True

    def empty(self, dim: int) -> P:
        """Return the partial of no rows."""
        raise NotImplementedError

    def map(self, block: Block) -> P:
        """Return the partial of one block."""
        raise NotImplementedError

    def combine(self, *parts: P) -> P:
        """Return the partial of neighbours, the same bits at once as one after the other."""
        values = zip(*map(_values, parts), strict=True)
        return type(parts[0])(*(functools.reduce(operator.add, same) for same in values))

    def finalize(self, partial: P) -> R:
        """Turn the partial of all rows into the statistic."""
        return cast("R", partial)

    def rows_used(self, partial: Any) -> int:
        """Rows behind a partial: those that were not left out."""
        return int(partial.n_rows)

    def partial_nbytes(self, dim: int) -> int:
        """Size of one partial, which the planner budgets with; of a large one without allocating it."""
        return sum(np.asarray(value).nbytes for value in _values(self.empty(dim)))


def _values(partial: Any) -> list[Any]:
    return [getattr(partial, field.name) for field in dataclasses.fields(partial)]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Rows, and an array of rows counted by kind (int64)."""

    n_rows: int
    counts: NDArray[np.int64]
