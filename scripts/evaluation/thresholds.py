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
from scripts.evaluation.robustness import FACTOR, OURS, SLACK
from scripts.evaluation.search import best_threshold
from scripts.evaluation.tables import Advance, Cell, Table
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


def count_runs(form: str) -> int:
    return len(CELLS[form])


def run(form: str, advance: Advance) -> Table:
    """One row for each dimension, positive share and noise."""
    rows: list[tuple[Cell, ...]] = []
    broken: list[str] = []
    for dim, positive, noise in CELLS[form]:
        spec = SyntheticSpec(
            rows=ROWS[form],
            dim=dim,
            marginal="gaussian",
            noise=noise,
            rate=FLIPPED * min(positive, 1 - positive),
            positive=positive,
            seed=dim,
        )
        row, holds = _compare(spec)
        rows.append(row)
        if not holds:
            broken.append(f"d = {dim}, {positive:.0%} positive, {noise}")
        advance()
    columns = ("d", "positive", "noise", "verdict", "rows needed", "eps", "planted error")
    worst = max(float(row[len(columns)] or 0) for row in rows)
    return Table(
        name="thresholds",
        criterion=(
            f"in every cell ({ROWS[form]:,} rows, a share {FLIPPED:g} of the smaller class "
            f"flipped) the run is accepted, or, at {RARE:.0%} positive, says how many rows it "
            f"needs; its error on all rows is at most {FACTOR:g} · planted error + min(eps, "
            f"{SLACK:g}); the learners' columns are error / planted error on the same rows"
        ),
        met=not broken,
        summary=f"largest ratio {worst:.3f} in {len(rows)} cells"
        + (f"; broken in {'; '.join(broken)}" if broken else ""),
        columns=(*columns, OURS, LOGISTIC, RESCANNED, SVM, CONSTANT),
        rows=tuple(rows),
        details={"rows_per_cell": ROWS[form], "broken": broken},
    )


def _compare(spec: SyntheticSpec) -> tuple[tuple[Cell, ...], bool]:
    """A row of the table; and whether the criterion holds."""
    problem = draw(spec)
    planted = _error(problem, problem.plane)
    result = learn(problem, seed=0)
    ours = _error(problem, result.halfspace.plane) if result.halfspace else None
    holds = (
        _is_settled(result, spec.positive) and ours is not None and ours <= FACTOR * planted + min(result.eps, SLACK)
    )
    positive = float(np.mean(problem.y > 0))
    others = [_error(problem, plane) for plane in learn_others(problem)]
    ratios = (
        None if error is None else round(error / planted, 4) for error in (ours, *others, min(positive, 1 - positive))
    )
    said = (str(result.verdict), result.rows_needed, result.eps, planted)
    return (spec.dim, spec.positive, str(spec.noise), *said, *ratios), holds


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
