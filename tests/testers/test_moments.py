from __future__ import annotations

import math

import numpy as np
import pytest

from streamhalf.data.block import Block, RowRange
from streamhalf.records import Outcome, overall_outcome
from streamhalf.reductions import Moments
from streamhalf.synthetic.marginals import Marginal
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.base import judge, rows_until
from streamhalf.testers.moments import MomentTester, quadratics_quantile


def make_tester(**changes) -> MomentTester:
    values = {"degree": 4, "moment_tolerance": 0.1, "spectral_tolerance": 0.3, "tau": 0.01}
    return MomentTester(**(values | changes))


def judge_rows(X: np.ndarray, tester: MomentTester | None = None):
    tester = tester or make_tester()
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    needs = tester.needs()
    return tester.judge(needs.finalize(needs.map(block)))


def draw(marginal: str, rows: int, dim: int, seed: int = 0) -> np.ndarray:
    spec = SyntheticSpec(rows=rows, dim=dim, marginal=marginal, noise="none", seed=seed)
    return generate(spec, plant(spec), RowRange(0, rows)).X


@pytest.mark.parametrize(
    ("statistic", "quantile", "outcome"),
    [
        (0.05, 0.01, Outcome.PASSED),
        (0.05, 0.5, Outcome.PASSED),
        (0.2, 0.5, Outcome.INCONCLUSIVE),
        (0.2, 0.15, Outcome.REJECTED),
        (0.6, 0.5, Outcome.REJECTED),
        (math.nan, 0.5, Outcome.REJECTED),
    ],
)
def test_judge__has_three_outcomes(statistic: float, quantile: float, outcome: Outcome) -> None:
    assert judge(statistic, limit=0.1, null_quantile=quantile) is outcome


def test_rows_until__is_the_smallest_number() -> None:
    assert rows_until(lambda n: 1 / math.sqrt(n), 0.1) == 100
    assert rows_until(lambda n: 0.0, 0.1) == 1


def test_moment_tester__gaussian_at_planned_size_passes() -> None:
    # at most tau = 1% of true Gaussian data sets may fail: 2 of 200 (the union bounds make it far
    # fewer; binomial probability of 3 or more at the full rate 1%: 0.32)
    failed = 0
    for seed in range(200):
        dim = (2, 5, 10, 20)[seed % 4]
        rows = make_tester().rows_needed(dim)
        judgements = judge_rows(draw("gaussian", rows, dim, seed))
        failed += overall_outcome(judgements) is not Outcome.PASSED
    assert failed <= 2


def test_moment_tester__few_gaussian_rows_are_never_rejected() -> None:
    # rejected with probability at most 1% each: 4 or more of 120 has probability 0.03 at most
    rejected = 0
    for seed in range(120):
        dim, rows = ((1, 30), (3, 60), (8, 100), (8, 700))[seed % 4]
        judgements = judge_rows(draw("gaussian", rows, dim, 1000 + seed))
        rejected += overall_outcome(judgements) is Outcome.REJECTED
    assert rejected <= 3


@pytest.mark.parametrize("dim", [2, 5, 10])
def test_quadratics_quantile__holds_under_the_null(dim: int) -> None:
    # exceeded with probability at most 5% each: 9 or more of 60 has probability 0.003
    tau = 0.05
    rows = rows_until(lambda n: quadratics_quantile(n, dim, tau), 0.3)
    exceeded = 0
    rng = np.random.default_rng(11)
    for _ in range(60):
        X = rng.standard_normal((rows, dim))
        block = Block(X, np.ones(rows, dtype=np.int8), np.arange(rows))
        gram = Moments(4).finalize(Moments(4).map(block)).hermite_gram()
        norm = np.abs(np.linalg.eigvalsh(gram - np.eye(len(gram)))).max()
        exceeded += norm > quadratics_quantile(rows, dim, tau)
    assert exceeded <= 8


EVIDENCE = {
    "student-t": "x{i}^4",
    "laplace": "x{i}^4",
    "uniform": "x{i}^4",
    "rademacher": "x{i}^4",
    "correlated": "x{i}·x{j}",
    "shifted": "x{i}",
    "low-rank": "x{i}",
}


