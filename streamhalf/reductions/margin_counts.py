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
from streamhalf.reductions.base import Counts, Reduction

_OCTAVES, _PARTS = 64, 4  # Powers of two above and below 1 that bins tell apart, and bins to each: at most 19% wide
_SIDE = 2 * _OCTAVES * _PARTS
_FIRST = (1022 - _OCTAVES) * _PARTS  # Upper bits of the smallest size that has a bin to itself
N_BINS = 2 * _SIDE  # Bins on both sides of a plane; they rise with margins, and 0 is the first of its side


def margin_bins(margins: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    sizes = np.abs(np.asarray(margins, dtype=np.float64)).view(np.int64) >> 50  # octave and quarter
    place = np.clip(sizes - _FIRST, 0, _SIDE - 1)
    return np.asarray(np.where(margins >= 0, _SIDE + place, _SIDE - 1 - place), dtype=np.int64)


def count_margins(margins: NDArray[np.floating[Any]], y: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return rows by label, -1 first, and bin: (2, N_BINS)."""
    return np.bincount(margin_bins(margins) + N_BINS * (y > 0), minlength=2 * N_BINS).reshape(2, N_BINS)


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
class MarginCounts(Reduction[Counts, Counts]):
    """Rows by margin about each of `planes`; at last, by the log-odds of `probabilities` of label +1.

    Counts are by plane, label (-1 first) and bin: (c, 2, N_BINS).
    """

    planes: tuple[Plane, ...]
    probabilities: Probabilities | NDArray[np.floating[Any]] | None = None

    name = "margin-counts"

    def empty(self, dim: int) -> Counts:
        n_tables = len(self.planes) + (self.probabilities is not None)
        return Counts(0, np.zeros((n_tables, 2, N_BINS), dtype=np.int64))

    def map(self, block: Block) -> Counts:
        from streamhalf.kernels import loops

        counts = self.empty(block.dim).counts
        if self.planes:
            V, thresholds = (padded(one) for one in stack_planes(self.planes))
            own = counts[: len(self.planes)]
            loops.count_margin_bins(frozen(block.X), frozen(block.y), V, thresholds, _FIRST, own)
        if self.probabilities is not None:
            counts[-1] = count_margins(log_odds(self.probabilities[block.rows]), block.y)
        return Counts(block.n_rows, counts)
