"""For each direction: the threshold with the fewest errors, among many about a given one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import margins
from streamhalf.kernels.plane import Plane, stack_planes
from streamhalf.kernels.slabs import assign_slabs, count_slabs
from streamhalf.reductions.base import Summed

_SUB_BATCH = 16_384

_FINEST, _GROWTH, _REACH = 2e-5, 1.02, 1e3
"""Thresholds lie so close together about the given one, and further away at a fiftieth of the
distance, up to where no rows are left."""


@cache
def scanned_offsets() -> NDArray[np.float64]:
    """Differences to the given threshold that are tried, rising; 0 is among them."""
    steps = np.ceil(np.log1p(_REACH * (_GROWTH - 1) / _FINEST) / np.log(_GROWTH))
    away = _FINEST * (_GROWTH ** np.arange(1, steps + 1) - 1) / (_GROWTH - 1)
    return np.concatenate([-away[::-1], [0.0], away])


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdScanPartial:
    """Rows, and rows of each label between two thresholds (c, 2, k + 1); label -1 is the first."""

    n_rows: int
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdScan(Summed):
    """Counts of both labels between thresholds about those of `planes`, normals of length 1.

    The result are the planes with the best threshold each: exact counts, up to the rounding of
    v·x. The given one is kept where chance may have put the best ahead: a gain within one standard
    error, of the rows between the two, or within two where the given one is 0, of a smaller class.
    """

    planes: tuple[Plane, ...]

    name = "threshold-scan"

    @property
    def n_cells(self) -> int:
        """Cells between thresholds."""
        return len(scanned_offsets()) + 1

    def empty(self, dim: int) -> ThresholdScanPartial:
        """No rows."""
        return ThresholdScanPartial(
            0, np.zeros((len(self.planes), 2, self.n_cells), dtype=np.int64)
        )

    def map(self, block: Block) -> ThresholdScanPartial:
        """Count labels between thresholds, direction by direction, in pieces for the cache."""
        found, offsets = self.empty(block.dim), scanned_offsets()
        normals, thresholds = stack_planes(self.planes)
        label = (block.y > 0).astype(np.int32) * np.int32(self.n_cells)
        for start in range(0, block.n_rows, _SUB_BATCH):
            window = slice(start, start + _SUB_BATCH)
            along = margins(block.X[window], normals) - thresholds[:, None]
            cells = assign_slabs(along, offsets) + label[window]
            for counts, cell in zip(found.counts, cells, strict=True):
                counts += count_slabs(cell, 2 * self.n_cells).reshape(2, self.n_cells)
        return replace(found, n_rows=block.n_rows)

    def finalize(self, partial: ThresholdScanPartial) -> tuple[Plane, ...]:
        """The planes with their best thresholds."""
        return tuple(
            Plane(plane.normal, plane.threshold + _best_offset(counts, 1 if plane.threshold else 2))
            for plane, counts in zip(self.planes, partial.counts, strict=True)
        )


def _best_offset(counts: NDArray[np.int64], deviations: int) -> float:
    """The difference with the fewest errors, of those the smallest; 0 if it gains hardly more."""
    offsets = scanned_offsets()
    negative, positive = np.cumsum(counts, axis=1)[:, :-1]
    errors = positive + counts[0].sum() - negative
    least = np.flatnonzero(errors == errors.min())
    best, given = least[np.argmin(np.abs(offsets[least]))], len(offsets) // 2
    between = counts[:, min(best, given) + 1 : max(best, given) + 1].sum()
    gain = errors[given] - errors[best]
    return 0.0 if gain <= deviations * math.sqrt(between) else float(offsets[best])
