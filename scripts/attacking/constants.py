"""Tables of the linear program: the constant by what the quadratics exclude, and without them.

The angles and finest scales are those at which the constant was largest in a wider scan (angles of
0.02 to 1.4 rad, finest scales of 1/4 to 1/256).
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from scripts.attacking.plane import Array, Fineness, Grid, Step, accepted
from scripts.attacking.program import CLOSE, Law, Program, list_scales
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
_WORST = 20


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
        planes = [_flat_plane(dim), *(_random_plane(dim, rng) for _ in range(_PLANES[form] - 1))]
        largest = max(_solve_moments(plane, FINENESS[form]).constant for plane in planes)
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


def _solve_moments(plane: Array, fineness: Fineness) -> Law:
    """Moments are required as they are found beyond the limit, the worst of each scale first."""
    last, theta = _MOMENT_PLACE
    program = Program(theta, last=last, fineness=fineness)
    scales = list_scales(last)
    steps = [Step(delta) for delta in scales]
    means = [(m, step, plane_means(program.grid, step, m)) for m in (2, 4) for step in steps]
    tested = {m: list_coefficients(plane, m) for m in (2, 4)}
    while True:
        law = program.solve([math.inf] * len(scales))
        rows: list[Array] = []
        for m, step, mean in means:
            mass = accepted(program.grid, step)
            found = tested[m] @ (mean @ law.masses) / (mass @ law.masses)
            rows += [
                np.sign(found[k]) * (tested[m][k] @ mean) - MOMENT_LIMIT * mass
                for k in np.argsort(-np.abs(found))[:_WORST]
                if abs(found[k]) > MOMENT_LIMIT + CLOSE
            ]
        if not rows:
            return law
        program.require(rows)


def _flat_plane(dim: int) -> Array:
    """Two orthonormal vectors (2, d) whose entries are as alike in size as can be."""
    signs = np.resize([1.0, -1.0], dim)
    plane, _ = np.linalg.qr(np.stack([np.ones(dim), signs], axis=1))
    return plane.T


def _random_plane(dim: int, rng: np.random.Generator) -> Array:
    return np.linalg.qr(rng.standard_normal((dim, 2)))[0].T


def plane_means(grid: Grid, step: Step, m: int) -> Array:
    """Accepted he_k(z1) he_{m-k}(z2) of every point, k = 0 ... m."""
    chance, z1, z2 = step.seen(grid)
    return np.array(
        [grid.average(chance * hermite(k, z1) * hermite(m - k, z2)) for k in range(m + 1)]
    )


def list_coefficients(plane: Array, m: int) -> Array:
    """For every product of m features, its Hermite moment by the moments of the plane.

    The Hermite tensor of a law in a plane is the sum over k of sqrt(m over k) times the mean of
    he_k(z1) he_{m-k}(z2) times the symmetric part of v^k u^(m-k). (Odd degrees vanish under a
    symmetric law.)
    """
    binomials = np.array([math.comb(m, k) for k in range(m + 1)])
    found = []
    for index in itertools.combinations_with_replacement(range(plane.shape[1]), m):
        sums = np.ones(1)  # the product of (v_j s + u_j), by powers of s
        for j in index:
            sums = np.convolve(sums, plane[::-1, j])
        repeats = math.prod(math.factorial(index.count(j)) for j in set(index))
        found.append(sums / np.sqrt(binomials) * math.sqrt(math.factorial(m) / repeats))
    return np.array(found)


def hermite(m: int, x: Array) -> Array:
    """Normalised Hermite polynomial."""
    values: Array = np.polynomial.hermite_e.hermeval(x, [0.0] * m + [1.0])
    return values / math.sqrt(math.factorial(m))
