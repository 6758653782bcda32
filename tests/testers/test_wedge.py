from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erfcx

from streamhalf.data.block import Block, RowRange
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions import Viewed, WedgeSums
from streamhalf.results import Outcome, TestResult, WedgeShare
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.base import MOST_ROWS
from streamhalf.testers.wedge import (
    ANY_WEDGE_LIMIT,
    WEDGE_LIMIT,
    WedgeTester,
    coarsest_eta,
    gaussian_beta,
    gaussian_ratio,
)


def make_tester(dim: int, *, eps: float = 0.05, tau: float = 0.01, **more) -> WedgeTester:
    candidates = more.pop("candidates", (Plane(np.eye(dim)[0]),))
    return WedgeTester(dim=dim, eps=eps, tau=tau, candidates=candidates, **more)


def measure(tester: WedgeTester, X: np.ndarray):
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    needs = tester.needs()
    return needs.finalize(needs.map(block))


def judge(tester: WedgeTester, X: np.ndarray) -> tuple[TestResult, ...]:
    return tester.judge(measure(tester, X), n_seen=len(X))


def test_wedge__few_gaussian_rows_are_never_rejected() -> None:
    # rejected with probability at most 1% each: 5 or more of 100 has probability 0.003
    outcomes = []
    for seed in range(100):
        X = np.random.default_rng(seed).standard_normal(((1, 5, 40, 300)[seed % 4], 8))
        outcomes += [one.outcome for one in judge(make_tester(8, eps=0.01), X)]
    assert outcomes.count(Outcome.REJECTED) <= 4
    assert Outcome.INCONCLUSIVE in outcomes


def test_wedge__no_rows_tell_nothing() -> None:
    (one,) = judge(make_tester(3), np.empty((0, 3)))
    assert one.outcome is Outcome.INCONCLUSIVE
    assert one.rows_needed == make_tester(3).rows_needed()


def draw(marginal: str, n_rows: int = 60_000) -> tuple[np.ndarray, Plane]:
    spec = SyntheticSpec(rows=n_rows, dim=4, marginal=marginal, noise="none", seed=1)
    planted = plant(spec)
    return generate(spec, planted, RowRange(0, n_rows)).X, Plane(planted.v)


def test_wedge__a_spike_at_the_boundary_is_rejected() -> None:
    # a share 0.1 of the rows lies within 0.005 of the boundary
    X, plane = draw("spike")
    (one,) = judge(make_tester(4, eps=0.02, candidates=(plane,), first=3), X)
    assert one.outcome is Outcome.REJECTED
    assert one.statistic > 0.1 / 0.02
    assert (one.candidate, one.scale, one.limit) == (3, 0.02, WEDGE_LIMIT)
    (evidence,) = one.evidence
    assert evidence.subject == WedgeShare(0.02)
    assert evidence.observed == pytest.approx(one.statistic * 0.02)
    assert evidence.expected == pytest.approx(0.025, abs=0.001)


def test_wedge__rows_that_are_spread_out_beside_the_boundary_are_rejected() -> None:
    # the margins are Gaussian; near the boundary the rows reach five times as far beside it
    X = np.random.default_rng(5).standard_normal((60_000, 3))
    X[np.abs(X[:, 0]) < 0.2, 1] *= 5
    axes = tuple(Plane(axis) for axis in np.eye(3)[:2])
    found = judge(make_tester(3, candidates=axes), X)
    assert [one.outcome for one in found] == [Outcome.REJECTED, Outcome.PASSED]
    assert [one.candidate for one in found] == [0, 1]


def test_wedge__a_coarse_scale_rejects_where_the_finest_cannot_tell() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2_000, 3))
    X[:, 1] *= 3
    tester = make_tester(3, eps=0.001)
    (one,) = judge(tester, X)
    assert one.outcome is Outcome.REJECTED
    assert one.evidence[0].subject.eta > 0.001
    finest = tester.betas(measure(tester, X))[0] / 0.001
    assert finest < tester.quantile(len(X), 0.001)


def test_needs__single_rows_of_many_and_fewer_at_coarse_scales() -> None:
    few = make_tester(5, n_rows=600).needs()
    assert all(isinstance(one, WedgeSums) for one in few.members)
    tester = make_tester(5, n_rows=10**6, seed=9)
    for one, eta in zip(tester.needs().members, tester.etas, strict=True):
        assert isinstance(one, Viewed)
        sample = one.view.sample
        assert (sample.low, sample.seed, sample.stream) == (0.0, 9, Stream.WEDGE_SAMPLE)
        assert sample.high == pytest.approx(2 * 150 / eta / 10**6)


