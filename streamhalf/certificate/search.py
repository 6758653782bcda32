"""Best-first search over intervals of angles: the worst is refitted, then cut, until it is good."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.slab_forms import Fit, SlabForms
from streamhalf.reductions.slab_moments import SMALLEST_ERROR

Array = NDArray[np.float64]

LARGEST_CHEAP = 250
"""Matrices with more rows make every step dear, and get fewer."""

NARROW = 1.3
"""On intervals whose ends have a smaller quotient the forms' ranking does not change any more."""

LEAST_GAIN = 1e-4
"""Share of the bound that neighbours must contribute."""

ROUNDING = 1e-15
"""Thresholds are lowered by this share of them: products and changes of unit round."""

WORTHWHILE = 0.003
"""Refits that gain less than this share of the limit are not repeated on the halves."""


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How hard to search.

    Parameters
    ----------
    first_intervals
        Ends of the first intervals up to a right angle.
    max_intervals
        Size of the final partition at most.
    refits
        Rounds of fitting the minorants to the worst directions, per interval.
    eigen_steps
        Steps of the search for the shifts of an eigenvalue bound.
    tolerance
        The search ends when L is within this share of its upper limit, the error of v.
    narrowest
        Intervals whose ends have a quotient below this are not split any more.
    patience, progress
        The search ends when so many steps have not raised L by this share of its limit.
    behind
        Forms whose bound is smaller than the best by this share of the limit are not tried again
        on the halves of an interval.
    loans
        How often an interval that is stuck may begin from its neighbours' laws.
    enough
        The search ends when L is this large.
    """

    first_intervals: int = 17
    max_intervals: int = 96
    refits: int = 5
    eigen_steps: int = 8
    tolerance: float = 2e-3
    narrowest: float = 1.005
    patience: int = 60
    progress: float = 5e-4
    behind: float = 0.1
    loans: int = 2
    enough: float = math.inf


def usual_search(size: int) -> SearchConfig:
    """Effort for matrices of this size: the full one up to 250 rows (20 features at degree 4)."""
    share = min(1.0, (LARGEST_CHEAP / size) ** 2)
    return SearchConfig(
        max_intervals=24 + int(72 * share),
        refits=2 + int(3 * share),
        eigen_steps=4 + int(4 * share),
        patience=8 + int(52 * share),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """An interval with the best bound found so far, for each of the forms.

    `refitted` are the forms whose refits are spent, `promising` says whether these, or those of
    the interval it was cut from, gained anything; `borrowed` counts the times its neighbours
    helped out.
    """

    low: float
    high: float
    fits: tuple[Fit, ...]
    refitted: tuple[int, ...] = ()
    promising: bool = True
    borrowed: int = 0

    def touches(self, other: Interval) -> bool:
        """Whether the two are neighbours."""
        return self.high == other.low or self.low == other.high

    @property
    def best(self) -> int:
        """Which form gives the largest bound."""
        return int(np.argmax([fit.value for fit in self.fits]))

    @property
    def bound(self) -> float:
        """The largest bound of any form."""
        return self.fits[self.best].value


def thresholds(forms: SlabForms, low: float, high: float) -> Array:
    """Smallest tau of each slab over the angles [low, high]; -infinity where w errs on nobody.

    -z cot(theta) is smallest at a corner. Angles that share an end share its cotangent, however
    it is rounded: together intervals cover all directions.
    """
    steepest = 1 / math.tan(low) if low > 0 else math.inf
    flattest = 1 / math.tan(high) if high < math.pi else -math.inf
    with np.errstate(invalid="ignore"):
        corners = [z * cot for z in (forms.low, forms.high) for cot in (steepest, flattest)]
    # 0 times infinity: z = 0 at theta = 0 or pi, where w·r = 0 is no error of a row with y = 1
    tau = -np.nan_to_num(
        np.maximum.reduce(corners), nan=math.inf, posinf=math.inf, neginf=-math.inf
    )
    return np.asarray(tau * (1 - np.copysign(ROUNDING, tau)))


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """Best-first refinement: the worst interval is refitted, then split, until it is good."""

    forms: tuple[SlabForms, ...]
    limit: float
    config: SearchConfig

    def run(self, error: float) -> list[Interval]:
        """Return the final partition of [0, pi]."""
        first = max(error, SMALLEST_ERROR) / 20
        rising = np.geomspace(first, math.pi / 2, self.config.first_intervals).tolist()
        ends = [0.0, *rising, 1.9, 2.4, math.pi]
        uniform = tuple(form.start() for form in self.forms)
        queue: list[tuple[float, int, Interval]] = []
        done: list[Interval] = []
        serial = 0
        for low, high in itertools.pairwise(ends):
            item = self.measure(low, high, uniform)
            heapq.heappush(queue, (item.bound, serial := serial + 1, item))
        mark, patience = -math.inf, self.config.patience
        while queue:
            bound, _, worst = queue[0]
            if bound >= min(self.limit * (1 - self.config.tolerance), self.config.enough):
                break
            if bound > mark + self.config.progress * self.limit:
                mark, patience = bound, self.config.patience
            elif (patience := patience - 1) < 0:
                break
            heapq.heappop(queue)
            pieces = self.improve(worst, room=len(queue) + len(done) < self.config.max_intervals)
            if not pieces:
                others = [item for _, _, item in queue]
                pieces = self.borrow(worst, [one for one in others if one.touches(worst)])
            if not pieces:
                done.append(worst)
                break
            for item in pieces:
                heapq.heappush(queue, (item.bound, serial := serial + 1, item))
        return done + [item for _, _, item in queue]

    def measure(self, low: float, high: float, starts: tuple[Fit, ...]) -> Interval:
        """Bound an interval with minorants fitted to the laws of the one it was cut from.

        Where it is narrow, forms that were far behind on the wider one keep their bound from there.
        """
        behind = -math.inf
        if high < NARROW * low:
            behind = max(start.value for start in starts) - self.config.behind * self.limit
        fits = []
        for form, start in zip(self.forms, starts, strict=True):
            if start.value >= behind:
                tau = thresholds(form, low, high)
                found = form.measure(tau, start, steps=self.config.eigen_steps)
                start = found if found.value > start.value else start
            fits.append(start)
        return Interval(low, high, tuple(fits))

    def improve(self, worst: Interval, *, room: bool) -> tuple[Interval, ...]:
        """Refit an interval, or split it; nothing if neither is left to do."""
        final = not room or worst.high < worst.low * self.config.narrowest
        if not worst.refitted and (worst.promising or final):
            return (self.refit(worst, worst.best),)
        if not final:
            return self.split(worst)
        left = [i for i in range(len(self.forms)) if i not in worst.refitted]
        return (self.refit(worst, left[0]),) if left else ()

    def borrow(self, stuck: Interval, neighbours: list[Interval]) -> tuple[Interval, ...]:
        """Refit an interval from the laws that serve its neighbours better; nothing if in vain."""
        if stuck.borrowed >= self.config.loans:
            return ()
        config, fits = self.config, list(stuck.fits)
        for neighbour in neighbours:
            i = neighbour.best
            form, tau = self.forms[i], thresholds(self.forms[i], stuck.low, stuck.high)
            start = replace(neighbour.fits[i], value=fits[i].value)
            fits[i] = form.refit(tau, start, rounds=config.refits, steps=config.eigen_steps)
        found = replace(stuck, fits=tuple(fits), borrowed=stuck.borrowed + 1)
        return (found,) if found.bound > stuck.bound * (1 + LEAST_GAIN) else ()

    def split(self, parent: Interval) -> tuple[Interval, ...]:
        """Cut an interval in two; what holds on the whole holds on its halves."""
        middle = math.sqrt(parent.low * parent.high) if parent.low > 0 else parent.high / 2
        if parent.low > math.pi / 2:
            middle = (parent.low + parent.high) / 2
        halves = (
            self.measure(low, high, parent.fits)
            for low, high in ((parent.low, middle), (middle, parent.high))
        )
        return tuple(replace(half, promising=parent.promising) for half in halves)

    def refit(self, item: Interval, chosen: int) -> Interval:
        """Spend the refits on one of the forms.

        A law that served the wider interval may be a dead end on this one: where it gains
        nothing the refits begin once more from all directions alike.
        """
        form, start = self.forms[chosen], item.fits[chosen]
        tau = thresholds(form, item.low, item.high)
        least = start.value + WORTHWHILE * self.limit
        config = self.config
        improved = form.refit(tau, start, rounds=config.refits, steps=config.eigen_steps)
        if start.refits and improved.value < least:
            again = replace(form.start(), value=improved.value)
            found = form.refit(tau, again, rounds=config.refits, steps=config.eigen_steps)
            improved = found if found.value > improved.value else improved
        fits = (*item.fits[:chosen], improved, *item.fits[chosen + 1 :])
        return Interval(item.low, item.high, fits, (*item.refitted, chosen), improved.value > least)
