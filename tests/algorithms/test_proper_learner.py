from __future__ import annotations

import math

import numpy as np
import pytest

from streamhalf.algorithms.proper_learner import ProperLearner
from streamhalf.data.block import Block, RowRange
from streamhalf.results import Outcome, overall_outcome
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.base import TesterSet
from streamhalf.testers.exchangeability import ExchangeabilityTester
from streamhalf.testers.moments import MomentTester


def make_learner(dim: int, degree: int = 4) -> ProperLearner:
    moments = MomentTester(dim=dim, degree=degree, moment_tolerance=0.1, spectral_tolerance=0.3, tau=0.01)
    return ProperLearner(TesterSet((moments,)))


def learn(noise: str, rate: float, marginal: str = "gaussian", rows: int = 100_000, dim: int = 6):
    spec = SyntheticSpec(rows=rows, dim=dim, marginal=marginal, noise=noise, rate=rate, seed=3)
    planted = plant(spec)
    data = generate(spec, planted, RowRange(0, rows))
    learner = make_learner(dim)
    needs = learner.needs()
    block = Block(data.X, data.y, np.arange(rows))
    return learner.conclude(needs.finalize(needs.map(block)), n_seen=rows), planted.v


def test_proper_learner__finds_the_planted_direction_without_noise() -> None:
    # the Chow vector errs by about sqrt(d / n) = 0.008
    outcome, v = learn("none", 0.0)
    assert overall_outcome(outcome.test_results) is Outcome.PASSED
    assert np.linalg.norm(outcome.plane.normal - v) < 0.03
    assert outcome.strength == pytest.approx(1, abs=0.025)


@pytest.mark.parametrize(("noise", "rate"), [("random", 0.1), ("chow", 0.05), ("far", 0.05)])
def test_proper_learner__error_is_of_the_order_of_root_opt(noise: str, rate: float) -> None:
    outcome, v = learn(noise, rate)
    assert np.linalg.norm(outcome.plane.normal - v) < 2 * math.sqrt(rate)


def test_proper_learner__reports_a_marginal_that_is_not_gaussian() -> None:
    outcome, _ = learn("none", 0.0, marginal="laplace")
    assert overall_outcome(outcome.test_results) is Outcome.REJECTED


def test_proper_learner__labels_without_any_direction_give_a_unit_vector() -> None:
    learner = make_learner(2, degree=2)
    needs = learner.needs()
    X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    block = Block(X, np.ones(2, dtype=np.int8), np.arange(2))
    outcome = learner.conclude(needs.finalize(needs.map(block)), n_seen=2)
    assert np.linalg.norm(outcome.plane.normal) == 1
    assert outcome.strength == 0


def test_proper_learner__takes_an_odd_number_of_groups_by_features_and_tau() -> None:
    _, chow = make_learner(6).needs().members
    assert chow.n_groups == 2 * math.ceil(math.log(6 / 0.01)) + 1


def test_proper_learner__other_testers_of_the_panel_are_asked_too() -> None:
    moments = make_learner(2).tester_set.testers
    learner = ProperLearner(TesterSet((ExchangeabilityTester(total_rows=3_000, tau=0.01), *moments)))
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3_000, 2))
    block = Block(X, np.where(X[:, 0] >= 0, 1, -1).astype(np.int8), np.arange(3_000))
    needs = learner.needs()
    outcome = learner.conclude(needs.finalize(needs.map(block)), n_seen=3_000)
    assert [one.tester for one in outcome.test_results] == [
        "order of rows",
        "largest moment",
        "second moment",
        "quadratics",
    ]
    assert outcome.moments.n_rows == 3_000