KINDS = pytest.mark.parametrize("any_threshold", [False, True])


def about(dim: int, threshold: float, *, any_threshold: bool, **more) -> WedgeTester:
    """A tester that knows the threshold of its candidate."""
    candidates = (Plane(np.eye(dim)[0], threshold),)
    return make_tester(dim, candidates=candidates, threshold=abs(threshold), any_threshold=any_threshold, **more)


@given(eta=st.floats(1e-4, 0.49))
def test_gaussian_beta__about_0_is_the_known_closed_form(eta: float) -> None:
    gamma = math.tan(2 * math.asin(eta / 2))
    known = gamma * math.sqrt(math.pi / 2) * float(erfcx(gamma / math.sqrt(2)))
    assert gaussian_beta(eta) == known


@given(eta=st.floats(1e-4, 0.49), threshold=st.floats(-12, 12))
def test_gaussian_beta__integral_and_closed_form_meet(eta: float, threshold: float) -> None:
    # at most twice the density of 1e-13 comes on top, far less than the least that is integrated
    integral = gaussian_beta(eta, threshold, 1e-18)
    assert integral == pytest.approx(gaussian_beta(eta, threshold), rel=1e-10)
    assert gaussian_beta(eta, -threshold, 0.1) == gaussian_beta(eta, threshold, 0.1)


@pytest.mark.parametrize(("eta", "kappa"), [(0.02, 0.02), (0.1, 0.1), (0.4, 0.4), (0.1, 0.3)])
@pytest.mark.parametrize("threshold", [0.0, 1.0, -1.9, 4.0])
def test_gaussian_beta__with_kappa_is_what_many_rows_give(eta: float, kappa: float, threshold: float) -> None:
    # the mean of numbers in [0, 1] varies by at most sqrt(mean / n): 5 of these
    n, gamma = 1_000_000, math.tan(2 * math.asin(eta / 2))
    margin = np.abs(np.random.default_rng(1).standard_normal(n) - threshold)
    found = np.mean(1 / (1 + (np.maximum(0, margin - kappa) / gamma) ** 2))
    expected = gaussian_beta(eta, threshold, kappa)
    assert expected == pytest.approx(found, abs=5 * math.sqrt(expected / n))


@KINDS
def test_coarsest_eta__shrinks_with_the_threshold(any_threshold: bool) -> None:
    found = [coarsest_eta(t, any_threshold) for t in (0.0, 1.5, 1.9, 2.2, 3.0, 4.0, 10.0)]
    assert found[:2] == [0.5, 0.5]
    assert (np.diff(found[1:]) < 0).all()
    assert 0.15 < found[2] < 0.36
    limit = ANY_WEDGE_LIMIT if any_threshold else WEDGE_LIMIT
    for threshold, eta in ((1.9, found[2]), (4.0, found[5])):
        ratio = gaussian_ratio(eta, threshold, any_threshold)
        assert ratio == pytest.approx(0.7 * limit, rel=2e-3)


@KINDS
@pytest.mark.parametrize("threshold", [0.0, 1.0, -1.9, 2.2])
@pytest.mark.parametrize(("dim", "near"), [(1, 3), (2, 30), (10, 1), (10, 100), (40, 10)])
def test_quantile__holds_under_the_null_about_thresholds(
    dim: int, near: int, threshold: float, any_threshold: bool
) -> None:
    # at tau = 5% exceeded with probability at most 5% each, 40 trials: 8 or more have probability
    # 0.0007; all of them are far below that
    eps = 0.2
    n_rows = round(near * math.exp(threshold**2 / 2) / eps)
    tester = about(dim, threshold, any_threshold=any_threshold, eps=eps, tau=0.05, n_rows=n_rows)
    draws = np.random.default_rng([dim, near])
    exceeded = np.zeros(len(tester.etas))
    for _ in range(40):
        result = measure(tester, draws.standard_normal((n_rows, dim)))
        exceeded += [
            one.betas[0] / (one.eta * math.exp(-(threshold**2) / 2)) > tester.quantile(one.n_rows, one.eta, threshold)
            for one in result
        ]
    assert exceeded.max() <= 7


