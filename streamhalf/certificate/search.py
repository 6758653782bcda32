"""Best-first search over cells of halfspaces: the worst is refitted, then cut, until it is good."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamhalf.certificate.cells import Cell
from streamhalf.certificate.slab_forms import Fit, SlabForms

Array = NDArray[np.float64]

LARGEST_CHEAP = 250
"""Matrices with more rows make every step dear, and get fewer."""

LARGEST_QUICK = 64
"""Matrices with fewer rows take no longer than the minorants."""

NARROW = 1.3
"""On cells whose ends have a smaller quotient the forms' ranking does not change any more."""

LEAST_GAIN = 1e-4
"""Share of the bound that neighbours must contribute."""

WORTHWHILE = 0.003
"""Refits that gain less than this share of the limit begin once more from another law."""


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How hard to search.

    Parameters
    ----------
    first_cells
        Ends of the first cells up to a right angle, for every angle.
    max_cells
        Size of the final partition at most.
    refits
        Rounds of fitting the minorants to the worst directions, per cell.
    eigen_steps
        Steps of the search for the shifts of an eigenvalue bound.
    tolerance
        The search ends when L is within this share of its upper limit, the error of v.
    narrowest
        Cells whose ends have a quotient below this are not split any more.
    patience, progress
        The search ends when so many steps have not raised L by this share of its limit.
    behind
        Forms whose bound is smaller than the best by this share of the limit are not tried again
        on the halves of a cell.
    loans
        How often a cell that is stuck may begin from its neighbours' laws.
    enough
        The search ends when L is this large.
    effort
        The search ends when so many bounds were computed, about: a cut takes two, a refit two for
        every round.
    """

    first_cells: int = 17
    max_cells: int = 96
    refits: int = 5
    eigen_steps: int = 8
    tolerance: float = 2e-3
    narrowest: float = 1.005
    patience: int = 60
    progress: float = 5e-4
    behind: float = 0.1
    loans: int = 2
    enough: float = math.inf
    effort: float = math.inf


def usual_search(size: int, *, around: bool = False) -> SearchConfig:
    """Effort for matrices of this size: the full one up to 250 rows (20 features at degree 4).

    With a second coordinate (`around`) cells are many and their bounds rough, and fewer where a
    matrix takes longer than all that is done beside it.
    """
    share = min(1.0, (LARGEST_CHEAP / size) ** 2)
    if around:
        cells = 64 + int(436 * min(1.0, (LARGEST_QUICK / size) ** 1.5))
        return SearchConfig(
            first_cells=4,
            max_cells=cells,
            refits=2 + int(3 * share),
            eigen_steps=3,
            patience=cells // 2,
            effort=2.4 * cells,
        )
    return SearchConfig(
        max_cells=24 + int(72 * share),
        refits=2 + int(3 * share),
        eigen_steps=4 + int(4 * share),
        patience=8 + int(52 * share),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A cell with the best bound found so far, for each of the forms.

    `refitted` are the forms whose refits are spent; `borrowed` counts the times its neighbours
    helped out.
    """

    cell: Cell
    fits: tuple[Fit, ...]
    refitted: tuple[int, ...] = ()
    borrowed: int = 0

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
    """Best-first refinement: the worst cell is refitted, then split, until it is good."""

    forms: tuple[SlabForms, ...]
    limit: float
    config: SearchConfig

    def run(self, cells: Mapping[Cell, float]) -> list[Piece]:
        """Return cells that cover these, with bounds that are known, cut where they were worst."""
        uniform = tuple(form.start() for form in self.forms)
        queue: list[tuple[float, int, Piece]] = []
        done: list[Piece] = []
        serial = 0
        for cell, known in cells.items():
            item = self.measure(cell, (replace(uniform[0], value=known), *uniform[1:]))
            heapq.heappush(queue, (item.bound, serial := serial + 1, item))
        mark, patience, effort = -math.inf, self.config.patience, self.config.effort
        while queue and effort > 0:
            bound, _, worst = queue[0]
            if bound >= min(self.limit * (1 - self.config.tolerance), self.config.enough):
                break
            if bound > mark + self.config.progress * self.limit:
                mark, patience = bound, self.config.patience
            elif (patience := patience - 1) < 0:
                break
            heapq.heappop(queue)
            pieces = self.improve(worst, room=len(queue) + len(done) < self.config.max_cells)
            if not pieces:
                others = (item for _, _, item in queue)
                pieces = self.borrow(worst, [one for one in others if one.cell.touches(worst.cell)])
            if not pieces:
                done.append(worst)
                break
            effort -= 2 if len(pieces) == 2 else 2 * self.config.refits
            for item in pieces:
                heapq.heappush(queue, (item.bound, serial := serial + 1, item))
        return done + [item for _, _, item in queue]

    def measure(self, cell: Cell, starts: tuple[Fit, ...]) -> Piece:
        """Bound a cell with minorants fitted to the laws of the one it was cut from.

        Where it is narrow, forms that were far behind on the wider one keep their bound from there.
        """
        behind = -math.inf
        if cell.is_narrow(NARROW):
            behind = max(start.value for start in starts) - self.config.behind * self.limit
        fits: list[Fit] = []
        for form, start in zip(self.forms, starts, strict=True):
            if any(fit.value >= self.limit for fit in fits):
                behind = math.inf
            if start.value >= behind:
                found = form.measure(cell.thresholds(form), start, steps=self.config.eigen_steps)
                start = found if found.value > start.value else replace(start, earned=found.earned)
            fits.append(start)
        return Piece(cell, tuple(fits))

    def improve(self, worst: Piece, *, room: bool) -> tuple[Piece, ...]:
        """Refit a cell, or split it; nothing if neither is left to do."""
        final = not room or worst.cell.is_narrow(self.config.narrowest)
        if final:
            left = [i for i in range(len(self.forms)) if i not in worst.refitted]
            chosen = worst.best if worst.best in left else left[0] if left else None
            return () if chosen is None else (self.refit(worst, chosen),)
        halves, gain = self.cut(worst)
        fit = worst.fits[worst.best]
        if not worst.refitted and fit.earned - fit.value > gain:
            return (self.refit(worst, worst.best),)
        return tuple(self.measure(half, worst.fits) for half in halves)

    def cut(self, item: Piece) -> tuple[tuple[Cell, Cell], float]:
        """The halves that are worth most, were s normal, and how much more than the whole."""
        form = self.forms[item.best]

        def worth(*cells: Cell) -> float:
            return sum(float(form.mass @ ndtr(cell.thresholds(form))) for cell in cells)

        found = [(worth(*halves) / 2, halves) for halves in item.cell.halves()]
        best, halves = max(found, key=lambda one: one[0])
        return halves, best - worth(item.cell)

    def borrow(self, stuck: Piece, neighbours: list[Piece]) -> tuple[Piece, ...]:
        """Refit a cell from the laws that serve its neighbours better; nothing if in vain."""
        if stuck.borrowed >= self.config.loans:
            return ()
        config, fits = self.config, list(stuck.fits)
        for neighbour in neighbours:
            i = neighbour.best
            form, tau = self.forms[i], stuck.cell.thresholds(self.forms[i])
            start = replace(neighbour.fits[i], value=fits[i].value)
            fits[i] = form.refit(tau, start, rounds=config.refits, steps=config.eigen_steps)
        found = replace(stuck, fits=tuple(fits), borrowed=stuck.borrowed + 1)
        return (found,) if found.bound > stuck.bound * (1 + LEAST_GAIN) else ()

    def refit(self, item: Piece, chosen: int) -> Piece:
        """Spend the refits on one of the forms.

        A law that served the wider cell may be a dead end on this one: where it gains nothing the
        refits begin once more from all directions alike.
        """
        form, start = self.forms[chosen], item.fits[chosen]
        tau = item.cell.thresholds(form)
        least = start.value + WORTHWHILE * self.limit
        config = self.config
        improved = form.refit(tau, start, rounds=config.refits, steps=config.eigen_steps)
        if start.refits and improved.value < least:
            again = replace(form.start(), value=improved.value)
            found = form.refit(tau, again, rounds=config.refits, steps=config.eigen_steps)
            improved = found if found.value > improved.value else improved
        fits = (*item.fits[:chosen], improved, *item.fits[chosen + 1 :])
        return Piece(item.cell, fits, (*item.refitted, chosen))
