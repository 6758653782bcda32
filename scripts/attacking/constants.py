"""Tables of the linear program: the constant by what the quadratics exclude, and without them.

The angles and finest scales are those at which the constant was largest in a wider scan (angles of
0.02 to 1.4 rad, finest scales of 1/4 to 1/256).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from scripts.attacking.plane import Array, Fineness, Grid
from scripts.attacking.program import Law, Program, list_scales
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.testers.constants import FALLING, FLAT, falling_share

TOLERANCES = (0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05)
"""Largest first: cuts that a loose tolerance needs serve the tighter ones too."""
UNBOUNDED = (0.7, 1.0, 1.5)
PLACES = {
    "flat": ((1 / 256, 0.1), (1 / 256, 0.2), (1 / 64, 0.2), (1 / 16, 0.45), (1 / 4, 0.8)),
    "falling": ((1 / 64, 0.05), (1 / 16, 0.1), (1 / 16, 0.2), (1 / 16, 0.45), (1 / 4, 0.8)),
}
FINENESS = {"short": Fineness(inner=2, ratio=1.5, heights=10), "long": Fineness()}
MOMENT_LIMIT = 0.1
DIMS = tuple(range(2, 11))
_PLANES = {"short": 1, "long": 12}
_MOMENT_PLACES = ((1 / 16, 0.45), (1 / 16, 0.8))


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
        laws = [
            _solve_moments(plane, theta, last, FINENESS[form])
            for plane in planes
            for last, theta in _MOMENT_PLACES
        ]
        rows.append((dim, round(max(law.constant for law in laws), 1)))
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


def _solve_moments(plane: Array, theta: float, last: float, fineness: Fineness) -> Law:
    program = Program(theta, last=last, fineness=fineness)
    for delta in list_scales(last):
        program.require(moment_rows(program.grid, delta, plane))
    return program.solve([math.inf] * len(list_scales(last)))


def _flat_plane(dim: int) -> Array:
    """Two orthonormal vectors (2, d) whose entries are as alike in size as can be."""
    signs = np.resize([1.0, -1.0], dim)
    plane, _ = np.linalg.qr(np.stack([np.ones(dim), signs], axis=1))
    return plane.T


def _random_plane(dim: int, rng: np.random.Generator) -> Array:
    return np.linalg.qr(rng.standard_normal((dim, 2)))[0].T


def moment_rows(grid: Grid, delta: float, plane: Array) -> Array:
    """|mean he_a(z)| <= 0.1 for all multi-indices a of degree 2 and 4 in the coordinates.

    He_m of z is, in the plane, the sum over k of sqrt(m over k) he_k(z1) he_{m-k}(z2) times the
    symmetric part of v^k u^(m-k); odd degrees vanish under a symmetric law.
    """
    chance = np.exp(-(grid.x1**2) * (delta**-2 - 1) / 2)
    z1, z2 = grid.sign[:, None] * grid.x1 / delta, grid.heights
    mass = grid.average(chance)
    rows = []
    for m in (2, 4):
        means = np.array(
            [grid.average(chance * hermite(k, z1) * hermite(m - k, z2)) for k in range(m + 1)]
        )
        for index in itertools.combinations_with_replacement(range(plane.shape[1]), m):
            moment = _coefficients(plane, index) @ means
            rows += [moment - MOMENT_LIMIT * mass, -moment - MOMENT_LIMIT * mass]
    return np.array(rows)


def _coefficients(plane: Array, index: Sequence[int]) -> Array:
    """Of he_k(z1) he_{m-k}(z2), k = 0 ... m, in the normalised Hermite moment of these features."""
    m = len(index)
    sums = np.zeros(m + 1)
    for choice in itertools.product((0, 1), repeat=m):  # 0: along v
        sums[m - sum(choice)] += math.prod(plane[c, j] for c, j in zip(choice, index, strict=True))
    repeats = math.prod(math.factorial(index.count(j)) for j in set(index))
    binomials = np.array([math.comb(m, k) for k in range(m + 1)])
    scaled: Array = sums / np.sqrt(binomials) * math.sqrt(math.factorial(m) / repeats)
    return scaled


def hermite(m: int, x: Array) -> Array:
    """Normalised Hermite polynomial."""
    values: Array = np.polynomial.hermite_e.hermeval(x, [0.0] * m + [1.0])
    return values / math.sqrt(math.factorial(m))
