"""No halfspace on these rows has error below L: L from slab statistics.

Any halfspace errs on a row where u·s < tau, u a unit vector orthogonal to v (cells.py). For a cell
of halfspaces every slab takes its smallest tau; minorants of the indicator turn the slab's moments
into a polynomial in u, whose minimum over the sphere is bounded by eigenvalues. L is the smallest
such bound over a partition of all halfspaces that is refined where it is worst: of those through
the origin, or of all where slabs hold rows of one label each.

sgn(0) = +1: a row on the boundary errs if y = -1. The bound counts rows beyond it alone, hence
fewer errors, never more.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from streamhalf.certificate.cells import Cell, cells_along, cells_around
from streamhalf.certificate.search import Piece, Search, SearchConfig, usual_search
from streamhalf.certificate.slab_forms import slab_forms, typical_unit
from streamhalf.errors import UsageError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.reductions.slab_moments import SMALLEST_ERROR, SlabStatistics

EXACT = "counted"
"""Family of a bound that is an exact count, not a minorant's mean."""

SAME, NEAR, OUT_OF_REACH = 3e-4, 0.02, 0.3
"""Relative differences of two bounds that are the same, that more searches should reconcile, and
that none does."""


@dataclass(frozen=True, slots=True)
class CellBound:
    """No halfspace of the cell has error below `bound`."""

    cell: Cell
    bound: float
    family: str


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A partition of all halfspaces of the class with their bounds, the worst of which is L."""

    cells: tuple[CellBound, ...]

    @property
    def worst(self) -> CellBound:
        return min(self.cells, key=lambda one: one.bound)

    @property
    def value(self) -> float:
        return self.worst.bound

def lower_bound(*statistics: SlabStatistics, search: SearchConfig | None = None) -> LowerBound:
    first=statistics[0]
    limit = least_error(first)
    unit = typical_unit(first)
    forms = tuple(
        slab_forms(item, degree, unit)
        for item in statistics
        for degree in dict.fromkeys((item.degree, min(item.degree, 4), 2))
    )
    config = search or _usual(statistics)
    begin = max(first.error, SMALLEST_ERROR) / 20
    cells = (cells_around if first.by_label else cells_along)(begin, config.first_cells)
    settled = Search(forms, limit, config).run(cells)
    return LowerBound(tuple(CellBound(one.cell, min(limit,one.bound), f"degree {forms[one.best].degree}") for one in settled))

def least_error(statistics: SlabStatistics) -> float:
    """Least error of a halfspace that was counted; no bound may be above it.

    Where slabs hold rows of one label each, those along v with a threshold at an end of a slab are
    among them, and both constant guesses.
    """
    least = min(statistics.n_errors, statistics.n_opposite_errors, *statistics.central_errors)
    if statistics.by_label:
        held = statistics.counts > 0
        counts, labels = statistics.counts[held], statistics.labels[held]
        ends = statistics.high[held], -statistics.low[held]
        place = np.where(labels > 0, ends[0], ends[1])  # the largest v·x - t in the slab
        order = np.argsort(place, kind="stable")
        # all rows of the slabs up to a place are called -1, the others +1, or the reverse
        balance = np.cumsum(np.where(labels > 0, counts, -counts)[order])
        negative = int(counts[labels < 0].sum())
        below = np.concatenate([[0], balance]) + negative
        least = min(least, int(below.min()), statistics.n_rows - int(below.max()))
    return least / max(1, statistics.n_rows)


def _usual(statistics: tuple[SlabStatistics, ...]) -> SearchConfig:
    """The effort that the largest matrix allows."""
    return usual_search(max(count_monomials(s.dim - 1, s.degree // 2) for s in statistics))

find_again=None
