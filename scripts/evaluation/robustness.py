"""Error of the returned halfspace against the planted one, beside other linear learners."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

from scripts.evaluation.drawing import Problem, draw, learn
from scripts.evaluation.search import error_of
from scripts.evaluation.tables import FACTOR, OURS, SLACK, Advance, Cell, Part, Table, compare
from streamhalf.synthetic.spec import SyntheticSpec

DIMS = {"short": (10,), "long": (10, 30)}
ROWS = {"short": 300_000, "long": 1_000_000}
CELLS = {
    "short": (("random", 0.05), ("chow", 0.05), ("far", 0.1)),
    "long": tuple((noise, rate) for noise in ("random", "near", "far", "chow", "wedge") for rate in (0.01, 0.05, 0.1)),
}
LEARNERS: dict[str, Any] = {
    "logistic regression": lambda: LogisticRegression(fit_intercept=False),
    "linear SVM": lambda: LinearSVC(dual=False, max_iter=50, fit_intercept=False),
    "SGD hinge": lambda: SGDClassifier(loss="hinge", max_iter=5, tol=None, fit_intercept=False, random_state=0),
    "SGD modified Huber": lambda: SGDClassifier(
        loss="modified_huber", max_iter=5, tol=None, fit_intercept=False, random_state=0
    ),
}
CHOW = "Chow vector"


def _run(form: str, advance: Advance) -> Table:
    def measure(cell: tuple[int, tuple[str, float]]) -> tuple[tuple[Cell, ...], bool]:
        dim, (noise, rate) = cell
        row, holds = _compare(
            draw(SyntheticSpec(rows=ROWS[form], dim=dim, marginal="gaussian", noise=noise, rate=rate, seed=dim))
        )
        return (dim, noise, rate, *row), holds

    return compare(
        itertools.product(DIMS[form], CELLS[form]),
        measure,
        advance,
        name="robustness",
        criterion=(
            f"in every cell ({ROWS[form]:,} rows) the run is accepted and its error on all rows is "
            f"at most {FACTOR:g} · planted error + min(eps, {SLACK:g}); the learners' columns are "
            "error / planted error on the same rows"
        ),
        columns=("d", "noise", "rate", "verdict", "eps", "planted error", OURS, *LEARNERS, CHOW),
    )


PART = Part(lambda form: len(DIMS[form]) * len(CELLS[form]), _run)


def _compare(problem: Problem) -> tuple[tuple[Cell, ...], bool]:
    """Verdict, eps, planted error and all ratios; and whether the criterion holds."""
    X, y = problem.X, problem.y
    planted = error_of(X, y, problem.planted)
    result = learn(problem, seed=0)
    ours = result.halfspace.plane.errors(X, y) / len(y) if result.halfspace else 1.0
    holds = result.verdict == "accepted" and ours <= FACTOR * planted + min(result.eps, SLACK)
    others = [error_of(X, y, np.asarray(w)) for w in _learned(problem)]
    ratios = tuple(round(error / planted, 4) for error in (ours, *others))
    return (str(result.verdict), result.eps, planted, *ratios), holds


def _learned(problem: Problem) -> list[np.ndarray]:
    """Normals of the other learners: scikit-learn's without intercept, then mean(y x)."""
    X, y = problem.X, problem.y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = [make().fit(X, y).coef_[0].astype(np.float64) for make in LEARNERS.values()]
    return [*found, y.astype(np.float64) @ X / len(y)]
