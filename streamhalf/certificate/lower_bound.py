"""No halfspace on these rows has error below L: L from slab statistics.

Any unit w is cos(theta) v + sin(theta) u with u orthogonal to v, and errs on a row where
u·s < tau = -z cot(theta). For an interval of angles every slab takes its smallest tau, at one
end of the interval and one extreme of z; minorants of the indicator turn the slab's moments into
a polynomial in u, whose minimum over the sphere is bounded by eigenvalues. L is the smallest
such bound over a partition of [0, pi] that is refined where it is worst.

sgn(0) = +1: a row with w·r = 0 errs if y = -1. The bound counts w·r < 0 alone, hence fewer
errors, never more. At theta = 0 and pi the errors of v and of -v are counted exactly.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.slab_forms import Fit, SlabForms, slab_forms
from streamhalf.errors import UsageError
from streamhalf.reductions.slab_moments import SMALLEST_ERROR, SlabStatistics

Array = NDArray[np.float64]

EXACT = "counted"
"""Family of a bound that is an exact count, not a minorant's mean."""

NARROW = 1.3
"""On intervals whose ends have a smaller quotient the forms' ranking does not change any more."""

SAME, OUT_OF_REACH = 3e-4, 0.05
"""Relative differences of two bounds that are the same, and of two that no search reconciles."""

LEAST_GAIN = 1e-4
"""Share of the bound that neighbours must contribute."""

WORTHWHILE = 0.003
"""Refits that gain less than this share of the limit are not repeated on the halves."""


@dataclass(frozen=True, slots=True)
class AngleBound:
    """No halfspace at an angle in [angle_low, angle_high] from v has error below `bound`."""

    angle_low: float
    angle_high: float
    bound: float
    family: str


@dataclass(frozen=True, slots=True)
class LowerBound:
    """L, the interval of angles that attains it, and the whole partition of [0, pi]."""

    value: float
    angle_low: float
    angle_high: float
    family: str
    profile: tuple[AngleBound, ...]


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


def find_again(*statistics: SlabStatistics, claimed: float, searches: int = 10) -> LowerBound:
    """Search for a bound that was found from the same sums, rounded otherwise.

    The search takes other turns then, and may end in a dead end somewhere. Searches that begin
    from other intervals end elsewhere; at every angle the best of them counts.
    """
    found = lower_bound(*statistics)
    for turn in range(1, searches):
        short = 1 - found.value / claimed if claimed > 0 else 0.0
        if short <= SAME or short > OUT_OF_REACH:
            break
        config = SearchConfig(first_intervals=17 + 2 * turn, refits=5 + turn % 3, enough=claimed)
        found = _merge(found, lower_bound(*statistics, search=config))
    return found


def _merge(left: LowerBound, right: LowerBound) -> LowerBound:
    """The better of two bounds at every angle."""
    ends = sorted({piece.angle_high for bound in (left, right) for piece in bound.profile})
    profile, low, places = [], 0.0, [0, 0]
    for high in ends:
        pieces = [left.profile[places[0]], right.profile[places[1]]]
        best = max(pieces, key=lambda piece: piece.bound)
        profile.append(AngleBound(low, high, best.bound, best.family))
        places = [at + (piece.angle_high <= high) for at, piece in zip(places, pieces, strict=True)]
        low = high
    worst = min(profile, key=lambda piece: piece.bound)
    return LowerBound(worst.bound, worst.angle_low, worst.angle_high, worst.family, tuple(profile))


@dataclass(frozen=True, slots=True, eq=False)
class _Interval:
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

    def touches(self, other: _Interval) -> bool:
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
    """Smallest tau of each slab over the angles [low, high]; -infinity where w errs on nobody."""
    steepest = 1 / math.tan(low) if low > 0 else math.inf
    flattest = 1 / math.tan(high) if high < math.pi else -math.inf
    right = forms.high if steepest > 0 else forms.low
    left = forms.low if flattest > 0 else forms.high
    with np.errstate(invalid="ignore"):
        tau = np.where(forms.negative, left * flattest, -right * steepest)
    # 0 times infinity: z = 0 at theta = 0 or pi, where w·r = 0 is no error of a row with y = 1
    return np.nan_to_num(tau, nan=-math.inf, posinf=math.inf, neginf=-math.inf)


