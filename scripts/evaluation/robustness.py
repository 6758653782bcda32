"""Error of the returned halfspace against the planted one, beside other linear learners."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

from scripts.evaluation.drawing import Problem, draw, learn
from scripts.evaluation.search import error_of
from scripts.evaluation.tables import Advance, Cell, Table
from streamhalf.synthetic.spec import SyntheticSpec

DIMS = {"short": (10,), "long": (10, 30)}
ROWS = {"short": 300_000, "long": 1_000_000}
CELLS = {
    "short": (("random", 0.05), ("chow", 0.05), ("far", 0.1)),
    "long": tuple((noise, rate) for noise in ("random", "near", "far", "chow", "wedge") for rate in (0.01, 0.05, 0.1)),
}
FACTOR, SLACK = 1.10, 0.005
LEARNERS: dict[str, Any] = {
    "logistic regression": lambda: LogisticRegression(fit_intercept=False),
    "linear SVM": lambda: LinearSVC(dual=False, max_iter=50, fit_intercept=False),
    "SGD hinge": lambda: SGDClassifier(loss="hinge", max_iter=5, tol=None, fit_intercept=False, random_state=0),
    "SGD modified Huber": lambda: SGDClassifier(
        loss="modified_huber", max_iter=5, tol=None, fit_intercept=False, random_state=0
    ),
}
OURS, CHOW = "streamhalf", "Chow vector"


def count_runs(form: str) -> int:
    return len(DIMS[form]) * len(CELLS[form])


def run(form: str, advance: Advance) -> Table:
    """One row for each dimension, noise and rate."""
    rows: list[tuple[Cell, ...]] = []
    broken: list[str] = []
    for dim in DIMS[form]:
        for noise, rate in CELLS[form]:
            spec = SyntheticSpec(rows=ROWS[form], dim=dim, marginal="gaussian", noise=noise, rate=rate, seed=dim)
            problem = draw(spec)
            row, holds = _compare(problem)
            rows.append((dim, noise, rate, *row))
            if not holds:
                broken.append(f"d = {dim}, {noise} {rate:g}")
            advance()
    columns = ("d", "noise", "rate", "verdict", "eps", "planted error", OURS, *LEARNERS, CHOW)
    worst = max(float(row[6] or 0) for row in rows)
    said = f"largest ratio {worst:.3f} in {len(rows)} cells"
    return Table(
        name="robustness",
        criterion=(
            f"in every cell ({ROWS[form]:,} rows) the run is accepted and its error on all rows is "
            f"at most {FACTOR:g} · planted error + min(eps, {SLACK:g}); the learners' columns are "
            "error / planted error on the same rows"
        ),
        met=not broken,
        summary=said + (f"; broken in {'; '.join(broken)}" if broken else ""),
        columns=columns,
        rows=tuple(rows),
        details={"rows_per_cell": ROWS[form], "broken": broken},
    )


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
