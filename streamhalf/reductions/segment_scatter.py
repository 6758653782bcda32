"""Means of y, |x|^2 and y x over contiguous segments of rows.

Are chunks exchangeable? Disjoint shares of chunks stand for the whole data set only if they are.
Segments are cut by row number, so the statistic is the same whatever the chunking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.reductions.base import Summed


@dataclass(frozen=True, slots=True, eq=False)
class SegmentScatterPartial:
    """Per segment: rows (s,) int64; sums (s, 2 + d) and sums of squares (s, 2 + d) float64."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """All rows."""
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True, eq=False)
class SegmentScatterResult:
    """How far segment means of each quantity lie apart.

    `z_scores` (s, q) holds, for every segment and quantity (y, |x|^2, then y x_j), the distance of
    the segment's mean from the overall mean in its standard errors; about N(0, 1) for exchangeable
    rows.
    """

    segments: NDArray[np.int64]
    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    overall: NDArray[np.float64]
    z_scores: NDArray[np.float64]

    @property
    def worst(self) -> tuple[float, int, int]:
        """Largest |z|, with its segment and quantity."""
        if self.z_scores.size == 0:
            return 0.0, 0, 0
        segment, quantity = np.unravel_index(np.argmax(np.abs(self.z_scores)), self.z_scores.shape)
        return float(abs(self.z_scores[segment, quantity])), int(segment), int(quantity)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentScatter(Summed):
    """Sums over `n_segments` equal contiguous segments of a data set of `total_rows` rows."""

    total_rows: int
    n_segments: int = 32

    name = "segments"

    def empty(self, dim: int) -> SegmentScatterPartial:
        """No rows."""
        shape = (self.n_segments, 2 + dim)
        return SegmentScatterPartial(
            np.zeros(self.n_segments, dtype=np.int64), np.zeros(shape), np.zeros(shape)
        )

    def map(self, block: Block) -> SegmentScatterPartial:
        """Sum each segment's rows of the block; a block touches few segments."""
        partial = self.empty(block.dim)
        segment = block.rows * self.n_segments // self.total_rows
        starts = np.searchsorted(segment, np.arange(self.n_segments + 1))
        for i in np.flatnonzero(np.diff(starts)):
            window = slice(starts[i], starts[i + 1])
            X: NDArray[np.floating[Any]] = block.X[window]
            y = block.y[window].astype(X.dtype)
            norms = np.einsum("ij,ij->i", X, X, dtype=np.float64)
            partial.counts[i] = len(y)
            partial.sums[i] = np.concatenate([[y.sum(dtype=np.float64), norms.sum()], y @ X])
            column_squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
            partial.squares[i] = np.concatenate([[len(y), (norms**2).sum()], column_squares])
        return partial

    def finalize(self, partial: SegmentScatterPartial) -> SegmentScatterResult:
        """Compare each segment with the whole, on segments that hold at least 30 rows."""
        total = max(int(partial.counts.sum()), 1)
        mean = partial.sums.sum(axis=0) / total
        variance = np.maximum(partial.squares.sum(axis=0) / total - mean**2, 0)
        held = partial.counts >= 30
        counts = partial.counts[held]
        means = partial.sums[held] / counts[:, None]
        # a segment is part of the whole: the variance of the difference shrinks by its share
        errors = np.sqrt(variance * (1 / counts - 1 / total)[:, None])
        z = np.divide(means - mean, errors, out=np.zeros_like(means), where=errors > 0)
        return SegmentScatterResult(np.flatnonzero(held), counts, means, mean, z)