def lower_bound(*statistics: SlabStatistics, search: SearchConfig | None = None) -> LowerBound:
    """Lower bound on the error of every halfspace sgn(w·x) on the rows behind the statistics.

    Parameters
    ----------
    statistics
        Of the same rows and direction; with several (say, degree 2 on fine slabs and degree 4
        on coarse ones) every interval of angles takes the best.
    search
        Effort; the bound is valid whatever it is.
    """
    first = _check(statistics)
    limit = min(first.n_errors, first.n_opposite_errors) / max(1, first.n_rows)
    if first.dim == 1 or first.n_rows == 0 or limit == 0:
        whole = AngleBound(0.0, math.pi, limit, EXACT)
        return LowerBound(limit, 0.0, math.pi, EXACT, (whole,))
    forms = tuple(
        slab_forms(item, degree)
        for item in statistics
        for degree in dict.fromkeys((item.degree, min(item.degree, 4), 2))
    )
    settled = _Search(forms, limit, search or SearchConfig()).run(first.error)
    return _summary(settled, forms, limit)


def _check(statistics: tuple[SlabStatistics, ...]) -> SlabStatistics:
    """Return the first statistics, once all are seen to speak of the same rows."""
    if not statistics:
        raise UsageError("lower_bound needs the statistics of at least one SlabMoments")
    first = statistics[0]
    for item in statistics[1:]:
        if (item.n_rows, item.dim, item.n_errors) != (first.n_rows, first.dim, first.n_errors):
            raise UsageError("statistics must be of the same rows and the same direction")
    return first


def _summary(settled: list[_Interval], forms: tuple[SlabForms, ...], limit: float) -> LowerBound:
    """Turn the search's intervals into the record."""
    profile = []
    for item in sorted(settled, key=lambda interval: interval.low):
        fit, form = item.fits[item.best], forms[item.best]
        family = f"degree {form.degree}, {fit.refits} refits"
        profile.append(AngleBound(item.low, item.high, max(0.0, min(limit, fit.value)), family))
    worst = min(profile, key=lambda row: row.bound)
    return LowerBound(worst.bound, worst.angle_low, worst.angle_high, worst.family, tuple(profile))


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """Best-first refinement: the worst interval is refitted, then split, until it is good."""

    forms: tuple[SlabForms, ...]
    limit: float
    config: SearchConfig

    def run(self, error: float) -> list[_Interval]:
        """Return the final partition of [0, pi]."""
        first = max(error, SMALLEST_ERROR) / 20
        rising = np.geomspace(first, math.pi / 2, self.config.first_intervals).tolist()
        ends = [0.0, *rising, 1.9, 2.4, math.pi]
        uniform = tuple(form.start() for form in self.forms)
        queue: list[tuple[float, int, _Interval]] = []
        done: list[_Interval] = []
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

    def measure(self, low: float, high: float, starts: tuple[Fit, ...]) -> _Interval:
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
        return _Interval(low, high, tuple(fits))

    def improve(self, worst: _Interval, *, room: bool) -> tuple[_Interval, ...]:
        """Refit an interval, or split it; nothing if neither is left to do."""
        final = not room or worst.high < worst.low * self.config.narrowest
        if not worst.refitted and (worst.promising or final):
            return (self.refit(worst, worst.best),)
        if not final:
            return self.split(worst)
        left = [i for i in range(len(self.forms)) if i not in worst.refitted]
        return (self.refit(worst, left[0]),) if left else ()

    def borrow(self, stuck: _Interval, neighbours: list[_Interval]) -> tuple[_Interval, ...]:
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

    def split(self, parent: _Interval) -> tuple[_Interval, ...]:
        """Cut an interval in two; what holds on the whole holds on its halves."""
        middle = math.sqrt(parent.low * parent.high) if parent.low > 0 else parent.high / 2
        if parent.low > math.pi / 2:
            middle = (parent.low + parent.high) / 2
        halves = (
            self.measure(low, high, parent.fits)
            for low, high in ((parent.low, middle), (middle, parent.high))
        )
        return tuple(replace(half, promising=parent.promising) for half in halves)

    def refit(self, item: _Interval, chosen: int) -> _Interval:
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
        return _Interval(
            item.low, item.high, fits, (*item.refitted, chosen), improved.value > least
        )
