"""How near the error comes to the planted one, when every row for learning has had its say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from scripts.evaluation.drawing import draw, learn
from scripts.evaluation.elliptical import winner_of
from scripts.evaluation.robustness import OURS
from scripts.evaluation.search import error_of
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.synthetic.spec import SyntheticSpec

ROWS = 1_000_000
BEHIND = 0.005


@dataclass(frozen=True, slots=True)
class Case:
    """A data set, and what error / planted error may be at most.

    Parameters
    ----------
    limit
        None: not more than `BEHIND` above that of logistic regression.
    """

    dim: int
    noise: str
    rate: float
    limit: float | None


CASES = {
    "short": (Case(10, "chow", 0.05, 1.04),),
    "long": (
        Case(10, "chow", 0.05, 1.04),
        Case(30, "chow", 0.05, 1.045),
        Case(30, "random", 0.01, None),
        Case(64, "chow", 0.05, 1.06),
    ),
}


def count_runs(form: str) -> int:
    return len(CASES[form])


def run(form: str, advance: Advance) -> Table:
    """One row for each case."""
    rows: list[tuple[Cell, ...]] = []
    for case in CASES[form]:
        rows.append(_compare(case))
        advance()
    broken = [f"d = {row[0]}, {row[1]} {row[2]:g}" for row in rows if not row[-1]]
    return Table(
        name="refine",
        criterion=(
            f"error / planted error on all {ROWS:,} Gaussian rows is at most the limit: a number, "
            f"or that of logistic regression + {BEHIND:g}"
        ),
        met=not broken,
        summary=f"{len(rows) - len(broken)} of {len(rows)} within the limit"
        + (f"; not: {'; '.join(broken)}" if broken else ""),
        columns=(*("d", "noise", "rate", "verdict", "winner", "eps"), *(OURS, "logistic regression", "limit", "holds")),
        rows=tuple(rows),
        details={"rows_per_cell": ROWS, "broken": broken},
    )


def _compare(case: Case) -> tuple[Cell, ...]:
    problem = draw(
        SyntheticSpec(rows=ROWS, dim=case.dim, marginal="gaussian", noise=case.noise, rate=case.rate, seed=case.dim)
    )
    X, y = problem.X, problem.y
    planted = error_of(X, y, problem.planted)
    result = learn(problem, seed=0)
    ours = result.halfspace.plane.errors(X, y) / len(y) / planted if result.halfspace else np.inf
    regression = LogisticRegression(fit_intercept=False).fit(X, y)
    theirs = error_of(X, y, regression.coef_[0].astype(np.float64)) / planted
    limit = theirs + BEHIND if case.limit is None else case.limit
    return (
        *(case.dim, case.noise, case.rate, str(result.verdict), winner_of(result), result.eps),
        *(round(float(one), 4) for one in (ours, theirs, limit)),
        bool(ours <= limit),
    )
