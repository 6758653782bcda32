"""Halfspaces with a threshold: error against the planted one, from even classes to rare ones."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from scripts.evaluation.drawing import Problem, draw, learn
from scripts.evaluation.search import best_threshold
from scripts.evaluation.tables import FACTOR, OURS, SLACK, Advance, Cell, Part, Table, compare
from streamhalf.kernels.margins import margins
from streamhalf.kernels.plane import Plane
from streamhalf.results import FitResult
from streamhalf.synthetic.spec import SyntheticSpec

ROWS = {"short": 300_000, "long": 1_000_000}
CELLS: dict[str, tuple[tuple[int, float, str], ...]] = {
    "short": ((10, 0.3, "chow"), (10, 0.1, "far"), (10, 0.1, "minor"), (10, 0.1, "tilt")),
    "long": tuple(
        itertools.product((10, 30), (0.5, 0.3, 0.1, 0.03), ("random", "far", "near", "chow", "minor", "tilt"))
    ),
}
"""Features, positive share and noise."""
FLIPPED = 0.2
"""Of the smaller class, as a share of all rows."""
RARE = 0.03
"""At this share and below, a run may also say how many rows it takes."""
CONSTANT = "constant guess"
LOGISTIC, RESCANNED, SVM = "logistic regression", "the same, threshold rescanned", "linear SVM"


def _run(form: str, advance: Advance) -> Table:
    return compare(
        CELLS[form],
        lambda cell: _compare(ROWS[form], *cell),
        advance,
        name="thresholds",
        criterion=(
            f"in every cell ({ROWS[form]:,} rows, a share {FLIPPED:g} of the smaller class "
            f"flipped) the run is accepted, or, at {RARE:.0%} positive, says how many rows it "
            f"needs; its error on all rows is at most {FACTOR:g} · planted error + min(eps, "
            f"{SLACK:g}); the learners' columns are error / planted error on the same rows"
        ),
        columns=(
            *("d", "positive", "noise", "verdict", "rows needed", "eps", "planted error"),
            *(OURS, LOGISTIC, RESCANNED, SVM, CONSTANT),
        ),
    )


PART = Part(lambda form: len(CELLS[form]), _run)


def _compare(n_rows: int, dim: int, positive: float, noise: str) -> tuple[tuple[Cell, ...], bool]:
    smaller = min(positive, 1 - positive)
    given = {"marginal": "gaussian", "noise": noise, "rate": FLIPPED * smaller, "positive": positive, "seed": dim}
    problem = draw(SyntheticSpec(rows=n_rows, dim=dim, **given))
    planted = _error(problem, problem.plane)
    result = learn(problem, seed=0)
    ours = _error(problem, result.halfspace.plane) if result.halfspace else None
    holds = _is_settled(result, positive) and ours is not None and ours <= FACTOR * planted + min(result.eps, SLACK)
    share = float(np.mean(problem.y > 0))
    others = [_error(problem, plane) for plane in learn_others(problem)]
    ratios = (None if error is None else round(error / planted, 4) for error in (ours, *others, min(share, 1 - share)))
    said = (str(result.verdict), result.rows_needed, result.eps, planted)
    return (dim, positive, noise, *said, *ratios), holds


def learn_others(problem: Problem) -> list[Plane]:
    """Logistic regression, the same with its best threshold on these rows, and a linear SVM."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        logistic, svm = (
            _plane(learner.fit(problem.X, problem.y))
            for learner in (LogisticRegression(), LinearSVC(dual=False, max_iter=50))
        )
    margin = margins(problem.X, logistic.normal)
    return [logistic, replace(logistic, threshold=best_threshold(margin, problem.y)), svm]


def _plane(learner: Any) -> Plane:
    """Of a fitted classifier of scikit-learn, with its intercept."""
    return Plane(learner.coef_[0].astype(np.float64), -float(learner.intercept_[0]))


def _error(problem: Problem, plane: Plane) -> float:
    return plane.errors(problem.X, problem.y) / len(problem.y)


def _is_settled(result: FitResult, positive: float) -> bool:
    if result.verdict == "inconclusive":
        return positive <= RARE and result.rows_needed is not None
    return result.verdict == "accepted"
