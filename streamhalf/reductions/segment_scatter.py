"""Means of y, |x|², every x_j and every y x_j over contiguous segments of rows.

Do rows come in an order? Segments are cut by row number, so the statistic is the same whatever the
chunking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.monomials import SUB_BATCH_NBYTES
from streamhalf.kernels.segments import Segments, scatter_ratio
from streamhalf.reductions.base import Summed

_ROUNDING = 1e-9
"""A variance below this share of the mean square is rounding."""

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentScatterPartial:
    """Rows (s,) int64 and sums (s, q) of each segment; sums of squares to 4th powers (3, q)."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    powers: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """All rows."""
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True, eq=False)
class SegmentScatterResult:
    """How far segment means lie apart, of q = 2 + 2 d quantities: y, |x|², every x_j, every y x_j.

    `segments`, `counts` (s,) and `means` (s, q) are of the segments that hold rows; `overall` (q,)
    is the mean of all. `ratios` (q,) is F of `kernels.segments`, 0 of a constant;
    `squared_skewness` and `kurtosis` (q,) are those of single rows.
    """

    segments: NDArray[np.int64]
    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    overall: NDArray[np.float64]
    ratios: NDArray[np.float64]
    squared_skewness: NDArray[np.float64]
    kurtosis: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentScatter(Summed):
    """Sums over `n_segments` equal contiguous segments of a data set of `total_rows` rows."""

    total_rows: int
    n_segments: int = 256

    name = "segments"

    def empty(self, dim: int) -> SegmentScatterPartial:
        """No rows."""
        q = 2 + 2 * dim
        return SegmentScatterPartial(
            np.zeros(self.n_segments, dtype=np.int64), np.zeros((self.n_segments, q)), np.zeros((3, q))
        )

    def map(self, block: Block) -> SegmentScatterPartial:
        """Sum each segment's rows of the block; a block touches few segments."""
        partial = self.empty(block.dim)
        # as many rows as leave their powers in cache
        step = max(16, min(4096, SUB_BATCH_NBYTES // (32 * block.dim)))
        table = np.empty((4, block.dim, min(step, block.n_rows)))
        for segment, window in Segments(self.total_rows, self.n_segments).cut(block.rows):
            X, y = block.X[window], block.y[window]
            partial.counts[segment] = len(y)
            for start in range(0, len(y), step):
                piece = slice(start, start + step)
                powers = _sum_powers(X[piece], y[piece], table)
                partial.sums[segment] += powers[0]
                partial.powers[:] += powers[1:]
        return partial

    def finalize(self, partial: SegmentScatterPartial) -> SegmentScatterResult:
        """Compare the segments that hold rows."""
        held = np.flatnonzero(partial.counts)
        counts, total = partial.counts[held], max(1, partial.n_rows)
        means = partial.sums[held] / counts[:, None]
        overall = partial.sums.sum(axis=0) / total
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            central = _central_moments(overall, *partial.powers / total)
            # nothing is known of quantities whose powers overflow or vanish
            varies = np.isfinite(central).all(axis=0) & (central[0] ** 2 > _TINY)
            varies &= central[0] > _ROUNDING * (partial.powers[0] / total)
        variance, third, fourth = np.where(varies, central, 1.0)
        ratios = np.zeros(len(overall))
        if len(held) > 1:
            ratios = scatter_ratio(counts, np.where(varies, means, 0.0), variance)
        return SegmentScatterResult(
            segments=held,
            counts=counts,
            means=means,
            overall=overall,
            ratios=ratios,
            squared_skewness=(third / variance**1.5) ** 2,
            kurtosis=np.maximum(fourth / variance**2, 1.0),
        )


def _sum_powers(X: NDArray[np.floating[Any]], y: NDArray[np.int8], table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of all quantities (4, q), of their squares, cubes and 4th powers; `table` is room."""
    n_rows = len(y)
    table = table[:, :, :n_rows]
    table[0] = X.T
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(table[0], table[0], out=table[1])
        np.multiply(table[1], table[0], out=table[2])
        np.multiply(table[1], table[1], out=table[3])
        plain, signed = np.moveaxis(table @ np.column_stack([np.ones(n_rows), y]), -1, 0)
        norms = table[1].sum(axis=0)
        squares = norms * norms
        of_norms = [norms.sum(), squares.sum(), squares @ norms, squares @ squares]
    balance = float(y.sum(dtype=np.int64))
    of_labels = [balance, n_rows, balance, n_rows]
    products = np.stack([signed[0], plain[1], signed[2], plain[3]])
    return np.column_stack([of_labels, of_norms, plain, products])


def _central_moments(
    mean: NDArray[np.float64], second: NDArray[np.float64], third: NDArray[np.float64], fourth: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Second to fourth moments about the mean, from those about 0."""
    return np.stack(
        [
            second - mean**2,
            third - 3 * mean * second + 2 * mean**3,
            fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4,
        ]
    )
