from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streamhalf.data.block import Block, RowRange
from streamhalf.records import Outcome
from streamhalf.reductions import LabelCounts, Localized
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.acceptance import ACCEPTANCE_TOLERANCE, AcceptanceTester

DELTAS = (0.5, 0.25, 0.125, 0.03, 0.005)


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
    tester = AcceptanceTester(delta=0.1, tau=0.01)
    judgement = tester.judge(100, accepted)
    assert judgement.outcome is outcome
    wanted = tester.rows_needed() if outcome is Outcome.INCONCLUSIVE else None
    assert judgement.rows_needed == wanted


def test_acceptance__no_rows_settle_nothing() -> None:
    assert AcceptanceTester(delta=0.1, tau=0.01).judge(0, 0).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("tau", [0.05, 0.001])
@pytest.mark.parametrize("mean", [2, 10, 60, 1000])
def test_quantile__covers_the_binomial(delta: float, tau: float, mean: int) -> None:
    # the exact probability that true N(0, I) rows exceed the quantile: no simulation needed
    n_rows = round(mean / delta)
    tester = AcceptanceTester(delta=delta, tau=tau)
    count = stats.binom(n_rows, delta)
    allowed = tester.quantile(n_rows) * n_rows * delta
    exceeded = count.sf(np.floor(n_rows * delta + allowed)) + count.cdf(
        np.ceil(n_rows * delta - allowed) - 1
    )
    assert exceeded <= tau


@pytest.mark.parametrize("delta", DELTAS)
def test_rows_needed__is_the_smallest_conclusive_number(delta: float) -> None:
    tester = AcceptanceTester(delta=delta, tau=0.001)
    rows = tester.rows_needed()
    assert tester.quantile(rows) <= ACCEPTANCE_TOLERANCE < tester.quantile(rows - 1)
    passes = stats.binom(rows, delta)
    low, high = (1 - ACCEPTANCE_TOLERANCE) * rows * delta, (1 + ACCEPTANCE_TOLERANCE) * rows * delta
    assert passes.cdf(high) - passes.cdf(low) >= 1 - 0.001
    assert tester.judge(rows, round(2 * rows * delta)).outcome is Outcome.REJECTED


@pytest.mark.parametrize(
    ("marginal", "outcome"), [("gaussian", Outcome.PASSED), ("hole", Outcome.REJECTED)]
)
def test_acceptance__a_hole_at_the_boundary_is_seen(marginal: str, outcome: Outcome) -> None:
    # Gaussian rows fail with probability below tau = 0.001; a hole accepts almost no row
    spec = SyntheticSpec(rows=20_000, dim=3, marginal=marginal, noise="none", seed=2)
    planted = plant(spec)
    rows = generate(spec, planted, RowRange(0, spec.rows))
    pass_ = Localized(LabelCounts(), planted.v, 0.0625, seed=5, stream=1)
    result = pass_.map(Block(rows.X, rows.y, np.arange(spec.rows)))
    judgement = AcceptanceTester(delta=0.0625, tau=0.001).judge(result.n_seen, result.n_accepted)
    assert judgement.outcome is outcome
    (evidence,) = judgement.evidence
    assert evidence.name == "acceptance rate at delta 0.0625"
    assert evidence.observed == result.n_accepted / 20_000
    assert evidence.expected == 0.0625
    assert evidence.limit == judgement.limit == ACCEPTANCE_TOLERANCE
    assert (evidence.deviation > evidence.limit) == (outcome is Outcome.REJECTED)
