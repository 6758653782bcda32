"""One result of every kind, from fixed seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

import streamhalf
from streamhalf.results import CertifyResult, FitResult, MomentTestResult

Result: TypeAlias = FitResult | CertifyResult | MomentTestResult


@dataclass(frozen=True)
class Results:
    """One result of every kind."""

    accepted: FitResult
    certified: FitResult
    rejected: FitResult
    inconclusive: FitResult
    one_class: FitResult
    radial: FitResult
    certificate: CertifyResult
    test: MomentTestResult

    def every(self) -> dict[str, Result]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def reported(self) -> dict[str, FitResult | CertifyResult]:
        return {name: one for name, one in self.every().items() if not isinstance(one, MomentTestResult)}


def make_results() -> Results:
    """Return fits of small data, of every verdict."""
    rng = np.random.default_rng(5)
    n_rows = 40_000
    X = rng.standard_normal((n_rows, 3))
    w = np.array([0.6, -0.8, 0.0])
    flips = np.where(rng.random(n_rows) < 0.05, -1, 1)
    y = (np.where(X @ w >= 0.3, 1, -1) * flips).astype(np.int8)
    frame = pd.DataFrame({"age": X[:, 0], "net income": np.exp(X[:, 1]), "debts": rng.exponential(size=n_rows)})
    bought = np.where(X[:, 1] - frame["debts"] > rng.normal(size=n_rows), "yes", "no")
    uniform = rng.uniform(-1, 1, (n_rows, 3))
    noisy = np.where(uniform @ w >= 0, 1, -1) * flips
    few = slice(10_000)
    return Results(
        accepted=streamhalf.fit((X, y), seed=1),
        certified=streamhalf.fit((uniform[few], noisy[few]), seed=1),
        rejected=streamhalf.fit((frame, bought), seed=1, max_ratio=1.0, feature_transform="isotropic"),
        inconclusive=streamhalf.fit((X[:300], y[:300]), seed=1, max_ratio=1.0),
        one_class=streamhalf.fit((X[:1000], np.ones(1000, np.int8)), seed=1),
        radial=streamhalf.fit((X[few] / rng.exponential(size=(10_000, 1)), y[few]), seed=1),
        certificate=streamhalf.certify((X[few], y[few]), weights=w, seed=1),
        test=streamhalf.test(frame, seed=1, feature_transform="stored"),
    )
