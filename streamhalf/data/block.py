"""Ranges of rows, blocks of rows in memory (all that reductions see), and what reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

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

    def split(self, step: int) -> tuple[RowRange, ...]:
        """Ranges of `step` rows each, the last one shorter where they do not fit."""
        starts = range(self.start, self.stop, step)
        return tuple(RowRange(start, min(start + step, self.stop)) for start in starts)


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

    def cut(self, window: slice) -> Block:
        """Return a view of neighbouring rows."""
        return Block(self.X[window], self.y[window], self.rows[window])

    def select(self, keep: NDArray[np.bool_]) -> Block:
        """Return the rows where `keep` is true."""
        chosen = np.flatnonzero(keep)  # several times faster than indexing with a mask
        return Block(np.take(self.X, chosen, axis=0), self.y[chosen], self.rows[chosen])


class Reader(Protocol):
    """Raw rows of two arrays by number, of one where there are no labels; picklable."""

    features: Any
    labels: Any

    def read(self, rows: RowRange) -> tuple[NDArray[Any], NDArray[Any]]:
        """Raw features (n, d) and labels (n,); what is missing comes as an invalid value."""
        ...

    def find_missing(self, rows: RowRange) -> str | None:
        """Say what of the range is not stored, or None."""
        return None

    def read_nbytes(self, rows: RowRange) -> int:
        """Bytes that reading the range takes out of storage, as numbers in memory."""
        X, y = self.features, self.labels
        return int(X.shape[1] * X.dtype.itemsize + y.dtype.itemsize) * rows.n_rows

    def prefetch(self, rows: RowRange) -> bool:
        """Have rows brought near without waiting; False where only reading them does that."""
        return False

    @property
    def defers_checks(self) -> bool:
        """Whether parts of stored chunks are read without a look at their checksums."""
        return False
