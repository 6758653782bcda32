"""The constant C of C opt + eps that a run's tests support: the worst law that a program found.

No theorem: at degree 4 nobody has proved one. `scripts/attacks --constants` looks for the worst law
by linear program, with cutting planes for the quadratics, among the laws in a plane on a grid whose
first coordinate is exactly normal, on which a run comes to rest at v (the Chow vector of the
accepted rows lies along v at every scale 1, 1/2, ..., delta), with slab second moments at most 2,
wedge bounds at most 2.5 eta and quadratics within the deviation at every scale. A law's figure is
(error of v - eps) / opt with eps = delta / 2; opt at least eps / 32 (below that the error is at
most (1 + C/32) eps). The tables are the largest figures found over angles of 0.02 to 1.4 rad
between v and the better halfspace and finest scales of 1/4 to 1/256, with the 5 to 8% that
finer grids gained where they were tried, and 3% more. The quadratics decide: slabs and wedges
hardly change the figures, and the plane may lie anywhere among any number of features.

`FLAT` is for the same deviation at every scale. A law hides best a few scales above the finest one,
so it helps to exclude more there: `FALLING` is by the deviation at the finest scale, less by
sqrt(2) at each coarser one, down to a quarter; rows give that of themselves where every scale is
tested on all rows that it accepts.

Where the Chow vector's component across v is 2% or 5% of the one along it (sampling) and not 0, a
falling 0.2 gives 7% or 21% more; a path that drifts to v, by 0.1 to 0.5 of the scale in each step,
instead of resting there gives at most 5% more. An update has rows enough for about 2% along any
one direction: what is given out is a tenth above the tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

import numpy as np

FLAT = (
    (0.05, 4.6),
    (0.1, 6.4),
    (0.15, 8.9),
    (0.2, 12.5),
    (0.25, 17.8),
    (0.3, 25.5),
    (0.4, 55.0),
    (0.5, 125.0),
)
"""(deviation of the quadratics at every scale, constant)."""

FALLING = (
    (0.05, 3.8),
    (0.1, 4.1),
    (0.15, 4.7),
    (0.2, 5.7),
    (0.25, 7.1),
    (0.3, 11.0),
    (0.4, 24.0),
    (0.5, 47.0),
)
"""(deviation of the quadratics at the finest scale, constant)."""

LARGEST_DEVIATION = FLAT[-1][0]
"""Beyond it no constant was found."""

SAMPLING = 1.1
"""What sampling and a path that drifts may add."""

LARGEST_STEP = 2.3
"""From one scale to the next; between scales that lie farther apart a law could hide."""

LEAST_SHARE = 0.25
"""Of the finest scale's deviation: what coarser ones need not go below."""


def supported_constant(deviation: float) -> float:
    """The constant where quadratics deviate by at most this at every scale; inf off the table."""
    return _interpolate(FLAT, deviation)


def constant_by_scale(deviations: Mapping[float, float]) -> float:
    """The constant, given the largest deviation that was excluded at each scale delta.

    The better of both tables; every scale 1, 1/2, ... down to the finest must be there.
    """
    last = min(deviations)
    falling = max(one / falling_share(delta, last) for delta, one in deviations.items())
    flat = supported_constant(max(deviations.values()))
    return min(flat, _interpolate(FALLING, falling))


def have_no_gap(deltas: Iterable[float]) -> bool:
    """Whether scales go down from 1 in steps of about 2, as the tables assume."""
    falling = sorted({1.0, *deltas}, reverse=True)
    return all(above <= LARGEST_STEP * below for above, below in itertools.pairwise(falling))


def falling_share(delta: float, last: float) -> float:
    """Deviation at delta as a part of that at the finest scale, as `FALLING` assumes it."""
    return max(math.sqrt(last / delta), LEAST_SHARE)


def _interpolate(table: tuple[tuple[float, float], ...], deviation: float) -> float:
    """Linear between the points, and a tenth above; rounded up to a hundredth."""
    points, constants = zip(*table, strict=True)
    if not deviation <= points[-1]:  # nan too
        return math.inf
    return math.ceil(100 * SAMPLING * float(np.interp(deviation, points, constants)) - 1e-6) / 100
