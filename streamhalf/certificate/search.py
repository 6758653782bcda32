"""Best-first search over cells of halfspaces: the worst are refitted or cut, until all are good."""

from __future__ import annotations

import heapq
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamhalf.certificate.cells import Cell
from streamhalf.certificate.slab_forms import Fit, Ladder

Array = NDArray[np.float64]

BATCH = 8
"""So many of the worst cells are improved at a time, whatever the number of cores."""

LARGE = 128
"""Matrices with as many rows keep a core busy without the interpreter: cells go to threads."""

NARROW = 1.3
"""On cells whose ends have a smaller quotient the forms' ranking does not change any more."""

WORTHWHILE = 0.003
"""Refits that gain less than this share of the limit begin once more from another law."""


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How hard to search.

    Parameters
    ----------
    first_cells
        Ends of the first cells up to a right angle, for every angle.
    effort
        The search ends when so many operations were spent, about.
    refits
        Rounds of fitting the minorants to the worst directions, per cell.
    eigen_steps
        Steps of the search for the shifts of the first eigenvalue bounds.
    tolerance
        The search ends when L is within this share of its upper limit, the error of v.
    narrowest
        Cells whose ends have a quotient below this are not split any more.
    behind
        Forms whose bound is smaller than the best by this share of the limit are not tried again
        on the halves of a cell.
    enough
        The search ends when L is this large.
    """

    first_cells: int = 17
    effort: float = math.inf
    refits: int = 5
    eigen_steps: int = 8
    tolerance: float = 2e-3
    narrowest: float = 1.005
    behind: float = 0.1
    enough: float = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A cell with the best bound found so far, for each of the forms.

    `refitted` are the forms whose refits are spent, `spent` the operations that this took.
    """

    cell: Cell
    fits: tuple[Fit, ...]
    refitted: tuple[int, ...] = ()
    spent: float = 0.0

    @property
    def best(self) -> int:
        """Which form gives the largest bound."""
        return int(np.argmax([fit.value for fit in self.fits]))

    @property
    def bound(self) -> float:
        """The largest bound of any form."""
        return self.fits[self.best].value


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """Best-first refinement: the worst cells are refitted, then split, until they are good."""

    ladders: tuple[Ladder, ...]
    limit: float
    config: SearchConfig

    def run(self, cells: Mapping[Cell, float]) -> list[Piece]:
        """Return cells that cover these, with bounds that are known, cut where they were worst."""
        serial, left = itertools.count(), self.config.effort
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            each: Callable[..., Iterable[tuple[Piece, ...]]] = (
                pool.map if self.ladders[0].size >= LARGE else map
            )
            queue = [
                (item.bound, next(serial), item)
                for (item,) in each(lambda one: (self.begin(*one),), cells.items())
            ]
            heapq.heapify(queue)
            left -= sum(item.spent for *_, item in queue)
            best_possible = min(self.limit * (1 - self.config.tolerance), self.config.enough)
            done: list[Piece] = []
            while queue and left > 0 and queue[0][0] < best_possible:
                batch = []
                while queue and len(batch) < BATCH and queue[0][0] < best_possible:
                    batch.append(heapq.heappop(queue)[-1])
                for item, pieces in zip(batch, each(self.improve, batch), strict=True):
                    left -= sum(one.spent for one in pieces)
                    for one in pieces:
                        heapq.heappush(queue, (one.bound, next(serial), one))
                    if not pieces:
                        best_possible = min(best_possible, item.bound)
                        done.append(item)
        return done + [item for *_, item in queue]

    def begin(self, cell: Cell, known: float) -> Piece:
        """Bound a cell of which so much is known."""
        uniform = tuple(ladder.at(cell).start() for ladder in self.ladders)
        return self.measure(cell, (replace(uniform[0], value=known), *uniform[1:]))

    def measure(self, cell: Cell, starts: tuple[Fit, ...]) -> Piece:
        """Bound a cell with minorants fitted to the laws of the one it was cut from.

        Where it is narrow, forms that were far behind on the wider one keep their bound from there.
        """
        behind = -math.inf
        if cell.is_narrow(NARROW):
            behind = max(start.value for start in starts) - self.config.behind * self.limit
        fits: list[Fit] = []
        spent = 0.0
        for ladder, start in zip(self.ladders, starts, strict=True):
            if any(fit.value >= self.limit for fit in fits):
                behind = math.inf
            if start.value >= behind:
                form = ladder.at(cell)
                tau = cell.thresholds(form)
                found = form.measure(tau, form.seen(start), steps=self.config.eigen_steps)
                # what holds for the wider cell holds for this one
                start = replace(found, value=max(found.value, start.value))
                spent += form.operations
            fits.append(start)
        return Piece(cell, tuple(fits), spent=spent)

    def improve(self, worst: Piece) -> tuple[Piece, ...]:
        """Refit a cell, or split it; nothing if neither is left to do."""
        if worst.cell.is_narrow(self.config.narrowest):
            left = [i for i in range(len(self.ladders)) if i not in worst.refitted]
            chosen = worst.best if worst.best in left else left[0] if left else None
            return () if chosen is None else (self.refit(worst, chosen),)
        halves, gain = self.cut(worst)
        fit = worst.fits[worst.best]
        if not worst.refitted and self.config.refits and fit.earned - fit.value > gain:
            return (self.refit(worst, worst.best),)
        return tuple(self.measure(half, worst.fits) for half in halves)

    def cut(self, item: Piece) -> tuple[tuple[Cell, Cell], float]:
        """The halves that are worth most, were s normal, and how much more than the whole."""
        form = self.ladders[item.best].at(item.cell)

        def worth(*cells: Cell) -> float:
            return sum(float(form.mass @ ndtr(cell.thresholds(form))) for cell in cells)

        found = [(worth(*halves) / 2, halves) for halves in item.cell.halves()]
        best, halves = max(found, key=lambda one: one[0])
        return halves, best - worth(item.cell)

    def refit(self, item: Piece, chosen: int) -> Piece:
        """Spend the refits on one of the forms.

        A law that served the wider cell may be a dead end on this one: where it gains nothing the
        refits begin once more from all directions alike.
        """
        form, config = self.ladders[chosen].at(item.cell), self.config
        start, tau = form.seen(item.fits[chosen]), item.cell.thresholds(form)
        least = start.value + WORTHWHILE * self.limit
        improved = form.refit(tau, start, rounds=config.refits, steps=config.eigen_steps)
        spent = 2 * config.refits * form.operations
        if start.refits and improved.value < least:
            again = replace(form.start(), value=improved.value)
            found = form.refit(tau, again, rounds=config.refits, steps=config.eigen_steps)
            improved = found if found.value > improved.value else improved
            spent *= 2
        fits = (*item.fits[:chosen], improved, *item.fits[chosen + 1 :])
        return Piece(item.cell, fits, (*item.refitted, chosen), spent)
