"""A digest of rows that no chunking changes, and a sketch of how often rows repeat.

The digest is a sum of row hashes modulo 2^64; the sketch holds the smallest hashes of rows without their numbers, and
how often each was met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf import kernels
from streamhalf.kernels.margins import frozen

KEPT = 1024  # hashes that are kept: a sample of so many different rows
LARGEST = 2**64 - 1
_BELOW_LIMIT = 8 * KEPT  # different rows, about, whose hashes are looked at: the others cost a comparison each
_CERTAIN = 1.25  # rows for each different one, as estimated, from which some repeat: 8 standard deviations


def digest_rows(
    X: NDArray[np.floating[Any]], y: NDArray[np.int8], rows: NDArray[np.int64], *, limit: int = LARGEST
) -> tuple[int, RowSketch]:
    """Sum over rows, modulo 2^64, of a hash of the row's bits, its label and its number.

    Beside it a sketch of other hashes, of the row's bits and its label alone, up to `limit`. Bits are taken 32 at a
    time: the top bit of a 64-bit word times any odd key is the top bit, and two of them, two signs that changed, would
    cancel.
    """
    small, bits = np.empty(len(y), dtype=np.uint64), frozen(X).view(np.uint32)
    total, count = kernels.loops.digest(bits, frozen(y), frozen(rows), np.uint64(limit), small)
    return int(total), RowSketch.of(small[:count])


def limit_for(n_rows: int) -> int:
    """The largest hash to look at in a data set of so many rows."""
    return LARGEST if n_rows <= _BELOW_LIMIT else 2**64 * _BELOW_LIMIT // n_rows


@dataclass(frozen=True, slots=True, eq=False)
class RowSketch:
    """The smallest different hashes (KEPT,), rising, and how often each was met (KEPT,) int64.

    Where there are fewer, the largest number fills up, met 0 times. A hash that is among the smallest of all rows is so
    among those of any part that has it, so counts are exact, however rows are chunked.
    """

    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], counts: NDArray[np.int64] | int = 1) -> RowSketch:
        """Of hashes in any order, which were met so often."""
        different, place = np.unique(hashes, return_inverse=True)
        met = np.zeros(len(different), dtype=np.int64)
        np.add.at(met, place, counts)
        spare = (0, max(0, KEPT - len(different)))
        return cls(np.pad(different[:KEPT], spare, constant_values=LARGEST), np.pad(met[:KEPT], spare))

    def __add__(self, other: RowSketch) -> RowSketch:
        """Of the rows of both."""
        hashes = np.concatenate([self.hashes, other.hashes])
        return RowSketch.of(hashes, np.concatenate([self.counts, other.counts]))

    def repeats(self, n_rows: int, limit: int) -> tuple[float, float]:
        """The share of rows that are met more than once, and how often a row is met, about.

        Of `n_rows` rows, whose hashes up to `limit` were looked at.
        """
        counts = self.counts[self.counts > 0]
        share = float(counts[counts > 1].sum() / max(1, counts.sum()))
        times = float(counts.mean()) if len(counts) else 1.0
        # the more different rows there are, the smaller the last of the hashes: the sample itself
        # may lack the few rows that make up much of the data
        reach = int(self.hashes[-1]) if len(counts) == KEPT else limit
        different = max(1, len(counts)) * (2.0**64 / (reach + 1))
        if n_rows > _CERTAIN * different:
            share, times = max(share, 1 - different / n_rows), max(times, n_rows / different)
        return share, times
