from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import RowRange
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.results import Moment, Outcome, Quadratic, Role, SecondMoment, overall_outcome
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.constants import LARGEST_DEVIATION
from streamhalf.testers.moments import MomentTester, excluded_deviation, quadratics_quantile
from streamhalf.testing import Block


def make_tester(dim: int, **changes) -> MomentTester:
    values = {"dim": dim, "degree": 4, "moment_tolerance": 0.1, "spectral_tolerance": 0.3, "tau": 0.01}
    return MomentTester(**(values | changes))


def judge_rows(X: np.ndarray, tester: MomentTester | None = None):
    tester = tester or make_tester(X.shape[1])
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    needs = tester.needs()
    return tester.judge(needs.finalize(needs.map(block)), n_seen=len(X))


def draw(marginal: str, rows: int, dim: int, seed: int = 0) -> np.ndarray:
    spec = SyntheticSpec(rows=rows, dim=dim, marginal=marginal, noise="none", seed=seed)
    return generate(spec, plant(spec), RowRange(0, rows)).X


def test_moment_tester__gaussian_at_planned_size_passes() -> None:
    # at most tau = 1% of true Gaussian data sets may fail: 2 of 200 (the union bounds make it far
    # fewer; binomial probability of 3 or more at the full rate 1%: 0.32)
    failed = 0
    for seed in range(200):
        dim = (2, 5, 10, 20)[seed % 4]
        rows = make_tester(dim).rows_needed()
        test_results = judge_rows(draw("gaussian", rows, dim, seed))
        failed += overall_outcome(test_results) is not Outcome.PASSED
    assert failed <= 2


def test_moment_tester__few_gaussian_rows_are_never_rejected() -> None:
    # rejected with probability at most 1% each: 4 or more of 120 has probability 0.03 at most
    rejected = 0
    for seed in range(120):
        dim, rows = ((1, 30), (3, 60), (8, 100), (8, 700))[seed % 4]
        test_results = judge_rows(draw("gaussian", rows, dim, 1000 + seed))
        rejected += overall_outcome(test_results) is Outcome.REJECTED
    assert rejected <= 3


FOURTH = {(i,) * 4 for i in range(6)}
FIRST = {(i,) for i in range(6)}
MIXED = {(i, j) for i in range(6) for j in range(i + 1, 6)}
SQUARES = {(i, i) for i in range(6)}

EVIDENCE = {
    "student-t": FOURTH,
    "laplace": FOURTH,
    "uniform": FOURTH,
    "rademacher": FOURTH,
    "correlated": MIXED,
    "shifted": FIRST,
    "low-rank": MIXED | SQUARES,  # unit variances or not, the covariance is off
}
"""Variables of the moment that is named first."""


@pytest.mark.parametrize("marginal", sorted(EVIDENCE))
def test_moment_tester__names_the_moment_that_is_wrong(marginal: str) -> None:
    test_results = judge_rows(draw(marginal, 60_000, 6))
    assert overall_outcome(test_results) is Outcome.REJECTED
    lead = test_results[0].evidence[0]
    assert isinstance(lead.subject, Moment)
    assert lead.subject.variables in EVIDENCE[marginal]
    assert not lead.subject.sketched
    assert lead.deviation > lead.limit
    assert lead.observed != pytest.approx(lead.expected, abs=0.05)


@pytest.mark.parametrize("marginal", ["gauss-hermite", "hole", "spike"])
def test_moment_tester__laws_with_gaussian_moments_pass(marginal: str) -> None:
    # these match all moments to degree 5 on purpose: only the slab test can tell them apart
    test_results = judge_rows(draw(marginal, 100_000, 4))
    assert overall_outcome(test_results) is Outcome.PASSED


def test_moment_tester__worst_direction_is_found() -> None:
    rng = np.random.default_rng(3)
    direction = np.array([0.6, 0.0, 0.8])
    X = rng.standard_normal((50_000, 3))
    X += np.outer(X @ direction, direction)  # variance 4 along the direction
    second = judge_rows(X)[1]
    subject = second.evidence[0].subject
    assert isinstance(subject, SecondMoment)
    found = np.array(subject.direction)
    assert np.linalg.norm(found) == pytest.approx(1)
    assert abs(found @ direction) > 0.99
    assert second.evidence[0].observed == pytest.approx(4, abs=0.2)


def test_quadratics__that_cannot_tell_stand_in_nobodys_way() -> None:
    test_results = judge_rows(np.random.default_rng(0).standard_normal((3_000, 5)))
    extra = test_results[2]
    assert extra.outcome is Outcome.INCONCLUSIVE
    assert extra.role is Role.EXTRA
    assert isinstance(extra.evidence[0].subject, Quadratic)
    assert extra.limit == 0.2 < extra.null_quantile
    assert overall_outcome(test_results) is overall_outcome(test_results[:2])
    # with the rows that it names it passes
    assert extra.rows_needed == make_tester(5).rows_for(0.2)
    more = np.random.default_rng(0).standard_normal((extra.rows_needed, 5))
    judged = judge_rows(more)[2]
    assert judged.null_quantile <= judged.limit
    assert judged.outcome is Outcome.PASSED
    assert judged.role is Role.EXTRA


