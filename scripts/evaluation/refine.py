"""How near the error comes to the planted one, when every row for learning has had its say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from scripts.evaluation.drawing import draw, learn
from scripts.evaluation.elliptical import winner_of
from scripts.evaluation.search import error_of
from scripts.evaluation.tables import OURS, Advance, Cell, Part, Table, compare
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


def _run(form: str, advance: Advance) -> Table:
    return compare(
        CASES[form],
        _compare,
        advance,
        name="refine",
        criterion=(
            f"error / planted error on all {ROWS:,} Gaussian rows is at most the limit: a number, "
            f"or that of logistic regression + {BEHIND:g}"
        ),
        columns=(*("d", "noise", "rate", "verdict", "winner", "eps"), *(OURS, "logistic regression", "limit", "holds")),
    )


PART = Part(lambda form: len(CASES[form]), _run)


def _compare(case: Case) -> tuple[tuple[Cell, ...], bool]:
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
    holds = bool(ours <= limit)
    said = (case.dim, case.noise, case.rate, str(result.verdict), winner_of(result), result.eps)
    return (*said, *(round(float(one), 4) for one in (ours, theirs, limit)), holds), holds
