"""The constant C of C opt + eps that a run's tests support: a lower bound on the worst case.

It is no theorem: none is known at degree 4. `./scripts/attacks --constants` looks for the worst distribution by linear
program, with cutting planes for the quadratics, among the distributions in a plane on a grid on which a run comes to
rest at v (the Chow vector of the accepted rows lies along v at every scale 1, 1/2, ..., delta), with acceptance within
half of its Gaussian rate, slab second moments at most 2, wedge bounds at most 3.5 eta, quadratics within the deviation
at every scale, and masses of slabs along v ([0, eps), then wider ones) that are off by the slack in sum. The figure of
a distribution is (error of v - eps) / opt with eps = delta / 2; opt at least eps / 32 (below that the error is at most
(1 + C/32) eps). Distributions outside of this family were not searched, so the true worst case may be larger.
`constants.json` has the largest figures found, times what a finer grid gained at the scale 1/4 (most where slack
matters and quadratics are tight), and 15% more for still finer grids and other angles; `./scripts/attacks --constants
--form long --write` makes it.

A table is for one finest scale, and serves coarser ones down to the next table; its rows are deviations of the
quadratics, its columns slacks as parts of the finest scale. Values between rows or columns take the next larger one.
"flat" has the same deviation at every scale. A distribution hides best a few scales above the finest one, so it helps
to exclude more there: "falling" is by the deviation at the finest scale, less by sqrt(2) at each coarser one, down to a
quarter; rows give that of themselves where every scale is tested on all rows that it accepts.

Where the Chow vector's component across v is 2% or 5% of the one along it (sampling) and not 0, a falling 0.2 gives 7%
or 21% more; a path that drifts to v, by 0.1 to 0.5 of the scale in each step, instead of resting there gives at most 5%
more. An update has rows enough for about 2% along any one direction: constants are a tenth above the tables.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

Axis: TypeAlias = tuple[float, ...]
Table: TypeAlias = dict[float, tuple[Axis, ...]]


def read_tables(content: dict[str, Any]) -> tuple[Axis, Axis, dict[str, Table]]:
    """Return deviations of the quadratics (rows), slacks (columns), and tables by kind and scale.

    Deviations are those at the finest scale, slacks parts of it.
    """
    slacks = tuple(math.inf if one is None else one for one in content["slacks"])
    tables = {
        kind: {1 / float(scale): tuple(map(tuple, rows)) for scale, rows in content[kind].items()}
        for kind in ("flat", "falling")
    }
    return tuple(content["deviations"]), slacks, tables


DEVIATIONS, SLACKS, TABLES = read_tables(
    json.loads(resources.files(__package__).joinpath("constants.json").read_text("utf-8"))
)
LARGEST_DEVIATION = DEVIATIONS[-1]  # Of quadratics; beyond it no constant was found
FINEST_SCALE = min(TABLES["flat"])  # Of the tables; below it no constant was looked for
SAMPLING = 1.1  # Factor for sampling and for a path that drifts
LARGEST_STEP = 2.3  # From one scale to the next; between scales farther apart a distribution could hide
LEAST_SHARE = 0.25  # Of the finest scale's deviation: coarser ones need not go below
_CLOSE = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class SlabSlack:
    """The slack of a slab test: slabs of `width`, whose masses may be off by `masses_off`."""

    width: float
    masses_off: float

    def at(self, eps: float) -> float:
        """Return the slack of slabs of width eps: infinite, where wider ones were tested."""
        return self.masses_off if self.width <= eps * _CLOSE else math.inf


def supported_constant(deviation: float, *, last: float, masses_off: float) -> float:
    """Return the constant where quadratics deviate by at most this at every scale; inf if none."""
    return _look_up("flat", deviation, last, masses_off)


def constant_by_scale(deviations: Mapping[float, float], *, masses_off: float) -> float:
    """Return the constant, given the largest deviation that was excluded at each scale delta.

    The better of both tables; every scale 1, 1/2, ... down to the finest must be there. `masses_off` is the slack of
    slabs as wide as eps (inf: not known).
    """
    last = min(deviations)
    falling = max(one / falling_share(delta, last) for delta, one in deviations.items())
    flat = supported_constant(max(deviations.values()), last=last, masses_off=masses_off)
    return min(flat, _look_up("falling", falling, last, masses_off))


def have_no_gap(deltas: Iterable[float]) -> bool:
    """Return True if scales go down from 1 in steps of about 2, as the tables assume."""
    falling = sorted({1.0, *deltas}, reverse=True)
    return all(above <= LARGEST_STEP * below for above, below in itertools.pairwise(falling))


def falling_share(delta: float, last: float) -> float:
    """Return the deviation at delta, as "falling" assumes it, over that at the finest scale."""
    return max(math.sqrt(last / delta), LEAST_SHARE)


def _look_up(kind: str, deviation: float, last: float, masses_off: float) -> float:
    """The next larger deviation and slack at the next finer scale, and a tenth above."""
    scale = max((one for one in TABLES[kind] if one <= last * _CLOSE), default=None)
    if scale is None or not deviation <= LARGEST_DEVIATION * _CLOSE or math.isnan(masses_off):
        return math.inf
    row = bisect.bisect_left(DEVIATIONS, deviation / _CLOSE)
    column = bisect.bisect_left(SLACKS, masses_off / scale / _CLOSE)
    return math.ceil(100 * SAMPLING * TABLES[kind][scale][row][column] - 1e-6) / 100
