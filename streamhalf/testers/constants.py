"""The constant C of C opt + eps that a run's tests support: a lower bound on the worst case.

No theorem: at degree 4 nobody has proved one. `./scripts/attacks --constants` looks for the worst
law by linear program, with cutting planes for the quadratics, among the laws in a plane on a grid
on which a run comes to rest at v (the Chow vector of the accepted rows lies along v at every scale
1, 1/2, ..., delta), with acceptance within half of its Gaussian rate, slab second moments at most
2, wedge bounds at most 3.5 eta, quadratics within the deviation at every scale, and masses of slabs
along v ([0, eps), then wider ones) that are off by the slack in sum. A law's figure is
(error of v - eps) / opt with eps = delta / 2; opt at least eps / 32 (below that the error is at
most (1 + C/32) eps). Laws outside of this family were not searched, so the true worst case may be
larger. `constant_table` has the largest figures found, times what a finer grid gained at the scale
1/4 (most where slack matters and quadratics are tight), and 15% more for still finer grids and
other angles; it is made by `./scripts/attacks --constants --form long --write`.

A table is for one finest scale, and serves coarser ones down to the next table; its rows are
deviations of the quadratics, its columns slacks as parts of the finest scale. What lies between
rows or columns takes the next larger one. "flat" has the same deviation at every scale. A law hides
best a few scales above the finest one, so it helps to exclude more there: "falling" is by the
deviation at the finest scale, less by sqrt(2) at each coarser one, down to a quarter; rows give
that of themselves where every scale is tested on all rows that it accepts.

Where the Chow vector's component across v is 2% or 5% of the one along it (sampling) and not 0, a
falling 0.2 gives 7% or 21% more; a path that drifts to v, by 0.1 to 0.5 of the scale in each step,
instead of resting there gives at most 5% more. An update has rows enough for about 2% along any
one direction: what is given out is a tenth above the tables.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamhalf.testers.constant_table import DEVIATIONS, SLACKS, TABLES

LARGEST_DEVIATION = DEVIATIONS[-1]
"""Of quadratics; beyond it no constant was found."""

FINEST_SCALE = min(TABLES["flat"])
"""Of the tables; below it no constant was looked for."""

SAMPLING = 1.1
"""What sampling and a path that drifts may add."""

LARGEST_STEP = 2.3
"""From one scale to the next; between scales that lie farther apart a law could hide."""

LEAST_SHARE = 0.25
"""Of the finest scale's deviation: what coarser ones need not go below."""

_CLOSE = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class SlabSlack:
    """What a slab test leaves open: slabs of `width`, whose masses may be off by `masses_off`."""

    width: float
    masses_off: float

    def at(self, eps: float) -> float:
        """What slabs of width eps may be off by in sum: anything, where the test had wider ones."""
        return self.masses_off if self.width <= eps * _CLOSE else math.inf


def supported_constant(deviation: float, *, last: float, masses_off: float) -> float:
    """The constant where quadratics deviate by at most this at every scale; inf off the table."""
    return _look_up("flat", deviation, last, masses_off)


def constant_by_scale(deviations: Mapping[float, float], *, masses_off: float) -> float:
    """The constant, given the largest deviation that was excluded at each scale delta.

    The better of both tables; every scale 1, 1/2, ... down to the finest must be there.
    `masses_off` is what masses of slabs as wide as eps may be off by in sum (inf: not known).
    """
    last = min(deviations)
    falling = max(one / falling_share(delta, last) for delta, one in deviations.items())
    flat = supported_constant(max(deviations.values()), last=last, masses_off=masses_off)
    return min(flat, _look_up("falling", falling, last, masses_off))


def have_no_gap(deltas: Iterable[float]) -> bool:
    """Whether scales go down from 1 in steps of about 2, as the tables assume."""
    falling = sorted({1.0, *deltas}, reverse=True)
    return all(above <= LARGEST_STEP * below for above, below in itertools.pairwise(falling))


def falling_share(delta: float, last: float) -> float:
    """Deviation at delta as a part of that at the finest scale, as "falling" assumes it."""
    return max(math.sqrt(last / delta), LEAST_SHARE)


def _look_up(kind: str, deviation: float, last: float, masses_off: float) -> float:
    """The next larger deviation and slack at the next finer scale, and a tenth above."""
    scale = max((one for one in TABLES[kind] if one <= last * _CLOSE), default=None)
    if scale is None or not deviation <= LARGEST_DEVIATION * _CLOSE or math.isnan(masses_off):
        return math.inf
    row = bisect.bisect_left(DEVIATIONS, deviation / _CLOSE)
    column = bisect.bisect_left(SLACKS, masses_off / scale / _CLOSE)
    return math.ceil(100 * SAMPLING * TABLES[kind][scale][row][column] - 1e-6) / 100
