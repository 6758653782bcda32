"""Rows by label and margin, counted in bins that every data set shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.probabilities import Probabilities
from streamhalf.kernels.margins import frozen, padded
from streamhalf.kernels.plane import Plane, stack_planes
from streamhalf.reductions.base import Summed

_OCTAVES = 64
"""Powers of two above and below 1 that bins tell apart."""

_PARTS = 4
"""Bins to an octave: at most 19% wide."""

_SIDE = 2 * _OCTAVES * _PARTS

_FIRST = (1022 - _OCTAVES) * _PARTS
"""Upper bits of the smallest size that has a bin to itself."""

N_BINS = 2 * _SIDE
"""Bins on both sides of a plane."""


def margin_bins(margins: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the bin of every margin; bins rise with margins, and 0 is the first of its side."""
    sizes = np.abs(np.asarray(margins, dtype=np.float64)).view(np.int64) >> 50  # octave and quarter
    place = np.clip(sizes - _FIRST, 0, _SIDE - 1)
    return np.asarray(np.where(margins >= 0, _SIDE + place, _SIDE - 1 - place), dtype=np.int64)


def count_margins(margins: NDArray[np.floating[Any]], y: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return rows by label, -1 first, and bin: (2, N_BINS)."""
    found = np.bincount(margin_bins(margins) + N_BINS * (y > 0), minlength=2 * N_BINS)
    return found.reshape(2, N_BINS)


def bin_centres() -> NDArray[np.float64]:
    """Return a margin inside every bin."""
    size = np.arange(_SIDE)
    middle = np.ldexp(0.5 + (size % _PARTS + 0.5) / (2 * _PARTS), size // _PARTS - _OCTAVES)
    return np.concatenate([-middle[::-1], middle])


def log_odds(probabilities: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return log(p / (1 - p)), finite where p is 0 or 1."""
    inside = np.clip(np.asarray(probabilities, dtype=np.float64), 1e-12, 1 - 1e-12)
    return np.asarray(np.log(inside / (1 - inside)))


@dataclass(frozen=True, slots=True, eq=False)
class MarginCountsResult:
    """Rows of each plane by label, -1 first, and bin: (c, 2, N_BINS) int64."""

    n_rows: int
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class MarginCounts(Summed):
    """Counts of the margins about `planes` by label; at last, of log-odds.

    Those are of `probabilities` of label +1, one for each row of the data.
    """

    planes: tuple[Plane, ...]
    probabilities: Probabilities | NDArray[np.floating[Any]] | None = None

    name = "margin-counts"

    @property
    def n_counts(self) -> int:
        """Tables of counts."""
        return len(self.planes) + (self.probabilities is not None)

    def empty(self, dim: int) -> MarginCountsResult:
        """Return the counts of no rows."""
        return MarginCountsResult(0, np.zeros((self.n_counts, 2, N_BINS), dtype=np.int64))

    def map(self, block: Block) -> MarginCountsResult:
        """Count the rows of one block."""
        from streamhalf.kernels import loops

        counts = np.zeros((self.n_counts, 2, N_BINS), dtype=np.int64)
        if self.planes:
            V, thresholds = (padded(one) for one in stack_planes(self.planes))
            own = counts[: len(self.planes)]
            loops.count_margin_bins(frozen(block.X), frozen(block.y), V, thresholds, _FIRST, own)
        if self.probabilities is not None:
            counts[-1] = count_margins(log_odds(self.probabilities[block.rows]), block.y)
        return MarginCountsResult(block.n_rows, counts)

    def partial_nbytes(self, dim: int) -> int:
        """Return the size of one table of counts for each plane."""
        return 8 * (2 * N_BINS * self.n_counts + 1)
