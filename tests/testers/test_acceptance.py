from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streamhalf.data.block import Block, RowRange
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.reductions import LabelCounts
from streamhalf.reductions.labels import LabelledRows
from streamhalf.reductions.row_view import RowView, Sample, Viewed
from streamhalf.results import AcceptanceRate, Outcome, TestResult
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.acceptance import ACCEPTANCE_TOLERANCE, AcceptanceTester

DELTAS = (0.5, 0.25, 0.125, 0.03, 0.005)
THRESHOLDS = (0.0, 0.7, 2.2)


def make_tester(delta: float, tau: float, threshold: float = 0.0) -> AcceptanceTester:
    frame = Frame(Plane(np.array([1.0, 0.0, 0.0]), threshold), delta)
    return AcceptanceTester(frame=frame, tau=tau)


def judge(tester: AcceptanceTester, n_seen: int, n_accepted: int) -> TestResult:
    (test_result,) = tester.judge(LabelledRows(n_accepted, 0), n_seen=n_seen)
    return test_result


@pytest.mark.parametrize(
    ("accepted", "outcome"),
    [
        (10, Outcome.PASSED),
        (5, Outcome.PASSED),
        (15, Outcome.PASSED),
        (16, Outcome.INCONCLUSIVE),
        (4, Outcome.INCONCLUSIVE),
        (40, Outcome.REJECTED),
    ],
)
def test_acceptance__has_three_outcomes(accepted: int, outcome: Outcome) -> None:
    tester = make_tester(0.1, 0.01)
    test_result = judge(tester, 100, accepted)
    assert test_result.outcome is outcome
    wanted = tester.rows_to_see() if outcome is Outcome.INCONCLUSIVE else None
    assert test_result.rows_needed == wanted
    assert test_result.n_rows == 100


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("tau", [0.05, 0.001])
@pytest.mark.parametrize("mean", [2, 10, 60, 1000])
def test_quantile__covers_the_binomial(delta: float, tau: float, mean: int, threshold: float) -> None:
    # the exact probability that true N(0, I) rows exceed the quantile: no simulation needed
    tester = make_tester(delta, tau, threshold)
    rate = tester.frame.rate
    n_rows = round(mean / rate)
    count = stats.binom(n_rows, rate)
    allowed = tester.quantile(n_rows) * n_rows * rate
    exceeded = count.sf(np.floor(n_rows * rate + allowed)) + count.cdf(np.ceil(n_rows * rate - allowed) - 1)
    assert exceeded <= tau


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("delta", DELTAS)
def test_rows_to_see__is_the_smallest_conclusive_number(delta: float, threshold: float) -> None:
    tester = make_tester(delta, 0.001, threshold)
    rows, rate = tester.rows_to_see(), tester.frame.rate
    assert tester.quantile(rows) <= ACCEPTANCE_TOLERANCE < tester.quantile(rows - 1)
    passes = stats.binom(rows, rate)
    low, high = (1 - ACCEPTANCE_TOLERANCE) * rows * rate, (1 + ACCEPTANCE_TOLERANCE) * rows * rate
    assert passes.cdf(high) - passes.cdf(low) >= 1 - 0.001
    assert judge(tester, rows, round(2 * rows * rate)).outcome is Outcome.REJECTED
    # of the rows that are looked at, so many are accepted
    assert tester.rows_needed() - 1 < rows * rate <= tester.rows_needed()


@pytest.mark.parametrize(("marginal", "outcome"), [("gaussian", Outcome.PASSED), ("hole", Outcome.REJECTED)])
def test_acceptance__a_hole_at_the_boundary_is_seen(marginal: str, outcome: Outcome) -> None:
    # Gaussian rows fail with probability below tau = 0.001; a hole accepts almost no row
    spec = SyntheticSpec(rows=20_000, dim=3, marginal=marginal, noise="none", seed=2)
    planted = plant(spec)
    rows = generate(spec, planted, RowRange(0, spec.rows))
    frame = Frame(Plane(planted.v), 0.0625)
    tester = AcceptanceTester(frame=frame, tau=0.001)
    pass_ = Viewed(tester.needs(), RowView(Sample(5, 1), accept=frame))
    result = pass_.map(Block(rows.X, rows.y, np.arange(spec.rows)))
    assert isinstance(pass_.inner, LabelCounts)
    (test_result,) = tester.judge(result.inner, n_seen=result.n_seen)
    assert test_result.outcome is outcome
    (evidence,) = test_result.evidence
    assert evidence.subject == AcceptanceRate(0.0625)
    assert evidence.observed == result.n_accepted / 20_000
    assert evidence.expected == 0.0625
    assert evidence.limit == test_result.limit == ACCEPTANCE_TOLERANCE
    assert (evidence.deviation > evidence.limit) == (outcome is Outcome.REJECTED)
