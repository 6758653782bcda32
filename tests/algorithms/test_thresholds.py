"""Learning halfspaces that do not go through the origin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from streamhalf.algorithms import driver
from streamhalf.algorithms.plan import plan_about, plan_for_rows
from streamhalf.config import RunConfig
from streamhalf.results import FitResult, HalfspaceClass, Notice, NoticeCode
from streamhalf.testers import TESTERS
from tests.algorithms.runs import serial_run

PLANTED = np.array([0.6, -0.8, 0.0, 0.0])


def draw(positive: float, *, flipped: float, n_rows: int = 200_000) -> tuple[Any, Any, float]:
    """Gaussian rows of which a share is positive, labels flipped at random, and the threshold."""
    rng = np.random.default_rng(8)
    X, t = rng.standard_normal((n_rows, len(PLANTED))), float(ndtri(1 - positive))
    y = np.where(t <= X @ PLANTED, 1, -1)
    return X, np.where(rng.random(n_rows) < flipped, -y, y).astype(np.int8), t


def fit(data: tuple[Any, Any], **parameters: Any) -> FitResult:
    with serial_run(data, eps="auto", seed=2, **parameters) as (run, source, config, _):
        return driver.fit(run, source, config)


@pytest.mark.parametrize("positive", [0.3, 0.05, 0.95])
def test_fit__finds_plane_and_threshold(positive: float) -> None:
    flipped = 0.1 * min(positive, 1 - positive)
    X, y, t = draw(positive, flipped=flipped)
    result = fit((X, y))
    assert result.error.through is HalfspaceClass.ANY
    assert result.halfspace.plane.unit().threshold == pytest.approx(t, abs=0.02)
    # a standard deviation of the noise is 0.02 of it at most, of the choice less
    assert result.error.empirical < 1.1 * flipped + 0.002
    by_label = result.error.by_label
    assert by_label.positive + by_label.negative == result.error.n_rows
    assert by_label.guess == (1 if positive > 0.5 else -1)
    assert by_label.guess_error == pytest.approx(min(positive, 1 - positive), abs=0.02)
    assert result.error.beats_guess
    assert result.constant is None  # none is known for thresholds


def test_fit__through_the_centre_has_no_threshold() -> None:
    X, y, _ = draw(0.3, flipped=0.0)
    result = fit((X, y), through="centre")
    assert result.halfspace.offset == 0
    assert result.error.through is HalfspaceClass.ORIGIN
    assert "thresholds" not in [record.name for record in result.passes]


def test_fit__a_rare_label_is_told() -> None:
    X, y, _ = draw(0.004, flipped=0.0)
    result = fit((X, y))
    assert result.notices[0] == Notice.of(NoticeCode.NEARLY_ONE_CLASS, label=1, share=result.error.by_label.guess_error)
    assert result.error.upper < 0.002


def test_plan__about_a_threshold_holds_out_the_same_rows_and_reaches_less_far() -> None:
    config = RunConfig(seed=0)
    plan = plan_for_rows(1_000_000, 10, config)
    about = [plan_about(plan, t, config, TESTERS) for t in (0.0, 1.0, 1.9)]
    assert {one.final_rows for one in about} == {plan.final_rows}
    assert {one.initial_rows for one in about} == {plan.initial_rows}
    assert about[0].eps == plan.eps
    assert about[0].eps < about[1].eps < about[2].eps
    assert [one.first_delta for one in about] == [0.5, 0.25, 0.25]
    rates = [one.rate(0.25) for one in about]
    assert rates == pytest.approx([0.25 * np.exp(-(t**2) / 2 / (1 - 1 / 16)) for t in (0, 1, 1.9)])


def test_plan__about_a_threshold_that_no_rows_reach_is_still_a_plan() -> None:
    config = RunConfig(seed=0)
    plan = plan_for_rows(100_000, 4, config)
    far = plan_about(plan, 4.0, config, TESTERS)
    assert far.required_rows > far.n_rows == 100_000
    assert far.held_out == plan.held_out
