"""Elliptical laws with few moments or none: error against the planted halfspace, and L."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from scripts.evaluation.drawing import Problem, learn, with_noise
from scripts.evaluation.tables import FACTOR, OURS, SLACK, Advance, Cell, Part, Table, compare
from streamhalf.kernels.plane import Plane
from streamhalf.results import FitResult
from streamhalf.synthetic.distributions import Noise

Rng = np.random.Generator
Matrix = NDArray[np.float64]

DIM = 10
ROWS = {"short": 300_000, "long": 1_000_000}
SHIFT = 2.0
"""Of every feature, where the law is correlated: its centre is not the origin."""


def student(degrees: float) -> Callable[[int, int, Rng], Matrix]:
    """Rows of a multivariate Student law about 0."""

    def draw(n: int, dim: int, rng: Rng) -> Matrix:
        scale = np.sqrt(rng.chisquare(degrees, n) / degrees)
        rows: Matrix = rng.standard_normal((n, dim)) / scale[:, None]
        return rows

    return draw


def gaussian(n: int, dim: int, rng: Rng) -> Matrix:
    return rng.standard_normal((n, dim))


def _shell(n: int, dim: int, rng: Rng) -> Matrix:
    """All rows at one distance."""
    rows = gaussian(n, dim, rng)
    return rows * (np.sqrt(dim) / np.linalg.norm(rows, axis=1))[:, None]


def _scales(n: int, dim: int, rng: Rng) -> Matrix:
    """One row in ten ten times as long."""
    return gaussian(n, dim, rng) * np.where(rng.random(n) < 0.1, 10, 1)[:, None]


LAWS: dict[str, tuple[Callable[[int, int, Rng], Matrix], bool]] = {
    "Student, 1.5 degrees, correlated": (student(1.5), True),
    "Cauchy": (student(1.0), False),
    "shell": (_shell, False),
    "mixture of scales": (_scales, False),
    "Gaussian, correlated": (gaussian, True),
}
"""How rows are drawn, and whether they are mixed and moved away from the origin then."""
CELLS = {
    "short": (("Cauchy", "chow", 0.05), ("Gaussian, correlated", "chow", 0.05)),
    "long": tuple(itertools.product(LAWS, ("chow", "random"), (0.01, 0.05))),
}


def _run(form: str, advance: Advance) -> Table:
    def measure(cell: tuple[str, str, float]) -> tuple[tuple[Cell, ...], bool]:
        law, noise, rate = cell
        rng = np.random.default_rng(zlib.crc32(f"{law} {noise} {rate}".encode()))
        row, holds = _compare(draw_elliptical(*LAWS[law], ROWS[form], DIM, noise, rate, rng))
        return (*cell, *row), holds

    said = ("verdict", "transform", "winner", "eps", "planted error", OURS, "logistic regression")
    return compare(
        CELLS[form],
        measure,
        advance,
        name="elliptical",
        criterion=(
            f"in every cell ({ROWS[form]:,} rows, d = {DIM}, transform chosen by the run) the run "
            f"is accepted, its error on all rows is at most {FACTOR:g} · planted error + min(eps, "
            f"{SLACK:g}), and L is above 0; the learners' columns are error / planted error"
        ),
        columns=("law", "noise", "rate", *said, "L", "of halfspaces through", "U/L", "holds"),
    )


PART = Part(lambda form: len(CELLS[form]), _run)


def draw_elliptical(
    law: Callable[[int, int, Rng], Matrix], is_mixed: bool, n: int, dim: int, noise: str, rate: float, rng: Rng
) -> Problem:
    """Rows under a halfspace through their centre, a share of the labels flipped."""
    X = law(n, dim, rng)
    if is_mixed:
        X = X @ (np.eye(dim) + 0.4 * rng.standard_normal((dim, dim)))
    w = rng.standard_normal(dim)
    w /= np.linalg.norm(w)
    problem = Problem(X, with_noise(X, w, Noise(noise), rate, rng), w)
    if is_mixed:
        problem = replace(problem, X=X + SHIFT, threshold=SHIFT * float(w.sum()))
    return replace(problem, X=problem.X.astype(np.float32))


def winner_of(result: FitResult) -> str | None:
    """How the chosen halfspace was found."""
    return None if result.chosen is None else str(result.candidates[result.chosen].method)


def _compare(problem: Problem) -> tuple[tuple[Cell, ...], bool]:
    """A row of the table; and whether the criterion holds."""
    result = learn(problem, seed=0, certificate_degree="auto")
    regression = LogisticRegression(max_iter=1000).fit(problem.X, problem.y)
    theirs = Plane(regression.coef_[0].astype(np.float64), -float(regression.intercept_[0]))
    if result.halfspace is None:
        raise RuntimeError(f"a fit without a halfspace: {result}")
    planes = (problem.plane, result.halfspace.plane, theirs)
    planted, ours, others = (one.errors(problem.X, problem.y) / len(problem.y) for one in planes)
    lower = 0.0 if result.opt is None else result.opt.lower_empirical
    holds = result.verdict == "accepted" and ours <= FACTOR * planted + min(result.eps, SLACK) and lower > 0
    return (
        *(str(result.verdict), str(result.transform.kind), winner_of(result), result.eps, planted),
        *(round(one / planted, 4) for one in (ours, others)),
        round(lower, 5),
        None if result.opt is None else str(result.opt.through),
        None if result.ratio is None else round(result.ratio, 3),
        holds,
    ), holds
