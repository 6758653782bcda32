"""Many features for the rows: errors on fresh rows beside scikit-learn's logistic regression."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamhalf
from scripts.evaluation.tables import OURS, Advance, Cell, Part, Table
from streamhalf.kernels.streams import Stream, uniforms_at

FRESH, SLACK = 20_000, 0.005
NOISE = (0.0, 0.05)
GAUSSIAN = {
    "short": ((2_000, 100), (3_000, 300)),
    "long": ((2_000, 100), (5_000, 1_000), (20_000, 500), (20_000, 2_000), (50_000, 200)),
}
"""Rows and features."""

SPLITS = {"short": 2, "long": 10}
TABLES = {"breast cancer": load_breast_cancer, "digits, odd or even": load_digits}
SAME, ALL = "regression, same rows", "regression, all rows"

Problem = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Rows and labels to learn from, and fresh ones."""


def _run(form: str, advance: Advance) -> Table:
    """One row for each table: the mean of several splits where it has few rows."""
    rows: list[tuple[Cell, ...]] = []
    for n_rows, dim in GAUSSIAN[form]:
        for noise in NOISE:
            rows.append(_row(f"Gaussian, {noise:.0%} noise", [draw(n_rows, dim, noise)]))
            advance()
    for name in TABLES:
        rows.append(_row(name, list(_splits(name, SPLITS[form]))))
        advance()
    behind = [f"{row[0]}, d = {row[2]}" for row in rows if not row[-1]]
    return Table(
        name="wide",
        criterion=(
            f"the error on fresh rows is at most that of scikit-learn's logistic regression "
            "(standardised features, its default penalty) on all rows, held-out ones included, "
            f"+ {SLACK:g}; beside it, the regression on the same learning rows"
        ),
        met=not behind,
        summary=f"{len(rows) - len(behind)} of {len(rows)} within the limit"
        + (f"; not: {'; '.join(behind)}" if behind else ""),
        columns=(
            *("data", "rows", "d", "rows for learning", "held-out error", "upper"),
            *(OURS, SAME, ALL, "passes", "seconds", "holds"),
        ),
        rows=tuple(rows),
        details={"behind": behind},
    )


PART = Part(lambda form: len(GAUSSIAN[form]) * len(NOISE) + len(TABLES), _run)


def draw(n_rows: int, dim: int, noise: float) -> Problem:
    """Gaussian rows with labels of a random halfspace, a share of them flipped at random."""
    rng = np.random.default_rng([n_rows, dim])
    X = rng.standard_normal((n_rows + FRESH, dim), dtype=np.float32)
    y = np.where(X @ rng.standard_normal(dim) >= 0, 1, -1)
    y = np.where(rng.random(len(y)) < noise, -y, y)
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def _splits(name: str, count: int) -> Iterator[Problem]:
    found = TABLES[name]()
    y = np.where(found.target % 2, 1, -1)
    for number in range(count):
        X, fresh, labels, answers = train_test_split(found.data, y, test_size=0.3, random_state=number, stratify=y)
        yield X, labels, fresh, answers


def _row(name: str, problems: list[Problem]) -> tuple[Cell, ...]:
    found = np.mean([_compare(one) for one in problems], axis=0)
    n_learning, *errors, n_passes, seconds = found.tolist()
    X = problems[0][0]
    return (
        *(name, len(X), X.shape[1], round(n_learning)),
        *(round(one, 4) for one in errors),
        *(round(n_passes), round(seconds, 1)),
        bool(errors[2] <= errors[4] + SLACK),
    )


def _compare(problem: Problem) -> tuple[float, ...]:
    X, y, fresh, answers = problem
    start = time.perf_counter()
    result = streamhalf.fit((X, y), seed=0, certificate_degree=0)
    seconds = time.perf_counter() - start
    if result.halfspace is None or result.error is None or result.held_out is None:
        raise ValueError("a run without a halfspace")
    learning = uniforms_at(0, Stream.SHARES, np.arange(len(y))) >= result.held_out.high
    ours = result.halfspace.plane.errors(fresh, answers) / len(answers)
    same, all_rows = (
        1 - make_pipeline(StandardScaler(), LogisticRegression()).fit(X[of], y[of]).score(fresh, answers)
        for of in (learning, slice(None))
    )
    errors = (result.error.empirical, result.error.upper, ours, same, all_rows)
    return (int(learning.sum()), *errors, len(result.passes), seconds)
