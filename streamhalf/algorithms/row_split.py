"""Splits rows among passes, so that what is learned is judged on rows that it never saw.

Every row has one uniform number of the seed. Rows below `held_out` measure errors and decide:
single rows drawn at random, whatever the order of the data. All others are learning rows, taken in
one of three ways:

- windows: a pass takes whole windows of neighbouring rows, drawn at random from all of the data,
  and so reads little more than it needs.
- rows: every pass reads all blocks and keeps the rows whose number lies in its interval.
- reuse: the same, but all intervals begin with the first learning row: passes share rows.

Subsets of windows and of rows are disjoint, and cannot be foreseen without the seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.plan import RunPlan, sample_room
from streamhalf.config import RunConfig
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.kernels.streams import Stream, generator_of, uniforms_at
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import Sample, sampled
from streamhalf.reductions.rows import RowSample
from streamhalf.results import HeldOutRecord, Sampling

# Chunks that are dealt together where they must be read whole: windows of a pass lie in these, and so are drawn from
# so many places of the data at least
GROUP_CHUNKS = 64
_SEGMENTS = 128  # Equal parts of other data: of each a pass reads one range, so many requests in object storage
# Below 64 rows reading is slow, above 16,384 there is nothing more to gain, and more than 2^20 windows take memory
_SMALLEST_WINDOW, _LARGEST_WINDOW, _LEAST_WINDOWS, _MOST_WINDOWS = 64, 16_384, 256, 1 << 20
_PILOT_WINDOWS = 64
_WINDOWS = 256  # Windows that rows are read from, one in each of so many equal segments
_WIDER = 4  # Windows are read that hold so many times the rows that are kept


@dataclass(frozen=True, slots=True)
class RowSubset:
    """Blocks to read and, of their rows, those with uniforms of `seed` in [low, high)."""

    blocks: RowRanges
    seed: int
    low: float = 0.0
    high: float = 1.0

    def restrict(self, reduction: Reduction[Any, Any]) -> Reduction[Any, Any]:
        return sampled(reduction, Sample(self.seed, Stream.SHARES, self.low, self.high))

    @property
    def record(self) -> HeldOutRecord:
        joined = self.blocks.joined().bounds.tolist()
        return HeldOutRecord(tuple((start, stop) for start, stop in joined), self.low, self.high)


@dataclass(frozen=True, eq=False)
class RowSplit:
    """Splits `n_rows` rows among passes; a share `held_out` is left for the final one.

    `chunk_rows` are those of a stored chunk that is read whole or not at all (else None).
    """

    seed: int
    n_rows: int
    held_out: float
    sampling: Sampling
    window_rows: int
    chunk_rows: int | None
    blocks: Iterable[RowRange]

    @property
    def learning_rows(self) -> int:
        """About how many rows all passes that learn have together."""
        return math.ceil(self.n_rows * (1 - self.held_out))

    def held_out_subset(self) -> RowSubset:
        return RowSubset(RowRanges.of(self.blocks), self.seed, 0.0, self.held_out)

    def take(self, cursor: int, n_rows: int) -> RowSubset:
        """Rows cursor, ..., cursor + n_rows - 1 of those for learning, as nearly as can be.

        Learning rows only are counted. Subsets that follow one another have no row in common;
        one that reaches the end takes all that is left.
        """
        if self.sampling is Sampling.WINDOWS:
            chosen = self._line[0][self._place(cursor) : self._place(cursor + n_rows)]
            windows = RowRanges(np.stack(self._bounds(np.sort(chosen)), axis=1)).joined()
            return RowSubset(windows, self.seed, self.held_out)
        if self.sampling is Sampling.REUSE:
            cursor = 0
        low, high = self._uniform(cursor), self._uniform(cursor + n_rows)
        return RowSubset(RowRanges.of(self.blocks), self.seed, low, high)

    def _uniform(self, cursor: int) -> float:
        if cursor >= self.learning_rows:
            return 1.0
        return min(1.0, self.held_out + cursor / self.n_rows)

    def _place(self, cursor: int) -> int:
        """How many windows of the line begin before a learning row."""
        line, begins = self._line
        if cursor >= self.learning_rows:
            return len(line)
        return int(np.searchsorted(begins, cursor / (1 - self.held_out)))

    @cached_property
    def _line(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All windows in the order in which they are dealt, and the rows before each."""
        windows = np.arange(-(-self.n_rows // self._unit) * self._per_unit, dtype=np.int64)
        starts, stops = self._bounds(windows)
        windows = windows[starts < stops]
        order = uniforms_at(self.seed, Stream.WINDOW_ORDER, windows)
        units, numbers = np.divmod(windows, self._per_unit)
        if self.chunk_rows is None:
            # neighbours follow one another, from a random one on: a pass reads one range of each
            start = uniforms_at(self.seed, Stream.WINDOW_START, np.arange(units[-1] + 1))
            first = (start * self._per_unit).astype(np.int64)[units]
            order += (numbers - first) % self._per_unit
        line = windows[np.lexsort((order, self._groups(units)))]
        starts, stops = self._bounds(line)
        return line, np.cumsum(stops - starts) - (stops - starts)

    def _groups(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each window, when the chunks that it lies in have their turn."""
        if self.chunk_rows is None:
            return np.zeros_like(units)
        n_units = int(units[-1]) + 1
        uniforms = uniforms_at(self.seed, Stream.CHUNK_ORDER, np.arange(n_units, dtype=np.int64))
        turns = np.empty(n_units, dtype=np.int64)
        turns[np.argsort(uniforms, kind="stable")] = np.arange(n_units) // GROUP_CHUNKS
        return turns[units]

    @property
    def _unit(self) -> int:
        """Rows of a segment: of a chunk, or of several where a window has room for them."""
        if self.chunk_rows is None:
            return self.window_rows * max(1, self.n_rows // _SEGMENTS // self.window_rows)
        return self.chunk_rows * max(1, self.window_rows // self.chunk_rows)

    @property
    def _per_unit(self) -> int:
        return -(-self._unit // self.window_rows)

    def _bounds(self, windows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First rows of windows, and those after the last; none is left of some at the end."""
        unit, number = np.divmod(windows, self._per_unit)
        starts = unit * self._unit + number * self.window_rows
        ends = np.minimum((unit + 1) * self._unit, self.n_rows)
        return starts, np.minimum(starts + self.window_rows, ends)


def window_rows_for(n_rows: int, smallest_pass: int) -> int:
    """Rows of a window: the largest power of two that leaves the smallest pass windows enough, within bounds."""
    wanted = min(_LARGEST_WINDOW, max(_SMALLEST_WINDOW, smallest_pass // _LEAST_WINDOWS))
    rows = 1 << (wanted.bit_length() - 1)
    while rows * _MOST_WINDOWS < n_rows:
        rows *= 2
    return rows


def pilot(n_rows: int, wanted: int, *, seed: int) -> RowRanges:
    """About `wanted` of `n_rows` rows, in windows drawn at random from all of them."""
    if wanted >= n_rows:
        return RowRanges.of((RowRange(0, n_rows),))
    size = max(1, wanted // _PILOT_WINDOWS)
    rng = generator_of(seed, Stream.PILOT)
    chosen = rng.choice(-(-n_rows // size), size=wanted // size, replace=False)
    starts = size * np.sort(chosen).astype(np.int64)
    return RowRanges(np.stack([starts, np.minimum(starts + size, n_rows)], axis=1)).joined()


def row_split_for(source: Source, plan: RunPlan, config: RunConfig) -> RowSplit:
    return RowSplit(
        seed=config.seed,
        n_rows=source.n_rows,
        held_out=plan.held_out,
        sampling=plan.sampling,
        window_rows=window_rows_for(source.n_rows, plan.initial_rows),
        chunk_rows=source.unit_rows,
        blocks=source.blocks,
    )


def windows_over(source: Source, wanted: int, seed: int, stream: Stream) -> RowRanges:
    """Windows from all over the rows, one drawn from each of many equal segments."""
    if 2 * wanted >= source.n_rows:  # to leave out less than half saves nothing worth a word
        return RowRanges.of((RowRange(0, source.n_rows),))
    edges = np.linspace(0, source.n_rows, _WINDOWS + 1).astype(np.int64)
    size = wanted // _WINDOWS
    drawn = generator_of(seed, stream).random(_WINDOWS)
    starts = edges[:-1] + (drawn * (np.diff(edges) - size)).astype(np.int64)
    return RowRanges(np.stack([starts, starts + size], axis=1)).joined()


def draw_sample(run: Run, source: Source, plan: RunPlan, config: RunConfig) -> Block:
    """Return learning rows, drawn one by one from windows all over the data."""
    size, windows = sample_windows(source, config)
    drawn = RowSample(size, config.seed, Stream.BASELINE_SAMPLE)
    sample = sampled(drawn, Sample(config.seed, Stream.SHARES, plan.held_out))
    block: Block = run.reduce("sample", source, sample, blocks=windows).block
    return block


def sample_windows(source: Source, config: RunConfig) -> tuple[int, RowRanges]:
    """Return the rows of a sample, and the windows that they are drawn from."""
    size = min(sample_room(config, source.dim), source.n_rows)
    return size, pilot(source.n_rows, _WIDER * size, seed=config.seed)


def some_rows(block: Block, n_rows: int, config: RunConfig) -> Block:
    """Return so many rows of a sample, drawn at random, in rising order."""
    if n_rows >= block.n_rows:
        return block
    uniforms = uniforms_at(config.seed, Stream.BASELINE_PART, block.rows)
    return block.take(np.sort(np.argpartition(uniforms, n_rows)[:n_rows]))
