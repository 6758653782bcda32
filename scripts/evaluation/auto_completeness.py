"""Elliptical rows, in whichever transform suits them: how many runs are not accepted."""

from __future__ import annotations

import zlib
from collections import Counter

import numpy as np
from scipy import stats

from scripts.evaluation.completeness import RATES, doubts_of
from scripts.evaluation.drawing import learn
from scripts.evaluation.elliptical import draw_elliptical, gaussian, student
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.api import plan
from streamhalf.config import RunConfig

LAWS = {
    "Gaussian": (gaussian, False),
    "Gaussian, correlated": (gaussian, True),
    "Student, 3 degrees": (student(3.0), False),
    "Student, 50 degrees": (student(50.0), False),
}
DIMS = (2, 5, 10)
EPS = 0.2
SETS = {"short": 6, "long": 204}
_CHANCE = 0.01
"""How seldom a run that keeps its promise is refused more often than is allowed."""
POSITIONS = ("stored", "isotropic", "radial")


def count_runs(form: str) -> int:
    return len(LAWS) * SETS[form]


def run(form: str, advance: Advance) -> Table:
    """Count verdicts by law; dimensions and rates of random noise take turns."""
    allowed = int(stats.binom.isf(_CHANCE, SETS[form], RunConfig().tau))
    rows: list[tuple[Cell, ...]] = []
    refused: Counter[str] = Counter()
    for law in LAWS:
        verdicts: Counter[str] = Counter()
        transforms: Counter[str] = Counter()
        for number in range(SETS[form]):
            dim, rate = DIMS[number % len(DIMS)], RATES[number % len(RATES)]
            rng = np.random.default_rng(zlib.crc32(f"{law} {number}".encode()))
            n_rows = plan(dim=dim, eps=EPS).rows_needed
            problem = draw_elliptical(*LAWS[law], n_rows, dim, "random", rate, rng)
            result = learn(problem, eps=EPS, seed=number)
            verdicts[str(result.verdict)] += 1
            transforms[str(result.transform.kind)] += 1
            refused.update(doubts_of(result) if result.verdict != "accepted" else [])
            advance()
        found = (verdicts[one] for one in ("accepted", "rejected", "inconclusive"))
        n_refused = SETS[form] - verdicts["accepted"]
        held = n_refused <= allowed
        rows.append((law, SETS[form], *found, allowed, *(transforms[p] for p in POSITIONS), held))
    blamed = ", ".join(f"{name} {count}" for name, count in refused.most_common())
    n_refused = sum(SETS[form] - int(row[2] or 0) for row in rows)
    return Table(
        name="completeness-auto",
        criterion=(
            f"of every law at most tau = {RunConfig().tau:g} of the runs are not accepted, up to "
            f"what chance brings once in {1 / _CHANCE:g} times (eps = {EPS:g} asked for, d = "
            f"{', '.join(map(str, DIMS))}, transform chosen by the run)"
        ),
        met=all(row[-1] for row in rows),
        summary=f"{n_refused} of {count_runs(form)} runs not accepted" + (f" ({blamed})" if blamed else ""),
        columns=(*("law", "runs", "accepted", "rejected", "inconclusive", "allowed"), *(*POSITIONS, "holds")),
        rows=tuple(rows),
        details={"runs": count_runs(form), "not_accepted": n_refused, "testers": dict(refused)},
    )