@pytest.mark.parametrize("n_rows", [60, 1_000])
def test_quadratics__reject_wherever_they_can(n_rows: int) -> None:
    # one row in ten is six times as long: no single moment along an axis need show it
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n_rows, 4)) * np.where(rng.random((n_rows, 1)) < 0.1, 6, 1)
    test_results = judge_rows(X)
    assert test_results[2].n_rows < make_tester(4).rows_for(0.2)
    assert test_results[2].outcome is Outcome.REJECTED
    assert overall_outcome(test_results[2:]) is Outcome.REJECTED


def test_rows_for__grows_as_the_tolerance_shrinks_and_leaves_the_others_alone() -> None:
    tester = make_tester(10)
    coarse, fine = (tester.rows_for(tolerance) for tolerance in (0.2, 0.1))
    assert 3.4 * coarse < fine < 4 * coarse
    assert coarse == pytest.approx(25_000, rel=0.1)
    # however large the tolerance, what passes leaves a deviation that the table knows
    least = tester.rows_for(5.0)
    assert least < coarse
    quantile = quadratics_quantile(least, 10, tester.tau / 3)
    assert excluded_deviation(quantile, least, tester.tau) <= LARGEST_DEVIATION
    assert tester.rows_needed() == make_tester(10, quadratics_tolerance=0.01).rows_needed()
    # of a sketch, its directions count
    assert make_wide(70, 5).rows_for(0.2) == pytest.approx(make_tester(5).rows_for(0.2))


def test_moment_tester__inconclusive_names_the_rows_that_settle_it() -> None:
    X = np.random.default_rng(1).standard_normal((200, 5))
    largest = judge_rows(X)[0]
    assert largest.outcome is Outcome.INCONCLUSIVE
    assert largest.rows_needed == make_tester(5).rows_needed()
    enough = np.random.default_rng(1).standard_normal((largest.rows_needed, 5))
    assert judge_rows(enough)[0].outcome is Outcome.PASSED


@pytest.mark.parametrize("degree", [6, 8])
def test_moment_tester__higher_degrees_pass_gaussian_rows_and_find_the_rest(degree: int) -> None:
    # 6 data sets at tau = 0.01: one or more rejections with probability below 0.06, and
    # the seeds are fixed
    tester = make_tester(3, degree=degree)
    n_rows = tester.rows_needed()
    for seed in range(6):
        rows = np.random.default_rng(seed).standard_normal((n_rows, 3))
        outcomes = {test_result.outcome for test_result in judge_rows(rows, tester)}
        assert outcomes <= {Outcome.PASSED, Outcome.NOT_JUDGED}
    # Gauss-Hermite points agree with N(0, 1) up to degree 5: only a higher degree sees them
    points = np.random.default_rng(0).choice([-np.sqrt(3), 0.0, np.sqrt(3)], (n_rows, 3), p=[1 / 6, 2 / 3, 1 / 6])
    assert judge_rows(points, tester)[0].outcome is Outcome.REJECTED


def make_wide(dim: int = 70, n_directions: int = 5, seed: int = 0) -> MomentTester:
    draws = np.random.default_rng(seed).standard_normal((dim, n_directions))
    return make_tester(dim, directions=np.linalg.qr(draws)[0].T)


def test_wide__degree_two_in_full_and_the_rest_on_a_sketch() -> None:
    tester = make_wide()
    rows = np.random.default_rng(1).standard_normal((tester.rows_needed(), 70))
    test_results = judge_rows(rows, tester)
    assert overall_outcome(test_results) is Outcome.PASSED
    assert {one.directions for one in test_results} == {5}
    sketched = [one.subject.sketched for one in test_results[0].evidence]
    assert sketched == [False] * 5 + [True] * 5
    in_full = [one.subject.variables for one in test_results[0].evidence[:5]]
    assert all(len(variables) <= 2 for variables in in_full)
    extra = test_results[2].evidence[0].subject
    # of the features, not of the sketch
    assert len(extra.direction) == 70


def test_wide__a_wrong_mean_and_a_wrong_shape_are_both_seen() -> None:
    tester = make_wide()
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((20_000, 70))
    shifted = rows + np.eye(70)[3]
    lead = judge_rows(shifted, tester)[0].evidence[0].subject
    assert (lead.variables, lead.sketched) == ((3,), False)
    # squared length of rows doubled or halved at random along the first direction: degree 4 only
    along = rows @ tester.directions[0]
    heavy = along * np.where(rng.random(20_000) < 0.2, 2.0, np.sqrt(0.25))
    bent = rows + np.outer(heavy - along, tester.directions[0])
    largest = judge_rows(bent, tester)[0]
    assert largest.outcome is Outcome.REJECTED
    worst = max(largest.evidence, key=lambda one: one.deviation)
    assert worst.subject == Moment((0, 0, 0, 0), sketched=True)


@pytest.mark.parametrize(("delta", "n_rows"), [(0.25, 8_000), (0.02, 80_000)])
def test_moment_tester__gaussian_rows_near_a_plane_with_a_threshold_are_not_rejected(delta: float, n_rows: int) -> None:
    # rejected with probability at most 5% each: 6 or more of 30 has probability 0.003
    rejected = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        frame = Frame(Plane(Plane(rng.standard_normal(3)).unit().normal, 1.5), delta)
        X = rng.standard_normal((n_rows, 3), dtype=np.float32)
        along = frame.coordinates(X)
        near = rng.random(n_rows) < frame.acceptance(along)
        test_results = judge_rows(frame.to_frame(X[near], along[near]), make_tester(3, tau=0.05))
        rejected += overall_outcome(test_results) is Outcome.REJECTED
    assert rejected <= 5
