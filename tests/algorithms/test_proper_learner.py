from __future__ import annotations

import math

import numpy as np
import pytest

from streamhalf.algorithms.proper_learner import ProperLearner
from streamhalf.data.block import Block, RowRange
from streamhalf.records import Outcome, overall_outcome
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers import MomentTester


def learn(noise: str, rate: float, marginal: str = "gaussian", rows: int = 100_000, dim: int = 6):
    spec = SyntheticSpec(rows=rows, dim=dim, marginal=marginal, noise=noise, rate=rate, seed=3)
    planted = plant(spec)
    data = generate(spec, planted, RowRange(0, rows))
    tester = MomentTester(degree=4, moment_tolerance=0.1, spectral_tolerance=0.3, tau=0.01)
    learner = ProperLearner(tester)
    needs = learner.needs(dim)
    block = Block(data.X, data.y, np.arange(rows))
    return learner.conclude(needs.finalize(needs.map(block))), planted.v


def test_proper_learner__finds_the_planted_direction_without_noise() -> None:
    # the Chow vector errs by about sqrt(d / n) = 0.008
    outcome, v = learn("none", 0.0)
    assert overall_outcome(outcome.judgements) is Outcome.PASSED
    assert np.linalg.norm(outcome.vector - v) < 0.03
    assert outcome.strength == pytest.approx(math.sqrt(2 / math.pi), abs=0.02)


@pytest.mark.parametrize(("noise", "rate"), [("random", 0.1), ("chow", 0.05), ("far", 0.05)])
def test_proper_learner__error_is_of_the_order_of_root_opt(noise: str, rate: float) -> None:
    outcome, v = learn(noise, rate)
    assert np.linalg.norm(outcome.vector - v) < 2 * math.sqrt(rate)


def test_proper_learner__reports_a_marginal_that_is_not_gaussian() -> None:
    outcome, _ = learn("none", 0.0, marginal="laplace")
    assert overall_outcome(outcome.judgements) is Outcome.REJECTED


def test_proper_learner__labels_without_any_direction_give_a_unit_vector() -> None:
    learner = ProperLearner(
        MomentTester(degree=2, moment_tolerance=0.1, spectral_tolerance=0.3, tau=0.01)
    )
    needs = learner.needs(2)
    X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    block = Block(X, np.ones(2, dtype=np.int8), np.arange(2))
    outcome = learner.conclude(needs.finalize(needs.map(block)))
    assert np.linalg.norm(outcome.vector) == 1