@KINDS
@pytest.mark.parametrize("threshold", [0.0, 1.0, -1.9, 2.2])
@pytest.mark.parametrize("dim", [1, 12])
def test_wedge__gaussian_rows_as_planned_pass_about_thresholds(dim: int, threshold: float, any_threshold: bool) -> None:
    # fails with probability at most tau = 1% each: 3 or more of 20 has probability 0.001
    failed = 0
    for seed in range(20):
        rng = np.random.default_rng([dim, seed])
        tester = about(dim, threshold, any_threshold=any_threshold)
        tester = about(dim, threshold, any_threshold=any_threshold, n_rows=tester.rows_needed(), seed=seed)
        (one,) = judge(tester, rng.standard_normal((tester.n_rows, dim)))
        failed += one.outcome is not Outcome.PASSED
    assert failed <= 2


@KINDS
@pytest.mark.parametrize("dim", [1, 10, 100])
def test_rows_needed__grow_like_the_thinning_at_small_scales(dim: int, any_threshold: bool) -> None:
    def rows(eps: float, threshold: float) -> int:
        return about(dim, threshold, any_threshold=any_threshold, eps=eps).rows_needed()

    for threshold in (1.0, 1.5, 1.9, 2.2):
        grown = rows(0.005, threshold) / rows(0.005, 0.0)
        assert grown == pytest.approx(math.exp(threshold**2 / 2), rel=0.1)
        # finer scales take more, but for a few per cent where they come near the coarsest
        needed = np.array([rows(eps, threshold) for eps in (0.01, 0.05, 0.1, 0.15, 0.2, 0.25)])
        assert (needed[1:] <= 1.05 * needed[:-1]).all()


def test_wedge__scales_too_coarse_for_a_threshold_are_left_out() -> None:
    # at t = 2.2 even true N(0, I) has a ratio of 4.2 at eta = 0.4, and passes all the same
    X = np.random.default_rng(2).standard_normal((200_000, 3))
    tester = about(3, 2.2, any_threshold=True, n_rows=200_000)
    assert gaussian_ratio(0.4, 2.2, True) > ANY_WEDGE_LIMIT
    assert tester.etas == (0.05, 0.1, 0.2, 0.4)
    (one,) = judge(tester, X)
    assert one.outcome is Outcome.PASSED
    assert one.evidence[0].subject.eta < coarsest_eta(2.2, True)
    assert one.limit == ANY_WEDGE_LIMIT


def test_wedge__a_cluster_at_a_plane_with_a_threshold_is_rejected() -> None:
    # 1 row in 100 lies within 0.01 of the plane, at a distance of 0.03 from a second one
    X = np.random.default_rng(3).standard_normal((100_000, 3))
    X[:1_000, 0] = 1.9 + 0.01 * X[:1_000, 0]
    planes = (Plane(np.eye(3)[0], 1.9), Plane(np.eye(3)[0], 1.87), Plane(np.eye(3)[1], 1.9))
    outcomes = {}
    for any_threshold in (False, True):
        tester = make_tester(3, eps=0.04, candidates=planes, n_rows=100_000, threshold=1.9, any_threshold=any_threshold)
        found = judge(tester, X)
        assert [one.candidate for one in found] == [0, 1, 2]
        outcomes[any_threshold] = [one.outcome for one in found]
    bad, good = Outcome.REJECTED, Outcome.PASSED
    # a plane that moves by 0.04 passes over the cluster; 0.01 of 0.04 exp(-1.8) is 1.5 more
    assert outcomes == {False: [bad, good, good], True: [bad, bad, good]}


def test_sample_rows__grow_with_the_thresholds_that_have_enough() -> None:
    def rows(n_rows: int, *thresholds: float) -> int:
        planes = tuple(Plane(np.eye(5)[0], t) for t in thresholds)
        return make_tester(5, n_rows=n_rows, candidates=planes).sample_rows(0.05)

    assert rows(10**6, 0.0) == 6_000
    assert rows(10**6, 0.0, -1.9) == math.ceil(6_000 * math.exp(1.9**2 / 2))
    assert rows(10**6, 0.0, -1.9, 5.0) == rows(10**6, -1.9)
    assert rows(20_000, -1.9) == 20_000


@KINDS
@pytest.mark.parametrize("threshold", [4.5, -30.0, 1e9])
def test_wedge__far_out_it_cannot_tell(threshold: float, any_threshold: bool) -> None:
    # rejected with probability at most 1% each
    tester = about(3, threshold, any_threshold=any_threshold, eps=0.1, n_rows=2_000)
    (one,) = judge(tester, np.random.default_rng(1).standard_normal((2_000, 3)))
    assert one.outcome is Outcome.INCONCLUSIVE
    assert tester.n_rows < one.rows_needed == tester.rows_needed() <= MOST_ROWS
    assert np.isfinite([one.statistic, one.null_quantile]).all()
