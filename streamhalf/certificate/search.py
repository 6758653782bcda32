"""No halfspace on these rows has error below L: best-first search for L over cells of halfspaces.

Any halfspace errs on a row where u·s < tau, u a unit vector orthogonal to v (cells.py). For a cell of halfspaces every
slab takes its smallest tau; minorants of the indicator turn the slab's moments into a polynomial in u, whose minimum
over the sphere is bounded by eigenvalues. L is the smallest such bound over a partition of all halfspaces that is
refined where it is worst: of those through the origin, or of all where slabs hold rows of one label each.

A batch of the worst cells is improved at a time, by as many threads as there are cores; what comes out does not depend
on how many there are. sgn(0) = +1: a row on the boundary errs if y = -1. The bound counts rows beyond it alone, hence
fewer errors, never more.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamhalf.certificate.cells import Cell, CellBound, LowerBound, cells_along, cells_around
from streamhalf.certificate.slab_forms import Each, Fit, Ladder, SlabForms, slab_forms, typical_unit
from streamhalf.engine.cluster import available_cpus
from streamhalf.errors import UsageError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.reductions.slab_moments import SMALLEST_ERROR, SlabStatistics

Array = NDArray[np.float64]
# Effort for stages that others follow, and for a second direction, where there is reason to look along one, if so few
# others are left; the last stage takes 1
_BEFORE_BOXES, _BEFORE_LABELS, _FOR_BOXES, _NARROW_REST = 0.05, 0.25, 1.5, 9
_CONSTANT = 4  # largest degree beside a constant, whose two values higher ones gain nothing from
# Families of a bound that is an exact count, not a minorant's mean, and of a bound of 0 that no search could raise
EXACT, TOO_FEW = "counted", "too few rows"
_MANY_FEATURES = 8
# Operations that a search may take: some for any features, and so many bounds of large ones
FIRST_OPERATIONS, MATRICES = 1.2e10, 40
PATIENCE = 8  # how much more effort than it took may go into a bound that is to be found again
SAME = 3e-4  # relative difference of two bounds that are the same
BATCH = 8  # so many of the worst cells are improved at a time, whatever the number of cores
NARROW = 1.3  # on cells whose ends have a smaller quotient the forms' ranking does not change any more
WORTHWHILE = 0.003  # refits that gain less than this share of the limit begin once more from another law
_REPORTS = 20


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How hard to search."""

    effort: float = math.inf  # the search ends when so many operations were spent, about
    refits: int = 5  # rounds of fitting the minorants to the worst directions, per cell
    eigen_steps: int = 2  # steps of the search for the shifts of an eigenvalue bound
    tolerance: float = 8e-3  # the search ends when L is within this share of its upper limit, the error of v
    narrowest: float = 1.005  # cells whose ends have a quotient below this are not split any more
    # Forms of a lower degree whose bound is smaller than the best by this share of the limit are not tried again on
    # the halves of a narrow cell
    behind: float = 0.1
    enough: float = math.inf  # the search ends when L is this large
    glance: bool = False  # the first way to tell halfspaces apart is enough


@dataclass(slots=True, eq=False)
class Meter:
    """Operations that a search spends, told at most `_REPORTS` times of the `total` it may take."""

    total: float = math.inf
    report: Callable[[float, float], None] = field(default=lambda done, total: None)
    done: float = 0.0
    reported: int = 0

    def spend(self, operations: float) -> None:
        """Count operations, and tell of them now and then."""
        self.done += operations
        if (step := int(min(1.0, self.done / max(self.total, 1.0)) * _REPORTS)) > self.reported:
            self.reported = step
            self.report(min(self.done, self.total), self.total)

    def finish(self) -> None:
        """Tell that the search is over."""
        if self.reported < _REPORTS:
            self.reported = _REPORTS
            self.report(self.total, self.total)


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
    effort, refits, steps = PATIENCE * usual.effort, 2 * usual.refits, 2 * usual.eigen_steps
    harder = replace(usual, effort=effort, refits=refits, eigen_steps=steps, enough=claimed)
    return max(found, lower_bound(*statistics, search=harder, meter=meter), key=lambda one: one.value)


