"""No halfspace on these rows has error below L: L from slab statistics.

Any halfspace errs on a row where u·s < tau, u a unit vector orthogonal to v (cells.py). For a cell of halfspaces every
slab takes its smallest tau; minorants of the indicator turn the slab's moments into a polynomial in u, whose minimum
over the sphere is bounded by eigenvalues. L is the smallest such bound over a partition of all halfspaces that is
refined where it is worst: of those through the origin, or of all where slabs hold rows of one label each.

sgn(0) = +1: a row on the boundary errs if y = -1. The bound counts rows beyond it alone, hence fewer errors, never
more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from streamhalf.certificate.cells import Cell, CellBound, LowerBound, cells_along, cells_around
from streamhalf.certificate.search import Meter, Search, SearchConfig, nothing_known
from streamhalf.certificate.slab_forms import Ladder, slab_forms, typical_unit
from streamhalf.errors import UsageError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.reductions.slab_moments import SMALLEST_ERROR, SlabStatistics

_BEFORE_BOXES, _BEFORE_LABELS, _FOR_BOXES, _NARROW = 0.05, 0.25, 1.5, 9
"""Effort for stages that others follow, and for a second direction, where there is reason to look along one, if so few
others are left; the last stage takes 1."""

_CONSTANT = 4
"""Largest degree beside a constant, whose two values higher ones gain nothing from."""

EXACT = "counted"
"""Family of a bound that is an exact count, not a minorant's mean."""

TOO_FEW = "too few rows"
"""Family of a bound of 0 that no search could raise."""

_MANY_FEATURES = 8

FIRST_OPERATIONS, MATRICES = 1.2e10, 40
"""Operations that a search may take: some for any features, and so many bounds of large ones."""

PATIENCE = 8
"""How much more effort than it took may go into a bound that is to be found again."""

SAME = 3e-4
"""Relative difference of two bounds that are the same."""


def find_again(
    *statistics: SlabStatistics, claimed: float, effort: float = 1.0, glance: bool = False, meter: Meter | None = None
) -> LowerBound:
    """Search for a bound that was found from the same sums, rounded otherwise.

    The search takes other turns then, and may end in a dead end somewhere: where it falls short another one tries
    harder on every cell. The best bound counts.
    """
    usual = replace(usual_search(statistics, effort), glance=glance)
    found = lower_bound(*statistics, search=usual, meter=meter)
    if found.value >= (1 - SAME) * claimed:
        return found
    harder = replace(
        usual,
        effort=PATIENCE * usual.effort,
        refits=2 * usual.refits,
        eigen_steps=2 * usual.eigen_steps,
        enough=claimed,
    )
    other = lower_bound(*statistics, search=harder, meter=meter)
    return max(found, other, key=lambda one: one.value)


def lower_bound(
    *statistics: SlabStatistics, search: SearchConfig | None = None, meter: Meter | None = None
) -> LowerBound:
    """Lower bound on the error of every halfspace on the rows behind the statistics.

    Of every halfspace sgn(w·x - t) where slabs hold rows of one label each, else of sgn(w·x).

    Parameters
    ----------
    statistics
        Of the same rows and plane; with several (say, degree 2 on fine slabs and degree 4 on coarse ones) every cell
        takes the best.
    search
        Effort; the bound is valid whatever it is.
    meter
        Where operations are counted.
    """
    first = _check(statistics)
    limit, unit = least_error(first), typical_unit(first)
    begin, config = max(first.error, SMALLEST_ERROR) / 20, search or usual_search(statistics)
    if first.dim == 1 or first.n_rows == 0 or limit == 0:
        limit = min(limit, least_on_a_line(first)) if first.by_label else limit
        cells = (cells_around if first.by_label else cells_along)(begin, 2)
        return LowerBound(tuple(CellBound(cell, limit, EXACT) for cell in cells), first.threshold)
    if is_hopeless(first.n_rows, first.error, first.dim):
        cells = _first_cells(first, begin)
        nothing = tuple(CellBound(cell, 0.0, TOO_FEW) for cell in cells)
        return LowerBound(nothing, first.threshold)
    found: LowerBound | None = None
    for stage, share in _stages(statistics, unit, config):
        begins = dict.fromkeys(_first_cells(stage[0], begin), -math.inf)
        some = replace(config, effort=share * config.effort)
        floor = found.floor() if found else nothing_known
        bounds = _search(stage, begins, limit, some, unit, floor, meter)
        found = LowerBound(bounds, first.threshold, unit, stage[0].across is not None)
    assert found is not None  # there is a first stage
    return found


def _stages(
    statistics: tuple[SlabStatistics, ...], unit: float, config: SearchConfig
) -> list[tuple[tuple[SlabStatistics, ...], float]]:
    """Ways to tell halfspaces apart, each of which begins with what those before it found.

    The angle to v alone; a second direction beside it; and thresholds. A threshold is one more coordinate of s in the
    first two, and is sliced in the last: the former is cheaper, the latter tells more where one label is rare.
    """
    slabs = tuple(item for item in statistics if item.across is None)
    boxes = tuple(item for item in statistics if item.across is not None)
    by_label = statistics[0].by_label
    stages = [(slabs, _BEFORE_BOXES if boxes else _BEFORE_LABELS if by_label else 1.0)]
    if boxes:
        stages.append((boxes, _FOR_BOXES if boxes[0].rest <= _NARROW else 1.0))
    if by_label:
        stages = [(tuple(item.upto(_CONSTANT).with_constant(unit) for item in kind), share) for kind, share in stages]
        stages.append((slabs, 1.0))
    stages = [(kind, share) for kind, share in stages if kind]
    return [(stages[0][0], 1.0)] if config.glance else stages