@pytest.mark.parametrize("marginal", sorted(EVIDENCE))
def test_moment_tester__names_the_moment_that_is_wrong(marginal: str) -> None:
    dim = 6
    judgements = judge_rows(draw(marginal, 60_000, dim))
    assert overall_outcome(judgements) is Outcome.REJECTED
    names = {
        EVIDENCE[marginal].format(i=i + 1, j=j + 1) for i in range(dim) for j in range(i + 1, dim)
    } | {EVIDENCE[marginal].format(i=i + 1, j=i + 1) for i in range(dim)}
    if marginal == "low-rank":  # unit variances or not, the covariance is off
        names = {f"x{i}·x{j}" for i in range(1, 7) for j in range(i + 1, 7)} | {
            f"x{i}^2" for i in range(1, 7)
        }
    lead = judgements[0].evidence[0]
    assert lead.name in names
    assert lead.deviation > lead.limit
    assert lead.observed != pytest.approx(lead.expected, abs=0.05)


@pytest.mark.parametrize("marginal", ["mixture"])
def test_moment_tester__mixture_is_caught_by_some_statistic(marginal: str) -> None:
    judgements = judge_rows(draw(marginal, 200_000, 8))
    assert overall_outcome(judgements) is Outcome.REJECTED


@pytest.mark.parametrize("marginal", ["gauss-hermite", "hole", "spike"])
def test_moment_tester__laws_with_gaussian_moments_pass(marginal: str) -> None:
    # these match all moments to degree 5 on purpose: only the slab test can tell them apart
    judgements = judge_rows(draw(marginal, 100_000, 4))
    assert overall_outcome(judgements) is Outcome.PASSED


def test_moment_tester__every_marginal_is_covered_above() -> None:
    covered = {*EVIDENCE, "mixture", "gauss-hermite", "hole", "spike", "gaussian"}
    assert covered == {member.value for member in Marginal}


def test_moment_tester__worst_direction_is_found() -> None:
    rng = np.random.default_rng(3)
    direction = np.array([0.6, 0.0, 0.8])
    X = rng.standard_normal((50_000, 3))
    X += np.outer(X @ direction, direction)  # variance 4 along the direction
    second = judge_rows(X)[1]
    found = np.array(second.evidence[0].direction)
    assert abs(found @ direction) > 0.99
    assert second.evidence[0].observed == pytest.approx(4, abs=0.2)


def test_moment_tester__extra_test_says_when_it_has_no_say() -> None:
    extra = judge_rows(np.random.default_rng(0).standard_normal((3_000, 5)))[2]
    assert extra.outcome is Outcome.NOT_JUDGED
    assert "rows" in extra.remark


def test_moment_tester__inconclusive_names_the_rows_that_settle_it() -> None:
    X = np.random.default_rng(1).standard_normal((200, 5))
    largest = judge_rows(X)[0]
    assert largest.outcome is Outcome.INCONCLUSIVE
    assert largest.rows_needed == make_tester().rows_needed(5)
    enough = np.random.default_rng(1).standard_normal((largest.rows_needed, 5))
    assert judge_rows(enough)[0].outcome is Outcome.PASSED


def test_moment_tester__degree_two_has_two_tests() -> None:
    tester = make_tester(degree=2)
    judgements = judge_rows(np.random.default_rng(1).standard_normal((5_000, 5)), tester)
    assert [judgement.tester for judgement in judgements] == ["largest moment", "second moment"]


@pytest.mark.parametrize("degree", [6, 8])
def test_moment_tester__higher_degrees_pass_gaussian_rows_and_find_the_rest(degree: int) -> None:
    # 6 data sets at tau = 0.01: one or more rejections with probability below 0.06, and
    # the seeds are fixed
    tester = make_tester(degree=degree)
    n_rows = tester.rows_needed(3)
    for seed in range(6):
        rows = np.random.default_rng(seed).standard_normal((n_rows, 3))
        outcomes = {judgement.outcome for judgement in judge_rows(rows, tester)}
        assert outcomes <= {Outcome.PASSED, Outcome.NOT_JUDGED}
    # Gauss-Hermite points agree with N(0, 1) up to degree 5: only a higher degree sees them
    points = np.random.default_rng(0).choice(
        [-np.sqrt(3), 0.0, np.sqrt(3)], (n_rows, 3), p=[1 / 6, 2 / 3, 1 / 6]
    )
    assert judge_rows(points, tester)[0].outcome is Outcome.REJECTED