def lower_bound(
    *statistics: SlabStatistics, search: SearchConfig | None = None, meter: Meter | None = None
) -> LowerBound:
    """Lower bound on the error of every halfspace on the rows behind the statistics, whatever the `search`.

    Of every halfspace sgn(w·x - t) where slabs hold rows of one label each, else of sgn(w·x). The statistics are of the
    same rows and plane; with several (say, degree 2 on fine slabs and degree 4 on coarse ones) every cell takes the
    best.
    """
    if not statistics:
        raise UsageError("lower_bound needs the statistics of at least one SlabMoments")
    first = statistics[0]
    if len({(item.n_rows, item.dim, item.n_errors, item.by_label) for item in statistics}) > 1:
        raise UsageError("statistics must be of the same rows and the same plane")
    limit, unit = least_error(first), typical_unit(first)
    begin, config = max(first.error, SMALLEST_ERROR) / 20, search or usual_search(statistics)
    cells = _first_cells(first, begin)
    if first.dim == 1 or first.n_rows == 0 or limit == 0:
        limit = min(limit, least_on_a_line(first)) if first.by_label else limit
        return LowerBound(tuple(CellBound(cell, limit, EXACT) for cell in cells), first.threshold)
    # so few rows err that their moments can hide any halfspace: a bound takes thirty times these rows
    if first.dim >= _MANY_FEATURES and first.n_rows * first.error < first.dim**2:
        return LowerBound(tuple(CellBound(cell, 0.0, TOO_FEW) for cell in cells), first.threshold)
    found: LowerBound | None = None
    for stage, share in _stages(statistics, unit, config):
        ladders = tuple(
            Ladder.of(slab_forms(item, degree, unit))
            for item in stage
            for degree in dict.fromkeys((item.degree, min(item.degree, 4), 2))
        )
        some = replace(config, effort=share * config.effort)
        floor = found.floor() if found else _nothing_known
        pieces = Search(ladders, limit, some, floor, meter or Meter()).run(_first_cells(stage[0], begin))
        bounds = tuple(
            CellBound(
                one.cell,
                max(0.0, min(limit, one.bound)),
                f"degree {ladders[one.best].forms[0].degree}, {one.fits[one.best].refits} refits",
            )
            for one in pieces
        )
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
        stages.append((boxes, _FOR_BOXES if boxes[0].rest <= _NARROW_REST else 1.0))
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


def least_error(statistics: SlabStatistics) -> float:
    """Least error of a halfspace that was counted; no bound may be above it.

    Where slabs hold rows of one label each, those along v with a threshold at an end of a slab are among them, and both
    constant guesses.
    """
    least = min(statistics.errors)
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
        wrong = below[np.searchsorted(ends[rising], places, side="left")] + above[-1]
        wrong = wrong - above[np.searchsorted(starts[falling], places, side="right")]
        least = min(least, int(wrong.min()))
    return least / max(1, statistics.n_rows)


