"""Tables of the linear program: the constant by what tests exclude, and without quadratics.

The angles are those at which the constant was largest in a wider scan (angles of 0.02 to 1.4 rad):
a small one, a little above eps, where slab masses may be off, and others where they may not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from scripts.attacking.moments import flat_plane, solve_within
from scripts.attacking.plane import Array, Fineness
from scripts.attacking.program import Program, list_scales
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.testers.constants import DEVIATIONS, SLACKS, TABLES, falling_share

ANGLES = {1 / 2: (0.3, 0.6, 1.0), 1 / 4: (0.14, 0.3), 1 / 8: (0.09, 0.45), 1 / 16: (0.045, 0.3), 1 / 64: (0.012, 0.14)}
"""By finest scale."""
KINDS = ("flat", "falling")
FINENESS = Fineness(inner=2, ratio=1.5, heights=10)
FINE = Fineness(inner=8, ratio=1.5, heights=10)
"""Mass may be anywhere within a slab: where slack matters, cells within eps do too. From 8 to the
limit is a tenth at most, seen from 2 to 4 to 8."""
GAIN_PLACE = ("falling", 1 / 4, 0.14)
"""Where the gain of the finer grid is found, for each deviation and slack; at 1/8 it was alike."""
MARGIN = 1.15
"""Still finer grids and other angles gained less than this where they were tried (13%)."""
ANY = 2.0
"""Slab masses that are off by so much in sum may be anything."""
MOMENT_LIMIT = 0.1
DIMS = tuple(range(2, 11))
TABLE_FILE = Path(__file__).resolve().parents[2] / "streamhalf" / "testers" / "constants.json"
_SHORT_DEVIATIONS, _SHORT_SLACKS = (0.3, 0.2), (math.inf, 0.5)
_PLANES = {"short": 1, "long": 4}
_MOMENT_PLACE = (1 / 16, 0.45)

Place = tuple[str, float]
Scan = dict[tuple[float, float], float]
"""(deviation, slack as a part of the finest scale) -> the largest (error - eps) / opt."""


def count_runs(form: str) -> int:
    deviations, slacks = _axes(form)
    angles = sum(len(KINDS) * len(ANGLES[last]) for last in _scales(form))
    return (angles + 1) * len(deviations) * len(slacks) + len(DIMS)


def tolerances_of(kind: str, tolerance: float, last: float) -> list[float]:
    """Of each scale, coarsest first: all alike, or falling from the finest one upwards."""
    scales = list_scales(last)
    if kind == "flat":
        return [tolerance] * len(scales)
    return [tolerance * falling_share(delta, last) for delta in scales]


def scan(kind: str, last: float, form: str, advance: Advance) -> Scan:
    """The largest constant over the angles. Loosest first: cuts serve the next program too."""
    found: Scan = {}
    for theta in ANGLES[last]:
        program = Program(theta, last=last, fineness=FINENESS)
        for deviation, slack in _pairs(form):
            law = program.solve(tolerances_of(kind, deviation, last), masses_off=min(ANY, slack * last))
            found[deviation, slack] = max(found.get((deviation, slack), 0.0), law.constant)
            advance()
    return found


def find_gains(coarse: Scan, form: str, advance: Advance) -> Scan:
    """By what the finer grid makes the constants larger, at least 1."""
    kind, last, theta = GAIN_PLACE
    program = Program(theta, last=last, fineness=FINE)
    gains: Scan = {}
    for deviation, slack in _pairs(form):
        law = program.solve(tolerances_of(kind, deviation, last), masses_off=min(ANY, slack * last))
        gains[deviation, slack] = max(1.0, law.constant / coarse[deviation, slack])
        advance()
    return gains


def _axes(form: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if form == "short":
        return _SHORT_DEVIATIONS, _SHORT_SLACKS
    return DEVIATIONS[::-1], SLACKS[::-1]


def _pairs(form: str) -> Iterator[tuple[float, float]]:
    deviations, slacks = _axes(form)
    return ((deviation, slack) for deviation in deviations for slack in slacks)


def _scales(form: str) -> tuple[float, ...]:
    return tuple(ANGLES)[: 3 if form == "short" else None]


def run(form: str, advance: Advance, *, write: bool = False) -> list[Table]:
    """Both tables; `write` makes the one that runs print from out of them."""
    found = {(kind, last): scan(kind, last, form, advance) for kind in KINDS for last in _scales(form)}
    gains = find_gains(found[GAIN_PLACE[:2]], form, advance)
    if write:
        TABLE_FILE.write_text(as_json(found, gains), encoding="utf-8")
    known = made_from(found, gains) if write else TABLES
    rows: list[tuple[Cell, ...]] = []
    for (kind, last), values in found.items():
        for (deviation, slack), value in sorted(values.items()):
            tabulated = known[kind][last][DEVIATIONS.index(deviation)][SLACKS.index(slack)]
            shown = "any" if math.isinf(slack) else f"{slack * last:.3g}"
            finer = value * gains[deviation, slack]
            rows.append((kind, f"1/{1 / last:g}", deviation, shown, value, finer, tabulated))
    return [
        Table(
            name="the constant",
            criterion="no law that the program finds exceeds the table that runs print from",
            met=all(float(row[-2] or 0) <= float(row[-1] or 0) for row in rows),
            summary="largest (error - eps) / opt that the program found, a lower bound on the "
            "worst case; by finest scale, by the deviation of quadratics there (the same at every "
            "scale, or less by sqrt(2) at each coarser one, to a quarter), and by what slab masses "
            "may be off in sum",
            columns=(
                *("deviation is", "finest scale", "deviation", "masses off"),
                *("found", "on a finer grid, about", "table"),
            ),
            rows=tuple(rows),
        ),
        _moments_only(form, advance),
    ]


def made_from(found: Mapping[Place, Scan], gains: Scan) -> dict[str, dict[float, tuple[tuple[float, ...], ...]]]:
    """Tables with a margin, rounded up; never less with looser tests or at a finer scale."""
    tables: dict[str, dict[float, tuple[tuple[float, ...], ...]]] = {}
    for kind in KINDS:
        above = np.zeros((len(DEVIATIONS), len(SLACKS)))
        for last in ANGLES:
            values = [[found[kind, last][one, slack] * gains[one, slack] for slack in SLACKS] for one in DEVIATIONS]
            rising = np.maximum.accumulate(np.maximum.accumulate(values, axis=0), axis=1)
            above = np.maximum(above, np.ceil(10 * MARGIN * rising) / 10)
            rows = tuple(tuple(round(one, 1) for one in row) for row in above.tolist())
            tables.setdefault(kind, {})[last] = rows
    return tables


def as_json(found: Mapping[Place, Scan], gains: Scan) -> str:
    """The content of the file that holds the tables, a row to a line."""

    def listed(rows: Iterable[str], indent: int) -> str:
        return (",\n" + " " * indent).join(rows)

    kinds = []
    for kind, tables in made_from(found, gains).items():
        scales = (
            f'"{1 / last:g}": [\n      {listed(map(json.dumps, map(list, rows)), 6)}\n    ]'
            for last, rows in tables.items()
        )
        kinds.append(f'"{kind}": {{\n    {listed(scales, 4)}\n  }}')
    slacks = [one if math.isfinite(one) else None for one in SLACKS]
    axes = (f'"deviations": {json.dumps(DEVIATIONS)}', f'"slacks": {json.dumps(slacks)}')
    return f"{{\n  {listed((*axes, *kinds), 2)}\n}}\n"


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
                Program(theta, last=last, fineness=FINENESS), unlimited, plane=plane, limit=MOMENT_LIMIT
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
