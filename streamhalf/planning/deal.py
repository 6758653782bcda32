"""Which rows a pass takes, so that passes see fresh rows (or, on request, all of them).

- chunks: passes take disjoint runs of rows along a shuffled line of blocks; the cheapest, right
  where rows are exchangeable across chunks. The first pass takes a little from everywhere, so
  that this can be tested.
- rows: every pass reads all blocks and keeps the rows whose uniform number lies in its interval.
- reuse: every pass takes all rows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import RowRange
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import generator_of
from streamhalf.records import HeldOutRecord, Split
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.sampled import Sampled

N_STRATA = 32


@dataclass(frozen=True, slots=True)
class Share:
    """Blocks to read and, of their rows, those with uniforms of `seed` in [low, high)."""

    blocks: tuple[RowRange, ...]
    seed: int
    low: float = 0.0
    high: float = 1.0

    def restrict(self, reduction: Reduction[Any, Any]) -> Reduction[Any, Any]:
        """The reduction over the share's rows only."""
        if (self.low, self.high) == (0.0, 1.0):
            return reduction
        return Sampled(reduction, self.low, self.high, self.seed, Stream.SHARES)

    @property
    def record(self) -> HeldOutRecord:
        """The share's rows, neighbouring blocks joined."""
        joined: list[tuple[int, int]] = []
        for rows in self.blocks:
            if joined and joined[-1][1] == rows.start:
                joined[-1] = (joined[-1][0], rows.stop)
            else:
                joined.append((rows.start, rows.stop))
        return HeldOutRecord(tuple(joined), self.low, self.high)


@dataclass(frozen=True, eq=False)
class Deal:
    """Deals rows to passes: `take(cursor, n)` is the share of rows cursor, ..., cursor + n - 1."""

    seed: int
    blocks: tuple[RowRange, ...]
    split: Split
    first_rows: int

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self.blocks[-1].stop

    def take(self, cursor: int, n_rows: int) -> Share:
        """The share of a pass; clipped at the end of the data."""
        if self.split is Split.REUSE:
            return Share(self.blocks, self.seed)
        stop = min(cursor + n_rows, self.n_rows)
        if self.split is Split.ROWS:
            return Share(self.blocks, self.seed, cursor / self.n_rows, stop / self.n_rows)
        return Share(self._cut(cursor, stop), self.seed)

    def _cut(self, start: int, stop: int) -> tuple[RowRange, ...]:
        line, ends = self._line
        taken = []
        first = int(np.searchsorted(ends, start, side="right"))
        for piece, end in zip(line[first:], ends[first:], strict=True):
            begin = int(end) - piece.n_rows
            if begin >= stop:
                break
            low, high = max(start, begin) - begin, min(stop, int(end)) - begin
            if low < high:
                taken.append(RowRange(piece.start + low, piece.start + high))
        return tuple(sorted(taken))

    @cached_property
    def _line(self) -> tuple[list[RowRange], NDArray[np.int64]]:
        strata = spread(self.n_rows, self.first_rows)
        order = generator_of(self.seed, Stream.CHUNK_ORDER).permutation(len(self.blocks))
        rest = subtract(self.blocks, strata)
        line = strata + [piece for i in order for piece in rest[i]]
        return line, np.cumsum([piece.n_rows for piece in line])


def spread(n_rows: int, wanted: int) -> list[RowRange]:
    """`wanted` rows in equal pieces at the beginnings of `N_STRATA` equal segments."""
    strata = min(N_STRATA, n_rows)
    starts = [i * n_rows // strata for i in range(strata + 1)]
    # rounded up, the pieces would hold more than is wanted, and a share would miss the last ones
    sizes = [(i + 1) * wanted // strata - i * wanted // strata for i in range(strata)]
    pairs = zip(sizes, itertools.pairwise(starts), strict=True)
    return [RowRange(a, min(a + size, b)) for size, (a, b) in pairs]


def subtract(blocks: tuple[RowRange, ...], holes: list[RowRange]) -> list[list[RowRange]]:
    """What is left of each block; both are sorted and disjoint."""
    left: list[list[RowRange]] = []
    first = 0
    for block in blocks:
        while first < len(holes) and holes[first].stop <= block.start:
            first += 1
        pieces, start = [], block.start
        for hole in holes[first:]:
            if hole.start >= block.stop:
                break
            if hole.start > start:
                pieces.append(RowRange(start, hole.start))
            start = max(start, hole.stop)
        if start < block.stop:
            pieces.append(RowRange(start, block.stop))
        left.append(pieces)
    return left
