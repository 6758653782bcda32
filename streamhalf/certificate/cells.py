"""Cells of halfspaces, thresholds of slabs that hold for all of a cell, and bounds of cells.

Rows are sliced by z, and by q if there is a second coordinate; s is what is left of them. Up to a positive factor every
halfspace is (omega, alpha, u), u a unit vector, and errs on a row where

    cos(omega) (z cos(alpha) + q sin(alpha)) + sin(omega) u·s < 0,

that is u·s < tau = cot(omega) g with g = -(z cos(alpha) + q sin(alpha)). q is -y where thresholds vary, or the margin
along a second direction. A cell takes the smallest tau of each slab: fewer errors, never more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.compiling import compiled
from streamhalf.results import AngleRecord, replace

Array = NDArray[np.float64]
ROUNDING = 1e-15  # thresholds are lowered by this share of what they are made of: products and sums round
RIGHT = math.pi / 2
OUTWARD = 1e-12  # angles of a cell reach out by this share: they are rounded


@dataclass(frozen=True, slots=True)
class Cell:
    """Halfspaces with omega in [omega_low, omega_high] and alpha in [alpha_low, alpha_high].

    Within 0 <= omega <= pi/2 and -pi <= alpha <= pi. Without a second coordinate alpha is 0 or pi alone. Cells that
    share an end share its sine, cosine and cotangent, however these are rounded: together they cover all halfspaces.
    """

    omega_low: float
    omega_high: float
    alpha_low: float = 0.0
    alpha_high: float = 0.0

    def halves(self) -> tuple[tuple[Cell, Cell], ...]:
        """Both ways to cut it in two, or the one that there is."""
        ends = (self.omega_low, self.omega_high, self.alpha_low, self.alpha_high)
        omega = _middle(self.omega_low, self.omega_high)
        across = (Cell(ends[0], omega, *ends[2:]), Cell(omega, ends[1], *ends[2:]))
        if self.alpha_low == self.alpha_high:
            return (across,)
        alpha = _middle(self.alpha_low, self.alpha_high)
        along = (Cell(*ends[:3], alpha), Cell(*ends[:2], alpha, ends[3]))
        return across, along

    def is_narrow(self, quotient: float) -> bool:
        """Return True if the ends of omega have a smaller quotient, and those of alpha are as near."""
        width = self.alpha_high - self.alpha_low
        return self.omega_high < quotient * self.omega_low and (
            width < (quotient - 1) * max(self.omega_low, abs(self.alpha_low))
        )

    @property
    def spread(self) -> float:
        """How far apart its halfspaces are, about, as the logarithm of a quotient of thresholds."""
        if self.omega_low == 0:
            return math.inf
        width = self.alpha_high - self.alpha_low
        along = width / max(self.omega_low, abs(self.alpha_low), abs(self.alpha_high) - width)
        return max(math.log(self.omega_high / self.omega_low), along)

    def angles(self, *, turned: bool = False) -> tuple[float, float]:
        """Smallest and largest angle between v and the normal of a halfspace.

        `turned` counts q as a coordinate: a margin, or any one for the angle to the axis of z; else q is -y.
        """
        alphas = {self.alpha_low, self.alpha_high}
        if self.alpha_low < 0 < self.alpha_high:
            alphas.add(0.0)
        found = []
        for alpha, omega in itertools.product(alphas, (self.omega_low, self.omega_high)):
            along, aside = (math.cos(omega) * part for part in _point(alpha))
            far = math.hypot(math.sin(omega), aside if turned else 0.0)
            found.append(RIGHT if omega == RIGHT else math.atan2(far, along))
        return min(found), max(found)

    def offsets(self, threshold: float) -> tuple[float, float]:
        """Smallest and largest threshold of a halfspace of the cell, about, for slabs about one.

        In units of q, with normals of length 1; infinite for a constant guess.
        """
        alpha = np.linspace(self.alpha_low, self.alpha_high, 65)
        omega = np.array([[self.omega_low], [self.omega_high]])
        across = np.hypot(np.cos(omega) * np.cos(alpha), np.sin(omega))
        with np.errstate(divide="ignore"):
            found = np.cos(omega) * (threshold * np.cos(alpha) + np.sin(alpha)) / across
        return float(found.min()), float(found.max())


def smallest_thresholds(cell: Cell, z_low: Array, z_high: Array, q_low: Array, q_high: Array, tau: Array) -> None:
    """Write the smallest tau of each slab over a cell; -infinity where no row is sure to err."""
    steepest = math.inf if cell.omega_low == 0 else 1 / math.tan(cell.omega_low)
    flattest = 0.0 if cell.omega_high == RIGHT else 1 / math.tan(cell.omega_high)
    ends = np.array([_point(cell.alpha_low), _point(cell.alpha_high)])
    _lowest(z_low, z_high, q_low, q_high, ends, steepest, flattest, tau)


@compiled
def _lowest(
    z_low: Array, z_high: Array, q_low: Array, q_high: Array, ends: Array, steepest: float, flattest: float, tau: Array
) -> None:
    """Write the smallest tau: at a corner of the slab, at an end of alpha or where it points."""
    (c1, s1), (c2, s2) = (ends[0, 0], ends[0, 1]), (ends[1, 0], ends[1, 1])
    turns = c1 != c2 or s1 != s2
    for i in range(len(tau)):
        size = max(abs(z_low[i]), abs(z_high[i])) + max(abs(q_low[i]), abs(q_high[i]))
        largest = -math.inf
        for corner in range(4):
            z = z_high[i] if corner & 1 else z_low[i]
            q = q_high[i] if corner & 2 else q_low[i]
            largest = max(largest, z * c1 + q * s1, z * c2 + q * s2)
            if turns and min(c1 * q - s1 * z, s2 * z - c2 * q) >= -ROUNDING * size:
                largest = max(largest, math.hypot(z, q))
        lowest = -largest - ROUNDING * size
        if lowest == 0:  # at omega = 0 w·r = 0 is no error of a row with y = 1
            tau[i] = -math.inf if steepest == math.inf else 0.0
        else:
            value = lowest * (flattest if lowest > 0 else steepest)
            tau[i] = value * (1 - math.copysign(ROUNDING, value))


def _point(alpha: float) -> tuple[float, float]:
    """Cosine and sine; the same at -pi and pi, where the cells meet again."""
    if abs(alpha) == math.pi:
        return -1.0, 0.0
    return math.cos(alpha), math.sin(alpha)


def _middle(low: float, high: float) -> float:
    """The geometric mean, of an interval that does not begin or end at 0."""
    if low * high > 0:
        return math.copysign(math.sqrt(low * high), low)
    return (low + high) / 2


def cells_along(first: float, count: int) -> tuple[Cell, ...]:
    """A partition of all halfspaces without a second coordinate: angles 0 to pi from v."""
    rising = [0.0, *_rising(first, count)]
    opposite = (0.0, math.pi - 2.4, math.pi - 1.9, RIGHT)
    return tuple(
        Cell(low, high, alpha, alpha)
        for alpha, ends in ((0.0, rising), (math.pi, opposite))
        for low, high in itertools.pairwise(ends)
    )


def cells_around(first: float, count: int) -> tuple[Cell, ...]:
    """A partition of all halfspaces with a second coordinate."""
    rising = _rising(first, count)
    alphas = itertools.pairwise([-math.pi, *(-alpha for alpha in rising[::-1]), 0.0, *rising, math.pi])
    return tuple(Cell(*o, *a) for o, a in itertools.product(itertools.pairwise([0.0, *rising]), alphas))


def _rising(first: float, count: int) -> list[float]:
    """Angles up to the right angle itself, which cells know by its value."""
    return [*np.geomspace(first, RIGHT, count)[:-1].tolist(), RIGHT]


@dataclass(frozen=True, slots=True)
class CellBound:
    """No halfspace of the cell has error below `bound`."""

    cell: Cell
    bound: float
    family: str


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Cells that cover all halfspaces of the class, each with its bound: L is the smallest.

    `threshold` is that of the plane about which slabs lie, `unit` the length that is 1 in cells; `turned` says that q
    is a margin there.
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

    def profile(self) -> tuple[AngleRecord, ...]:
        """The bound by angle, whatever the threshold: a partition of [0, pi]."""
        return self._by([one.cell.angles(turned=self.turned) for one in self.cells])

    def floor(self) -> Callable[[Cell], float]:
        """Return a floor for cells of slabs about the same plane, from their angles to the axis."""
        pieces = self._by([one.cell.angles(turned=True) for one in self.cells])
        starts = np.array([one.angle_low for one in pieces])
        bounds = np.array([one.bound for one in pieces])

        def known(cell: Cell) -> float:
            low, high = cell.angles(turned=True)
            first = np.searchsorted(starts, low * (1 - OUTWARD), side="left") - 1
            last = np.searchsorted(starts, high * (1 + OUTWARD), side="right")
            return float(bounds[max(0, first) : last].min())

        return known

    def _by(self, spans: list[tuple[float, float]]) -> tuple[AngleRecord, ...]:
        """The bound by angle, for cells that span these."""
        low, high = np.array(spans).T
        bounds = np.array([one.bound for one in self.cells])
        found: list[AngleRecord] = []
        for begin, end in itertools.pairwise(sorted({0.0, math.pi, *itertools.chain(*spans)})):
            inside = np.flatnonzero((low < end) & (high > begin))
            least = self.cells[inside[np.argmin(bounds[inside])]]
            piece = AngleRecord(begin, end, least.bound, least.family)
            if found and found[-1].bound == piece.bound:
                piece = replace(piece, angle_low=found.pop().angle_low)
            found.append(piece)
        return tuple(found)
