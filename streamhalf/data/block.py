"""Ranges of rows, blocks of rows in memory (all that reductions see), and what reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
        return self.stop - self.start

    def split(self, step: int) -> tuple[RowRange, ...]:
        """Ranges of `step` rows each, the last one shorter where they do not fit."""
        starts = range(self.start, self.stop, step)
        return tuple(RowRange(start, min(start + step, self.stop)) for start in starts)


@dataclass(frozen=True, slots=True, eq=False)
class RowRanges:
    """Rising ranges of rows, none of them empty, no row twice: (n, 2) starts and stops, int64.

    A pass may read a million of them, which no list of objects would do for.
    """

    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, ranges: Iterable[RowRange]) -> RowRanges:
        """The ranges that hold rows."""
        if isinstance(ranges, RowRanges):
            return ranges
        pairs = [(rows.start, rows.stop) for rows in ranges if rows.n_rows > 0]
        return cls(np.array(pairs, dtype=np.int64).reshape(-1, 2))

    @classmethod
    def evenly(cls, n_rows: int, step: int) -> RowRanges:
        """Rows 0, ..., n_rows - 1 in ranges of `step`, the last one shorter perhaps."""
        starts = np.arange(0, n_rows, step, dtype=np.int64)
        return cls(np.stack([starts, np.minimum(starts + step, n_rows)], axis=1))

    @classmethod
    def of_sizes(cls, sizes: Any) -> RowRanges:
        """Neighbouring ranges of these sizes from row 0 on."""
        stops = np.cumsum(sizes)
        return cls(np.stack([stops - sizes, stops], axis=1))

    def __len__(self) -> int:
        return len(self.bounds)

    def __reduce__(self) -> tuple[Any, ...]:
        """Equal ranges are sent as two numbers: a source of 100,000 blocks goes to every worker."""
        if len(self) > 1:
            span, step = self.span, int(self.sizes[0])
            if span.start == 0 and step * (len(self) - 1) < span.stop <= step * len(self):
                even = RowRanges.evenly(span.stop, step)
                if self == even:
                    return RowRanges.evenly, (span.stop, step)
        return RowRanges, (self.bounds,)

    def __getitem__(self, index: int) -> RowRange:
        start, stop = self.bounds[index].tolist()
        return RowRange(start, stop)

    def __iter__(self) -> Iterator[RowRange]:
        return (RowRange(start, stop) for start, stop in self.bounds.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowRanges) and np.array_equal(self.bounds, other.bounds)

    def __hash__(self) -> int:
        return hash(self.bounds.tobytes())

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self.bounds[:, 1] - self.bounds[:, 0]

    @property
    def span(self) -> RowRange:
        return RowRange(int(self.bounds[0, 0]), int(self.bounds[-1, 1]))

    def numbers(self) -> NDArray[np.int64]:
        """The rows, one by one."""
        if len(self) == 1:
            return np.arange(*self.bounds[0], dtype=np.int64)
        sizes = self.sizes
        before = np.cumsum(sizes) - sizes
        return np.repeat(self.bounds[:, 0] - before, sizes) + np.arange(self.n_rows, dtype=np.int64)

    def take_from(self, array: NDArray[Any], first: int) -> NDArray[Any]:
        """The rows of an array that holds the data from row `first` on."""
        if len(self) == 1:
            return array[self.span.start - first : self.span.stop - first]
        return np.concatenate([array[start:stop] for start, stop in (self.bounds - first).tolist()])

    def joined(self) -> RowRanges:
        """The same rows, ranges that touch made one."""
        starts, stops = self.bounds.T
        gaps = starts[1:] > stops[:-1]
        first, last = np.append(True, gaps)[: len(starts)], np.append(gaps, True)[: len(starts)]
        return RowRanges(np.stack([starts[first], stops[last]], axis=1))

    def cut(self, edges: NDArray[np.int64]) -> RowRanges:
        """The same rows, no range with one of the rising `edges` inside."""
        starts, stops = self.bounds.T
        home = np.searchsorted(starts, edges) - 1  # the last range that begins before the edge
        inside = edges[(home >= 0) & (edges < np.append(stops, 0)[home])]
        pieces = (np.sort(np.concatenate([ends, inside])) for ends in (starts, stops))
        return RowRanges(np.stack([*pieces], axis=1))

    def grouped(self, keys: NDArray[np.int64]) -> list[RowRanges]:
        """Neighbours with the same key, one of the rising `keys` for each range, together."""
        firsts = np.flatnonzero(np.diff(keys)) + 1
        return [RowRanges(part) for part in np.split(self.bounds, firsts) if len(part)]

    def by_step(self, step: int) -> Iterator[tuple[int, RowRanges]]:
        """Yield the rows of each run of `step` rows, numbered from row 0, that holds any."""
        span = self.span
        edges = np.arange(span.start // step, -(-span.stop // step), dtype=np.int64) * step
        pieces = self.cut(edges)
        numbers = pieces.bounds[:, 0] // step
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        bounds = np.split(pieces.bounds, firsts[1:])
        return zip(numbers[firsts].tolist(), map(RowRanges, bounds), strict=True)


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
        return len(self.y)

    @property
    def dim(self) -> int:
        return int(self.X.shape[1])

    def cut(self, window: slice) -> Block:
        """Return a view of neighbouring rows."""
        return Block(self.X[window], self.y[window], self.rows[window])

    @classmethod
    def concatenate(cls, blocks: Sequence[Block]) -> Block:
        if len(blocks) == 1:
            return blocks[0]
        return cls(*(np.concatenate([getattr(one, name) for one in blocks]) for name in ("X", "y", "rows")))

    def renumbered(self, first: int = 0) -> Block:
        """The rows of a sample as neighbours: what works by windows of row numbers finds them full."""
        return Block(self.X, self.y, np.arange(first, first + self.n_rows, dtype=np.int64))

    def select(self, keep: NDArray[np.bool_]) -> Block:
        return self.take(np.flatnonzero(keep))  # several times faster than indexing with a mask

    def take(self, chosen: NDArray[np.int64]) -> Block:
        """Return the rows at rising places."""
        return Block(np.take(self.X, chosen, axis=0), self.y[chosen], self.rows[chosen])


class Reader(Protocol):
    """Raw rows of two arrays by number, of one where there are no labels; picklable."""

    features: Any
    labels: Any

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        """Raw features (n, d) and labels (n,); what is missing comes as an invalid value."""
        ...

    def read_labels(self, rows: RowRanges) -> NDArray[Any]:
        return self.read(rows)[1]

    def find_missing(self, rows: RowRanges) -> str | None:
        """Say what of the rows is not stored, or None."""
        return None

    def prefetch(self, rows: RowRanges) -> bool:
        """Have rows brought near without waiting; False where only reading them does that."""
        return False

    @property
    def unit_rows(self) -> int | None:
        """Rows of a stored chunk where it is read whole or not at all, else None."""
        return None

    @property
    def defers_checks(self) -> bool:
        """Return True where parts of chunks are read without checking their checksums."""
        return False
