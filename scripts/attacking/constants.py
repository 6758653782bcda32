"""Tables of the linear program: the constant by what the quadratics exclude, and without them.

The angles and finest scales are those at which the constant was largest in a wider scan (angles of
0.02 to 1.4 rad, finest scales of 1/4 to 1/256).
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from scripts.attacking.moments import flat_plane, solve_within
from scripts.attacking.plane import Array, Fineness
from scripts.attacking.program import Program, list_scales
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.testers.constants import FALLING, FLAT, falling_share

TOLERANCES = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05)
"""Largest first: cuts that a loose tolerance needs serve the tighter ones too."""
PLACES = {
    "flat": ((1 / 256, 0.1), (1 / 256, 0.2), (1 / 16, 0.45)),
    "falling": ((1 / 64, 0.05), (1 / 64, 0.2), (1 / 16, 0.1)),
}
FINENESS = {
    "short": Fineness(inner=2, ratio=1.5, heights=10),
    "long": Fineness(inner=2, ratio=1.5, heights=15),
}
MOMENT_LIMIT = 0.1
DIMS = tuple(range(2, 11))
_PLANES = {"short": 1, "long": 4}
_MOMENT_PLACE = (1 / 16, 0.45)


def count_runs(form: str) -> int:
    return len(TOLERANCES) * len(PLACES["flat"] + PLACES["falling"]) + len(DIMS)


def tolerances_of(kind: str, tolerance: float, last: float) -> list[float]:
    """Of each scale, coarsest first: all alike, or falling from the finest one upwards."""
    scales = list_scales(last)
    if kind == "flat":
        return [tolerance] * len(scales)
    return [tolerance * falling_share(delta, last) for delta in scales]


def run(form: str, advance: Advance) -> list[Table]:
    """Both tables."""
    largest = {(kind, tolerance): 0.0 for kind in PLACES for tolerance in TOLERANCES}
    for kind, places in PLACES.items():
        for last, theta in places:
            program = Program(theta, last=last, fineness=FINENESS[form])
            for tolerance in TOLERANCES:
                law = program.solve(tolerances_of(kind, tolerance, last))
                largest[kind, tolerance] = max(largest[kind, tolerance], law.constant)
                advance()
    tabulated = {"flat": dict(FLAT), "falling": dict(FALLING)}
    rows: list[tuple[Cell, ...]] = []
    for tolerance in sorted(TOLERANCES):
        pairs = [(largest[kind, tolerance], tabulated[kind][tolerance]) for kind in PLACES]
        rows.append((tolerance, *itertools.chain.from_iterable(pairs)))
    return [
        Table(
            name="the constant",
            criterion="no law that the program finds exceeds the table that runs print from",
            met=all(largest[kind, t] <= tabulated[kind][t] for kind, t in largest),
            summary="largest (error - eps) / opt by what the quadratics exclude at the finest "
            "scale: the same at every scale, or less by sqrt(2) at each coarser one (to a quarter)",
            columns=("deviation", "same at all scales", "table", "falling", "table "),
            rows=tuple(rows),
        ),
        _moments_only(form, advance),
    ]


def _moments_only(form: str, advance: Advance) -> Table:
    """The largest-moment test alone, in the coordinates of d features."""
    rng = np.random.default_rng(0)
    rows = []
    for dim in DIMS:
        planes = [flat_plane(dim), *(_random_plane(dim, rng) for _ in range(_PLANES[form] - 1))]
        last, theta = _MOMENT_PLACE
        unlimited = [math.inf] * len(list_scales(last))
        largest = max(
            solve_within(
                Program(theta, last=last, fineness=FINENESS[form]),
                unlimited,
                plane=plane,
                limit=MOMENT_LIMIT,
            ).constant
            for plane in planes
        )
        rows.append((dim, round(largest, 1)))
        advance()
    return Table(
        name="without quadratics",
        criterion="none: it shows what the rotation-invariant test is for",
        met=True,
        summary=f"largest (error - eps) / opt where only the moments in the coordinates of the "
        f"features are within {MOMENT_LIMIT:g} at every scale, the plane turned against them",
        columns=("d", "largest (error - eps) / opt"),
        rows=tuple(rows),
    )


def _random_plane(dim: int, rng: np.random.Generator) -> Array:
    return np.linalg.qr(rng.standard_normal((dim, 2)))[0].T
