"""Results of every kind, made once, and a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

import streamhalf
from streamhalf.report.details import shown_candidate
from streamhalf.results import (
    CertifyResult,
    FitResult,
    Outcome,
    TestResult,
    Verdict,
    replace,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROWS, DIM = 120_000, 3

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def without_say(test_result: TestResult) -> TestResult:
    """Quadratics as where their null is not known; every other word as it is."""
    if test_result.tester != "quadratics":
        return test_result
    return replace(test_result, outcome=Outcome.NOT_JUDGED)


@dataclass(frozen=True)
class Results:
    """One result of every verdict."""

    accepted: FitResult
    certified: FitResult
    rejected: FitResult
    inconclusive: FitResult
    radial: FitResult
    certificate: CertifyResult

    def every(self) -> dict[str, FitResult | CertifyResult]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@pytest.fixture(scope="session")
def results() -> Results:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((ROWS, DIM))
    w = np.array([0.6, -0.8, 0.0])
    flips = np.where(rng.random(ROWS) < 0.05, -1, 1)
    y = (np.where(X @ w >= 0, 1, -1) * flips).astype(np.int8)
    correlated = X + 0.8 * X[:, :1]
    stored = streamhalf.fit((correlated, y), eps=0.2, feature_transform="stored", max_ratio=1.0)
    accepted = streamhalf.fit((X, y), eps=0.2, through="centre")
    # as where the path wins: the tests have words about its candidates alone
    accepted = replace(accepted, chosen=shown_candidate(accepted))
    return Results(
        accepted=accepted,
        certified=replace(stored, verdict=Verdict.CERTIFIED),
        rejected=stored,
        inconclusive=streamhalf.fit((X[:300], y[:300]), max_ratio=1.0),
        radial=streamhalf.fit((X / rng.exponential(size=(ROWS, 1)), y), eps=0.2),
        certificate=streamhalf.certify((X, y), weights=w),
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium; continuous integration must have one, a user's machine need not."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        message = "no Chromium found; install it with: sudo apt-get install -y chromium"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield launched
        launched.close()