def usual_search(statistics: tuple[SlabStatistics, ...], effort: float = 1.0) -> SearchConfig:
    """The effort that rows of so many features are worth, about as much as the passes cost.

    In operations, so that the same search is made anywhere, however long it takes.
    """
    size = max(count_monomials(s.rest, s.degree // 2) for s in statistics)
    return SearchConfig(effort=effort * (FIRST_OPERATIONS + MATRICES * float(size) ** 3))


def most_operations(statistics: tuple[SlabStatistics, ...], effort: float = 1.0) -> float:
    """Return about the most operations that all stages of a search may take together."""
    share = _FOR_BOXES if any(item.across is not None for item in statistics) else 0.0
    return usual_search(statistics, effort).effort * (1 + _BEFORE_LABELS + share)


def _nothing_known(_: Cell) -> float:
    return -math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A cell with the best bound found so far, for each of the forms."""

    cell: Cell
    fits: tuple[Fit, ...]
    floor: float  # a bound that was known before
    refitted: tuple[int, ...] = ()  # forms whose refits are spent
    spent: float = 0.0  # operations that this took

    @property
    def best(self) -> int:
        """Which form gives the largest bound."""
        return int(np.argmax([fit.value for fit in self.fits]))

    @property
    def bound(self) -> float:
        """The largest bound of any form, or what is known without them."""
        return max(self.fits[self.best].value, self.floor)


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """Best-first refinement: the worst cells are refitted, then split, until they are good."""

    ladders: tuple[Ladder, ...]
    limit: float
    config: SearchConfig
    floor: Callable[[Cell], float] = _nothing_known
    meter: Meter = field(default_factory=Meter)
    each: Each = map

    def run(self, cells: Sequence[Cell]) -> list[Piece]:
        """Return cells that cover these, cut where they were worst."""
        threads = min(BATCH, available_cpus())
        if threads == 1:
            return self.refine(cells)
        with ThreadPoolExecutor(threads - 1) as pool:
            return replace(self, each=partial(_share_out, pool, threads)).refine(cells)

    def refine(self, cells: Sequence[Cell]) -> list[Piece]:
        """Improve the worst cells until L is good, or the effort is spent."""
        serial, config, left = itertools.count(), self.config, self.config.effort
        possible = min(self.limit * (1 - config.tolerance), config.enough)
        queue: list[tuple[float, int, Piece]] = []
        done: list[Piece] = []
        pieces = self.measure(cells, [tuple(ladder.at(cell).start() for ladder in self.ladders) for cell in cells])
        while True:
            spent = sum(item.spent for item in pieces)
            left -= spent
            self.meter.spend(spent)
            for item in pieces:
                heapq.heappush(queue, (item.bound, next(serial), item))
            if left <= 0:
                break
            worst: list[Piece] = []
            while queue and len(worst) < BATCH and queue[0][0] < possible:
                worst.append(heapq.heappop(queue)[-1])
            exhausted = [item for item in worst if self.is_exhausted(item)]
            # L is at most the bound of a cell that nothing can improve
            possible = min([possible, *(item.bound for item in exhausted)])
            done += exhausted
            batch = [item for item in worst if not self.is_exhausted(item)]
            if not batch:
                break
            pieces = self.improve(batch)
        return done + [item for *_, item in queue]

    def is_exhausted(self, item: Piece) -> bool:
        """Return True if a cell is not cut any more, and all its refits are spent."""
        narrow = item.cell.is_narrow(self.config.narrowest)
        return narrow and (len(item.refitted) == len(self.ladders) or not self.config.refits)

    def improve(self, batch: list[Piece]) -> list[Piece]:
        """Refit each cell, or split it, whichever promises more."""
        refits: dict[int, list[Piece]] = {}
        cells: list[Cell] = []
        starts: list[tuple[Fit, ...]] = []
        for item in batch:
            halves, gain = self.cut(item)
            fit, fresh = item.fits[item.best], not item.refitted and self.config.refits
            if item.cell.is_narrow(self.config.narrowest):
                left = [i for i in range(len(self.ladders)) if i not in item.refitted]
                refits.setdefault(item.best if item.best in left else left[0], []).append(item)
            elif fresh and fit.earned - item.bound > gain:
                refits.setdefault(item.best, []).append(item)
            else:
                cells += halves
                starts += [item.fits] * 2
        found = self.measure(cells, starts)
        for chosen, items in refits.items():
            found += self.refit(items, chosen)
        return found

    def measure(self, cells: Sequence[Cell], starts: Sequence[tuple[Fit, ...]]) -> list[Piece]:
        """Bound cells with minorants fitted to the laws of those that they were cut from.

        Where one is narrow, forms of a lower degree that were far behind on the wider one keep their bound from there.
        """
        fits, spent = [list(one) for one in starts], [0.0] * len(cells)
        for kind in range(len(self.ladders)):
            wanted = [i for i, cell in enumerate(cells) if self._is_promising(cell, fits[i], kind)]
            for form, among in self._by_form(kind, [cells[i] for i in wanted]):
                chosen = [wanted[j] for j in among]
                tau = form.thresholds([cells[i] for i in chosen])
                known = [fits[i][kind] for i in chosen]
                found = form.measure(tau, known, self.each, steps=self.config.eigen_steps)
                for i, fit in zip(chosen, found, strict=True):
                    # what holds for the wider cell holds for this one
                    fits[i][kind] = replace(fit, value=max(fit.value, fits[i][kind].value))
                    spent[i] += form.operations
        return [
            Piece(cell, tuple(own), self.floor(cell), spent=cost)
            for cell, own, cost in zip(cells, fits, spent, strict=True)
        ]

    def _is_promising(self, cell: Cell, fits: Sequence[Fit], kind: int) -> bool:
        """Return True if one of the forms may have the best bound of a cell."""
        if any(fit.value >= self.limit for fit in fits[:kind]):
            return False
        degrees = [ladder.forms[0].degree for ladder in self.ladders]
        if not cell.is_narrow(NARROW) or degrees[kind] == max(degrees):
            return True  # the highest degree is empty on wide cells, and ahead on narrow ones
        best = max(fit.value for fit in fits)
        return fits[kind].value >= best - self.config.behind * self.limit

    def _by_form(self, kind: int, cells: Sequence[Cell]) -> list[tuple[SlabForms, list[int]]]:
        """Which cells take which forms of a ladder."""
        forms = [self.ladders[kind].at(cell) for cell in cells]
        chosen = ((form, [i for i, one in enumerate(forms) if one is form]) for form in self.ladders[kind].forms)
        return [(form, among) for form, among in chosen if among]

    def cut(self, item: Piece) -> tuple[tuple[Cell, Cell], float]:
        """The halves that are worth most, were s normal, and how much more than the whole."""
        form = self.ladders[item.best].forms[-1]  # coarse slabs rank cuts as fine ones do
        ways = item.cell.halves()
        cells = [item.cell, *itertools.chain(*ways)]
        worth = ndtr(form.thresholds(cells)) @ form.mass
        gains = [float(worth[i] + worth[i + 1]) / 2 for i in range(1, len(cells), 2)]
        best = int(np.argmax(gains))
        return ways[best], gains[best] - float(worth[0])

    def refit(self, items: Sequence[Piece], chosen: int) -> list[Piece]:
        """Spend the refits of one of the forms.

        A law that served the wider cell may be a dead end on this one: where it gains nothing the refits begin once
        more from all directions alike.
        """
        found: list[Piece] = []
        rounds, steps = self.config.refits, self.config.eigen_steps
        for form, among in self._by_form(chosen, [item.cell for item in items]):
            own = [items[i] for i in among]
            tau = form.thresholds([item.cell for item in own])
            starts = [item.fits[chosen] for item in own]
            improved = form.refit(tau, starts, self.each, rounds=rounds, steps=steps)
            spent = [2 * rounds * form.operations] * len(own)
            least = [start.value + WORTHWHILE * self.limit for start in starts]
            dead = [i for i, start in enumerate(starts) if start.refits and improved[i].value < least[i]]
            if dead:
                anew = [replace(form.start(), value=improved[i].value) for i in dead]
                again = form.refit(tau[dead], anew, self.each, rounds=rounds, steps=steps)
                for i, fit in zip(dead, again, strict=True):
                    improved[i] = max(improved[i], fit, key=lambda one: one.value)
                    spent[i] *= 2
            for item, fit, cost in zip(own, improved, spent, strict=True):
                fits = (*item.fits[:chosen], fit, *item.fits[chosen + 1 :])
                found.append(Piece(item.cell, fits, item.floor, (*item.refitted, chosen), cost))
        return found


def _share_out(
    pool: ThreadPoolExecutor, threads: int, function: Callable[..., Any], *columns: Sequence[Any]
) -> Iterator[Any]:
    """Map as `map` does, a few calls to each thread, this one among them: to hand one over takes as long as some."""
    calls = list(zip(*columns, strict=True))

    def some(first: int) -> list[Any]:
        return [function(*call) for call in calls[first::threads]]

    others = [pool.submit(some, first) for first in range(1, min(threads, len(calls)))]
    found = [some(0), *(one.result() for one in others)]
    return (found[i % threads][i // threads] for i in range(len(calls)))
