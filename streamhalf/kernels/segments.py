"""Contiguous segments of a data set, and how far the means of a quantity over them lie apart.

For exchangeable rows F = sum n_s (mean_s - mean)² / variance / (S - 1) is about 1; for rows in clusters of up to a
segment it is the factor by which a mean varies more than that of independent rows would (the design effect).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
MOST_SEGMENTS = 256
ROWS_PER_SEGMENT = 32  # at least about so many rows of a pass in every segment


@dataclass(frozen=True, slots=True)
class Segments:
    """Row r of a data set of `total_rows` rows lies in segment r · count // total_rows, rows beyond in the last one."""

    total_rows: int
    count: int

    @classmethod
    def for_rows(cls, total_rows: int, n_rows: int, *, most: int = MOST_SEGMENTS) -> Segments:
        """Segments that hold enough of `n_rows` rows drawn from all of them."""
        return cls(total_rows, max(1, min(most, n_rows // ROWS_PER_SEGMENT)))

    def cut(self, rows: NDArray[np.int64]) -> list[tuple[int, slice]]:
        """The segments that rising row numbers touch, each with its part of the rows."""
        if len(rows) == 0:
            return []
        first, last = (min(int(row) * self.count // self.total_rows, self.count - 1) for row in rows[[0, -1]])
        # the first row of segment i is i · total_rows / count, rounded up
        starts = [-(-i * self.total_rows // self.count) for i in range(first + 1, last + 1)]
        cuts = [0, *np.searchsorted(rows, starts).tolist(), len(rows)]
        touched = zip(range(first, last + 1), cuts, cuts[1:], strict=False)
        return [(segment, slice(a, b)) for segment, a, b in touched if a < b]


def merged_segments(values: NDArray[Any], old: Segments, new: Segments) -> NDArray[Any]:
    """Sums over segments of the first rows (s, ...), each added to the segment of all rows that its middle lies in."""
    middles = (2 * np.arange(old.count) + 1) * old.total_rows // (2 * old.count)
    found = np.zeros((new.count, *values.shape[1:]), dtype=values.dtype)
    np.add.at(found, np.minimum(middles * new.count // new.total_rows, new.count - 1), values)
    return found


def error_segments(total_rows: int) -> Segments:
    """The segments that errors are counted by, a matter of the data set alone: about half its rows are held out."""
    return Segments.for_rows(total_rows, total_rows // 2)


def scatter_ratio(counts: Counts, means: Array, variance: Array | float) -> Array:
    """F of every column of `means` (S, ...); 0 for one without `variance`: that of single rows, about their mean."""
    overall = np.average(means, axis=0, weights=counts)
    between = np.tensordot(counts.astype(np.float64), (means - overall) ** 2, axes=1)
    scale = np.asarray(variance) * max(1, len(counts) - 1)
    return np.asarray(np.divide(between, scale, out=np.zeros_like(between), where=scale > 0))


def scatter_quantile(counts: Counts, tail: float, *, squared_skewness: Array | float, kurtosis: Array | float) -> Array:
    """Quantile of F for exchangeable rows: more is seen with probability `tail`.

    Rows in each segment are `counts`, none of them 0; skewness and kurtosis are those of the quantity over single rows:
    m3² / m2³, and m4 / m2² (3 if it is normal).

    Over all orders of the rows (S - 1) F has mean S - 1 and the cumulants below: those of chi² with S - 1 degrees, and
    what pairs of rows in one segment add. (A single row adds nothing where segments are equal, for it is part of the
    variance too.) What they add to a quantile is that of Cornish and Fisher, without the negative term.
    """
    degrees = max(1, len(counts) - 1)
    pairs, unequal = (1 / counts).sum(), (1 / counts).sum() - len(counts) ** 2 / counts.sum()
    variance = 2 * degrees + np.maximum(np.asarray(kurtosis) - 1, 0) * unequal
    third = 4 * np.asarray(squared_skewness) * pairs
    fourth = 96 * np.asarray(squared_skewness) * pairs + 8 * np.square(kurtosis) * (counts**-2.0).sum()
    z = -float(ndtri(tail))
    more = third / variance * (z * z - 1) / 6 + fourth / variance**1.5 * (z**3 - 3 * z) / 24
    plain = float(chdtri(degrees, tail)) - degrees
    wider = np.sqrt(variance / (2 * degrees))
    return np.asarray(1 + (wider * plain + more) / degrees)
