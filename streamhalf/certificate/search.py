"""Best-first search over cells of halfspaces: the worst are refitted or cut, until all are good.

A batch of the worst cells is improved at a time, by as many threads as there are cores; what comes out does not depend
on how many there are.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamhalf.certificate.cells import Cell, smallest_thresholds
from streamhalf.certificate.slab_forms import Each, Fit, Ladder, SlabForms
from streamhalf.engine.cluster import available_cpus

Array = NDArray[np.float64]

BATCH = 8
"""So many of the worst cells are improved at a time, whatever the number of cores."""

NARROW = 1.3
"""On cells whose ends have a smaller quotient the forms' ranking does not change any more."""

WORTHWHILE = 0.003
"""Refits that gain less than this share of the limit begin once more from another law."""

_REPORTS = 20


def nothing_known(_: Cell) -> float:
    """Return the trivial bound of a cell before any search."""
    return -math.inf


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How hard to search.

    Parameters
    ----------
    effort
        The search ends when so many operations were spent, about.
    refits
        Rounds of fitting the minorants to the worst directions, per cell.
    eigen_steps
        Steps of the search for the shifts of an eigenvalue bound.
    tolerance
        The search ends when L is within this share of its upper limit, the error of v.
    narrowest
        Cells whose ends have a quotient below this are not split any more.
    behind
        Forms of a lower degree whose bound is smaller than the best by this share of the limit are not tried again on
        the halves of a narrow cell.
    enough
        The search ends when L is this large.
    glance
        Whether the first way to tell halfspaces apart is enough.
    """

    effort: float = math.inf
    refits: int = 5
    eigen_steps: int = 2
    tolerance: float = 8e-3
    narrowest: float = 1.005
    behind: float = 0.1
    enough: float = math.inf
    glance: bool = False


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


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A cell with the best bound found so far, for each of the forms.

    `floor` is a bound that was known before, `refitted` are the forms whose refits are spent, `spent` the operations
    that this took.
    """

    cell: Cell
    fits: tuple[Fit, ...]
    floor: float
    refitted: tuple[int, ...] = ()
    spent: float = 0.0

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
    floor: Callable[[Cell], float] = nothing_known
    meter: Meter = field(default_factory=Meter)
    each: Each = map

    def run(self, cells: Mapping[Cell, float]) -> list[Piece]:
        """Return cells that cover these, with bounds that are known, cut where they were worst."""
        with ThreadPoolExecutor(min(BATCH, available_cpus())) as pool:
            return replace(self, each=pool.map).refine(cells)

    def refine(self, cells: Mapping[Cell, float]) -> list[Piece]:
        """Improve the worst cells until L is good, or the effort is spent."""
        serial, config, left = itertools.count(), self.config, self.config.effort
        possible = min(self.limit * (1 - config.tolerance), config.enough)
        queue: list[tuple[float, int, Piece]] = []
        done: list[Piece] = []
        pieces = self.begin(cells)
        while True:
            spent = sum(item.spent for item in pieces)
            left -= spent
            self.meter.spend(spent)
            for item in pieces:
                heapq.heappush(queue, (item.bound, next(serial), item))
            if left <= 0:
                break
            batch: list[Piece] = []
            while queue and len(batch) < BATCH and queue[0][0] < possible:
                batch.append(heapq.heappop(queue)[-1])
            exhausted = [item for item in batch if self.is_exhausted(item)]
            # L is at most the bound of a cell that nothing can improve
            possible = min([possible, *(item.bound for item in exhausted)])
            done += exhausted
            batch = [item for item in batch if not self.is_exhausted(item)]
            if not batch:
                break
            pieces = self.improve(batch)
        return done + [item for *_, item in queue]

    def begin(self, cells: Mapping[Cell, float]) -> list[Piece]:
        """Bound cells of which so much is known."""
        starts = []
        for cell, known in cells.items():
            uniform = [ladder.at(cell).start() for ladder in self.ladders]
            starts.append((replace(uniform[0], value=known), *uniform[1:]))
        return self.measure(list(cells), starts)

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
                found = form.measure(
                    thresholds([cells[i] for i in chosen], form),
                    [form.seen(fits[i][kind]) for i in chosen],
                    self.each,
                    steps=self.config.eigen_steps,
                )
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
        return [
            (form, [i for i, one in enumerate(forms) if one is form])
            for form in self.ladders[kind].forms
            if any(one is form for one in forms)
        ]

    def cut(self, item: Piece) -> tuple[tuple[Cell, Cell], float]:
        """The halves that are worth most, were s normal, and how much more than the whole."""
        form = self.ladders[item.best].forms[-1]  # coarse slabs rank cuts as fine ones do
        ways = item.cell.halves()
        cells = [item.cell, *itertools.chain(*ways)]
        worth = ndtr(thresholds(cells, form)) @ form.mass
        gains = [float(worth[i] + worth[i + 1]) / 2 for i in range(1, len(cells), 2)]
        best = int(np.argmax(gains))
        return ways[best], gains[best] - float(worth[0])

    def refit(self, items: Sequence[Piece], chosen: int) -> list[Piece]:
        """Spend the refits of one of the forms.

        A law that served the wider cell may be a dead end on this one: where it gains nothing the refits begin once
        more from all directions alike.
        """
        found: list[Piece] = []
        config = self.config
        for form, among in self._by_form(chosen, [item.cell for item in items]):
            own = [items[i] for i in among]
            tau = thresholds([item.cell for item in own], form)
            starts = [form.seen(item.fits[chosen]) for item in own]
            rounds, steps = config.refits, config.eigen_steps
            improved = form.refit(tau, starts, self.each, rounds=rounds, steps=steps)
            spent = [2 * config.refits * form.operations] * len(own)
            least = WORTHWHILE * self.limit
            dead = [
                i
                for i, (start, fit) in enumerate(zip(starts, improved, strict=True))
                if start.refits and fit.value < start.value + least
            ]
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


def thresholds(cells: Sequence[Cell], form: SlabForms) -> Array:
    """Smallest thresholds of the slabs over each cell."""
    return np.stack([smallest_thresholds(cell, form) for cell in cells])
