"""What is proved of cells of halfspaces: the smallest bound, and bounds by angle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from streamhalf.certificate.cells import Cell

OUTWARD = 1e-12
"""Angles of a cell reach out by this share: they are rounded."""


@dataclass(frozen=True, slots=True)
class CellBound:
    """No halfspace of the cell has error below `bound`."""

    cell: Cell
    bound: float
    family: str


@dataclass(frozen=True, slots=True)
class AngleBound:
    """No halfspace whose normal is at an angle in [angle_low, angle_high] from v errs on less."""

    angle_low: float
    angle_high: float
    bound: float
    family: str


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Cells that cover all halfspaces of the class, each with its bound: L is the smallest.

    `threshold` is that of the plane about which slabs lie, `unit` the length that is 1 in cells;
    `turned` says that q is a margin there.
    """

    cells: tuple[CellBound, ...]
    threshold: float = 0.0
    unit: float = 1.0
    turned: bool = False

    @property
    def worst(self) -> CellBound:
        """The cell with the smallest bound."""
        return min(self.cells, key=lambda one: one.bound)

    @property
    def value(self) -> float:
        """L."""
        return self.worst.bound

    def thresholds(self) -> tuple[float, float]:
        """Smallest and largest threshold of the halfspaces of the worst cell, about."""
        low, high = self.worst.cell.offsets(self.threshold / self.unit)
        return low * self.unit, high * self.unit

    def profile(self) -> tuple[AngleBound, ...]:
        """The bound by angle, whatever the threshold: a partition of [0, pi]."""
        return self._by([self.angles(one.cell) for one in self.cells])

    def angles(self, cell: Cell) -> tuple[float, float]:
        """Angles between v and the normals of halfspaces of a cell."""
        return cell.turns() if self.turned else cell.angles()

    def floor(self) -> Callable[[Cell], float]:
        """What is known of cells of slabs about the same plane, from their angles to the axis."""
        pieces = self._by([one.cell.turns() for one in self.cells])
        starts = np.array([one.angle_low for one in pieces])
        bounds = np.array([one.bound for one in pieces])

        def known(cell: Cell) -> float:
            low, high = cell.turns()
            first = np.searchsorted(starts, low * (1 - OUTWARD), side="left") - 1
            last = np.searchsorted(starts, high * (1 + OUTWARD), side="right")
            return float(bounds[max(0, first) : last].min())

        return known

    def _by(self, spans: list[tuple[float, float]]) -> tuple[AngleBound, ...]:
        """The bound by angle, for cells that span these."""
        low, high = np.array(spans).T
        bounds = np.array([one.bound for one in self.cells])
        found: list[AngleBound] = []
        for begin, end in itertools.pairwise(sorted({0.0, math.pi, *itertools.chain(*spans)})):
            inside = np.flatnonzero((low < end) & (high > begin))
            least = self.cells[inside[np.argmin(bounds[inside])]]
            piece = AngleBound(begin, end, least.bound, least.family)
            if found and found[-1].bound == piece.bound:
                piece = replace(piece, angle_low=found.pop().angle_low)
            found.append(piece)
        return tuple(found)
