"""A block of rows in memory: the unit that kernels and reductions see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, order=True)
class RowRange:
    """Rows start, ..., stop - 1 of a data set."""

    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        """How many rows the range holds."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Checked rows: finite features (n, d), labels ±1 (n,) int8, global row numbers (n,) int64.

    Row numbers rise, and name the row whatever the chunking: all randomness and all
    grouping of rows depend on them alone.
    """

    X: NDArray[np.floating[Any]]
    y: NDArray[np.int8]
    rows: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """How many rows the block holds."""
        return len(self.y)

    @property
    def dim(self) -> int:
        """How many features a row has."""
        return int(self.X.shape[1])

    def select(self, keep: NDArray[np.bool_]) -> Block:
        """Return the rows where `keep` is true."""
        chosen = np.flatnonzero(keep)  # several times faster than indexing with a mask
        return Block(np.take(self.X, chosen, axis=0), self.y[chosen], self.rows[chosen])
