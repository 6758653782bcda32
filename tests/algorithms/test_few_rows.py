"""Few rows: a halfspace and its error always, and what testers can say at that size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamhalf.algorithms import driver
from streamhalf.kernels.binomial import binomial_upper
from streamhalf.results import FitResult, Method, Outcome, Stop, StopReason, Verdict
from tests.algorithms.runs import draw, serial_run

SIZES = [300, 1_000, 3_000]


def fit(data: tuple[Any, Any], **parameters: Any) -> FitResult:
    given = {"eps": "auto", "seed": 2, "feature_transform": "auto"} | parameters
    with serial_run(data, **given) as (run, source, config, _):
        return driver.fit(run, source, config)


@pytest.mark.parametrize("transform", ["auto", "stored", "isotropic", "radial"])
@pytest.mark.parametrize("n_rows", SIZES)
def test_few_rows__are_never_left_empty_handed(n_rows: int, transform: str) -> None:
    result = fit(draw(n_rows, dim=3), feature_transform=transform)
    # a Gaussian is rejected with probability below tau = 0.01, for this seed it is not
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.stop == Stop(StopReason.TOO_FEW_ROWS)
    assert result.rows_needed > 10_000
    # a quarter measures, a binomial of standard deviation 0.43 sqrt(n); on it 5% and what was not
    # learnt from the others is wrong: beyond 6 of its deviations with probability below 1e-8
    assert result.error.n_rows == pytest.approx(n_rows / 4, abs=6 * 0.43 * n_rows**0.5)
    spread = 6 * (0.05 / result.error.n_rows) ** 0.5
    assert result.error.empirical == pytest.approx(0.05, abs=spread + (3 / n_rows) ** 0.5)
    assert result.error.beats_guess
    angle = np.array(result.halfspace.normal) / np.linalg.norm(result.halfspace.normal)
    assert angle @ np.sqrt([0.5, 0.5, 0]) > 0.97
    (candidate,) = result.candidates
    assert candidate.method is not Method.PATH
    assert result.chosen == 0


def test_few_rows__bound_is_that_of_one_halfspace() -> None:
    # it was chosen on rows for learning: nothing is to be paid for
    result = fit(draw(1_000, dim=3))
    wrong = round(result.error.empirical * result.error.n_rows)
    assert result.error.upper == binomial_upper(wrong, result.error.n_rows, 0.0025)


@pytest.mark.parametrize("n_rows", SIZES)
def test_few_rows__a_moment_that_is_far_off_is_a_rejection(n_rows: int) -> None:
    X, y = draw(n_rows, dim=3)
    X[:, 2] *= 5.6  # its second moment is off by 30
    result = fit((X, y), feature_transform="stored")
    assert result.verdict is Verdict.REJECTED
    assert result.rows_needed is None  # more rows would not help
    (worst, *_) = (one for one in result.testers if one.outcome is Outcome.REJECTED)
    assert worst.statistic > 10
    assert result.error.empirical < 0.15
    assert result.halfspace is not None


@pytest.mark.parametrize("n_rows", SIZES)
def test_few_rows__move_to_a_position_where_nothing_is_off(n_rows: int) -> None:
    X, y = draw(n_rows, dim=3)
    result = fit((X * [1.0, 1.0, 5.6], y))
    assert result.transforms[0].outcome is Outcome.REJECTED
    assert (result.verdict, result.transform.kind) == (Verdict.INCONCLUSIVE, "isotropic")


@pytest.mark.parametrize("n_rows", SIZES)
def test_few_rows__have_a_certificate(n_rows: int) -> None:
    result = fit(draw(n_rows, dim=2), certificate_degree=2, feature_transform="stored")
    assert result.certificate is not None
    assert 0 <= result.opt.lower <= result.error.upper
    assert result.passes[-1].name == "certificate"


@pytest.mark.parametrize("through", ["any", "centre"])
@pytest.mark.parametrize("n_rows", [1, 2, 5, 20])
def test_few_rows__may_be_very_few(n_rows: int, through: str) -> None:
    result = fit(draw(n_rows, dim=3), through=through)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.halfspace is not None
    assert len(result.halfspace.normal) == 3


def test_few_rows__for_all_tests_may_be_enough_to_learn_from() -> None:
    # 40,000 rows of 12 features are too few for the quadratics, but not for updates
    X, y = draw(40_000, dim=12)
    result = fit((X, y), feature_transform="stored")
    assert result.rows_needed is None or result.rows_needed > 40_000
    names = [one.name for one in result.passes if one.name != "calibration"]
    assert names[:3] == ["sample", "initial", "update-1"]
    assert names[-3:] == ["refine", "thresholds", "final"]
    assert {one.method for one in result.candidates} > {Method.PATH, Method.REGRESSION}
    assert result.error.n_rows == pytest.approx(10_000, abs=6 * 0.43 * 200)
    # 5% noise, and what is not learnt; six standard deviations of 10,000 rows are 0.013
    assert result.error.empirical < 0.065
