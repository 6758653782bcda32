"""A fit with default settings and a logistic regression on the same training rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamhalf
from streamhalf.results import FitResult

Matrix = NDArray[np.float64]
Labels = NDArray[np.int8]

TEST_SHARE = 0.3
FLIPPED = 0.05
DIRECTIONS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Sampling:
    """Rows for training and for the test, and the regression of the labels as given."""

    X: Matrix
    y: Labels
    unseen: tuple[Matrix, Labels]
    regression: Any

    @classmethod
    def of(cls, X: Matrix, y: Labels, number: int) -> Sampling:
        """The split of this number."""
        train_X, test_X, train_y, test_y = train_test_split(X, y, test_size=TEST_SHARE, random_state=number, stratify=y)
        return cls(train_X, train_y, (test_X, test_y), regress(train_X, train_y))


@dataclass(frozen=True, slots=True)
class Trial:
    """Test errors, and what the fit said."""

    direction: int | None
    ours: float
    theirs: float
    seconds: float
    result: FitResult


def regress(X: Matrix, y: Labels) -> Any:
    """scikit-learn's logistic regression of standardised features."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)


def flip(split: Sampling, direction: int) -> Labels:
    """Training labels, a share of them flipped to agree with a halfspace that has nothing to say.

    Its normal is drawn orthogonally to that of the regression, among standardised features; the
    rows that disagree with it by the largest margins are flipped.
    """
    normal = split.regression[-1].coef_[0]
    drawn = np.random.default_rng(direction).standard_normal(len(normal))
    drawn -= normal * (drawn @ normal) / (normal @ normal)
    margin = split.regression[0].transform(split.X) @ drawn
    agrees = (margin - np.median(margin)) * split.y
    y = split.y.copy()
    y[np.argsort(agrees, kind="stable")[: int(FLIPPED * len(y))]] *= -1
    return y


def attempt(split: Sampling, direction: int | None, *, seed: int, certify: bool) -> Trial:
    """Fit both, to labels as given or flipped; the certificate has no part in the halfspace."""
    y = split.y if direction is None else flip(split, direction)
    regression = split.regression if direction is None else regress(split.X, y)
    start = time.perf_counter()
    more = {} if certify else {"certificate_degree": 0}
    result = streamhalf.fit((split.X, y), seed=seed, **more)
    seconds = time.perf_counter() - start
    ours = 1.0  # empty-handed
    if result.halfspace is not None:
        ours = result.halfspace.plane.errors(*split.unseen) / len(split.unseen[1])
    theirs = 1.0 - float(regression.score(*split.unseen))
    return Trial(direction, ours, theirs, seconds, result)
