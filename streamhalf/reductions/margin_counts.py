"""Labels in thin slabs of a halfspace's margin: the histogram behind calibrated probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.base import Summed

_STEPS = 16
"""Slabs from a margin to its double: exact in binary, and the same for features of any scale."""

_LOWEST, _OCTAVES = -64, 128
"""Margins from 2^-64 to 2^64; smaller and larger ones are in the slabs next to them."""

_SIDE = _STEPS * _OCTAVES


@dataclass(frozen=True, slots=True, eq=False)
class MarginCountsResult:
    """Rows, and rows of each label in every slab (2, slabs), int64; label -1 is the first."""

    n_rows: int
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class MarginCounts(Summed):
    """Rows of each label by their margin to `plane`, in slabs that widen with the margin."""

    plane: Plane

    name = "margin-counts"

    def empty(self, dim: int) -> MarginCountsResult:
        """No rows."""
        return MarginCountsResult(0, np.zeros((2, 2 * _SIDE), dtype=np.int64))

    def map(self, block: Block) -> MarginCountsResult:
        """Count one block."""
        margins = self.plane.margins(block.X)
        fraction, exponent = np.frexp(np.abs(margins))
        octave = np.clip(exponent - _LOWEST, 0, _OCTAVES - 1)
        step = np.where(exponent < _LOWEST, 0, np.where(octave < exponent - _LOWEST, _STEPS - 1, 0))
        inside = octave == exponent - _LOWEST
        step = np.where(inside, ((2 * fraction - 1) * _STEPS).astype(np.int64), step)
        away = octave * _STEPS + step
        slab = np.where(margins >= 0, _SIDE + away, _SIDE - 1 - away)
        label = (block.y > 0).astype(np.int64)
        counts = np.bincount(label * 2 * _SIDE + slab, minlength=4 * _SIDE)
        return MarginCountsResult(block.n_rows, counts.reshape(2, 2 * _SIDE))


def slab_edges() -> NDArray[np.float64]:
    """Return the margins between slabs, rising; 0 is in the middle."""
    steps = (1 + np.arange(_STEPS) / _STEPS) / 2
    octaves = np.ldexp(1.0, np.arange(_LOWEST, _LOWEST + _OCTAVES))
    away = np.multiply.outer(octaves, steps).ravel()[1:]
    return np.concatenate([-away[::-1], [0.0], away])
