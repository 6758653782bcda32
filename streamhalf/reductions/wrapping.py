"""A reduction around another: it changes which rows are seen, or how, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamhalf.reductions.base import Reduction, reads_labels


@dataclass(frozen=True, slots=True, eq=False)
class Wrapping:
    """Partials and results are the inner ones; a subclass has a `name` and a `map` of its own."""

    inner: Reduction[Any, Any]

    def empty(self, dim: int) -> Any:
        """The inner partial of no rows."""
        return self.inner.empty(dim)

    def combine(self, left: Any, right: Any) -> Any:
        """Combine inside."""
        return self.inner.combine(left, right)

    def finalize(self, partial: Any) -> Any:
        """Finalize inside."""
        return self.inner.finalize(partial)

    def rows_used(self, partial: Any) -> int:
        """Rows that the inner reduction used."""
        return self.inner.rows_used(partial)

    @property
    def reads_labels(self) -> bool:
        """Whether the inner reduction does."""
        return reads_labels(self.inner)

    def partial_nbytes(self, dim: int) -> int:
        """The inner size."""
        return self.inner.partial_nbytes(dim)
