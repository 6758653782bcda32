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

import math
from dataclasses import dataclass, replace

from streamhalf.certificate.search import Interval, Search, SearchConfig, usual_search
from streamhalf.certificate.slab_forms import SlabForms, slab_forms
from streamhalf.errors import UsageError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.reductions.slab_moments import SlabStatistics

EXACT = "counted"
"""Family of a bound that is an exact count, not a minorant's mean."""

SAME, NEAR, OUT_OF_REACH = 3e-4, 0.02, 0.3
"""Relative differences of two bounds that are the same, that more searches should reconcile, and
that none does."""


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


def find_again(*statistics: SlabStatistics, claimed: float, searches: int = 10) -> LowerBound:
    """Search for a bound that was found from the same sums, rounded otherwise.

    The search takes other turns then, and may end in a dead end somewhere. Searches that begin
    from other intervals end elsewhere; at every angle the best of them counts. Where they come
    near, four times as many are made.
    """
    found = lower_bound(*statistics)
    for turn in range(1, 4 * searches):
        short = 1 - found.value / claimed if claimed > 0 else 0.0
        if short <= SAME or short > (OUT_OF_REACH if turn < searches else NEAR):
            break
        usual = _usual(statistics)
        config = replace(
            usual,
            first_intervals=usual.first_intervals + 2 * turn,
            refits=usual.refits + turn % 3,
            enough=claimed,
        )
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
    settled = Search(forms, limit, search or _usual(statistics)).run(first.error)
    return _summary(settled, forms, limit)


def _usual(statistics: tuple[SlabStatistics, ...]) -> SearchConfig:
    """The effort that the largest matrix allows."""
    return usual_search(max(count_monomials(s.dim - 1, s.degree // 2) for s in statistics))


def _check(statistics: tuple[SlabStatistics, ...]) -> SlabStatistics:
    """Return the first statistics, once all are seen to speak of the same rows."""
    if not statistics:
        raise UsageError("lower_bound needs the statistics of at least one SlabMoments")
    first = statistics[0]
    for item in statistics[1:]:
        if (item.n_rows, item.dim, item.n_errors) != (first.n_rows, first.dim, first.n_errors):
            raise UsageError("statistics must be of the same rows and the same direction")
    return first


def _summary(settled: list[Interval], forms: tuple[SlabForms, ...], limit: float) -> LowerBound:
    """Turn the search's intervals into the record."""
    profile = []
    for item in sorted(settled, key=lambda interval: interval.low):
        fit, form = item.fits[item.best], forms[item.best]
        family = f"degree {form.degree}, {fit.refits} refits"
        profile.append(AngleBound(item.low, item.high, max(0.0, min(limit, fit.value)), family))
    worst = min(profile, key=lambda row: row.bound)
    return LowerBound(worst.bound, worst.angle_low, worst.angle_high, worst.family, tuple(profile))