def _first_cells(statistics: SlabStatistics, first: float) -> tuple[Cell, ...]:
    """A partition of all halfspaces that slabs of this kind tell apart."""
    if statistics.by_label or statistics.across is not None:
        return cells_around(first, 4)
    return cells_along(first, 17)


def is_hopeless(n_rows: int, error: float, dim: int) -> bool:
    """Return True if so few rows err that their moments can hide any halfspace.

    A bound takes thirty times these rows; in few dimensions even a handful can tell.
    """
    return dim >= _MANY_FEATURES and n_rows * error < dim**2


def _search(
    statistics: tuple[SlabStatistics, ...],
    cells: dict[Cell, float],
    limit: float,
    config: SearchConfig,
    unit: float,
    floor: Callable[[Cell], float],
    meter: Meter | None = None,
) -> tuple[CellBound, ...]:
    """Bounds on cells that cover these, none worse than what is known of them."""
    ladders = tuple(
        Ladder.of(slab_forms(item, degree, unit))
        for item in statistics
        for degree in dict.fromkeys((item.degree, min(item.degree, 4), 2))
    )
    found = []
    for item in Search(ladders, limit, config, floor, meter or Meter()).run(cells):
        fit, form = item.fits[item.best], ladders[item.best].forms[0]
        family = f"degree {form.degree}, {fit.refits} refits"
        found.append(CellBound(item.cell, max(0.0, min(limit, item.bound)), family))
    return tuple(found)


def least_error(statistics: SlabStatistics) -> float:
    """Least error of a halfspace that was counted; no bound may be above it.

    Where slabs hold rows of one label each, those along v with a threshold at an end of a slab are among them, and both
    constant guesses.
    """
    least = min(statistics.n_errors, statistics.n_opposite_errors, *statistics.central_errors)
    if statistics.by_label and statistics.across is None:
        half = len(statistics.counts) // 2
        # edges lie alike on both sides of 0, so slabs of either label are the same places on v
        positive, negative = statistics.counts[:half], statistics.counts[half:][::-1]
        wrong = np.cumsum(np.concatenate([[negative.sum()], positive - negative]))
        least = min(least, int(wrong.min()), statistics.n_rows - int(wrong.max()))
    return least / max(1, statistics.n_rows)


def least_on_a_line(statistics: SlabStatistics) -> float:
    """No halfspace along v, whatever its threshold and side, errs on less.

    Counts rows of slabs that lie beyond the threshold as a whole.
    """
    held = statistics.counts > 0
    counts, positive = statistics.counts[held], statistics.labels[held] > 0
    low, high = statistics.low[held], statistics.high[held]
    # where v·x - t lies in the slab, and the slab's rows if they err on the left or on the right
    low, high = np.where(positive, low, -high), np.where(positive, high, -low)
    least = statistics.n_rows
    for left in (positive, ~positive):
        # a row errs if it lies left of the threshold, or right of it
        ends, starts = high[left], low[~left]
        rising, falling = np.argsort(ends), np.argsort(starts)
        below = np.concatenate([[0], np.cumsum(counts[left][rising])])
        above = np.concatenate([[0], np.cumsum(counts[~left][falling])])
        places = np.concatenate([ends, starts, [-np.inf, np.inf]])
        wrong = below[np.searchsorted(ends[rising], places, side="left")]
        wrong = wrong + above[-1]
        wrong = wrong - above[np.searchsorted(starts[falling], places, side="right")]
        least = min(least, int(wrong.min()))
    return least / max(1, statistics.n_rows)


def _check(statistics: tuple[SlabStatistics, ...]) -> SlabStatistics:
    """Return the first statistics, once all are seen to speak of the same rows and slabs."""
    if not statistics:
        raise UsageError("lower_bound needs the statistics of at least one SlabMoments")
    first = statistics[0]
    for item in statistics[1:]:
        same = (item.n_rows, item.dim, item.n_errors) == (first.n_rows, first.dim, first.n_errors)
        if not same or item.by_label != first.by_label:
            raise UsageError("statistics must be of the same rows and the same plane")
    return first


def usual_search(statistics: tuple[SlabStatistics, ...], effort: float = 1.0) -> SearchConfig:
    """The effort that rows of so many features are worth, about as much as the passes cost.

    In operations, so that the same search is made anywhere, however long it takes. With a second coordinate cells are
    many, and begin wide.
    """
    size = max(count_monomials(s.rest, s.degree // 2) for s in statistics)
    operations = effort * (FIRST_OPERATIONS + MATRICES * float(size) ** 3)
    return SearchConfig(effort=operations)


def most_operations(statistics: tuple[SlabStatistics, ...], effort: float = 1.0) -> float:
    """Return about the most operations that all stages of a search may take together."""
    share = _FOR_BOXES if any(item.across is not None for item in statistics) else 0.0
    return usual_search(statistics, effort).effort * (1 + _BEFORE_LABELS + share)
