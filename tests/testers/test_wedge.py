from __future__ import annotations

import math

import numpy as np
import pytest

from streamhalf.data.block import Block, RowRange
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.records import Judgement, Outcome, Stage, WedgeShare
from streamhalf.reductions import Sampled, WedgeSums
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.wedge import WEDGE_LIMIT, WedgeTester, gaussian_beta
from tests.testers.contexts import make_context


def make_tester(dim: int, *, eps: float = 0.05, tau: float = 0.01, **more) -> WedgeTester:
    candidates = more.pop("candidates", (Plane(np.eye(dim)[0]),))
    return WedgeTester(dim=dim, eps=eps, tau=tau, candidates=candidates, **more)


def measure(tester: WedgeTester, X: np.ndarray):
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    needs = tester.needs()
    return needs.finalize(needs.map(block))


def judge(tester: WedgeTester, X: np.ndarray) -> tuple[Judgement, ...]:
    return tester.judge(measure(tester, X), n_seen=len(X))


def test_etas__double_below_one_half() -> None:
    assert make_tester(2, eps=0.06).etas == (0.06, 0.12, 0.24, 0.48)
    assert make_tester(2, eps=0.25).etas == (0.25,)


@pytest.mark.parametrize("eta", [0.001, 0.05, 0.45])
def test_gaussian_beta__is_what_many_rows_give(eta: float) -> None:
    # 1 / (1 + t²) has a standard deviation of at most sqrt(eta): 5 of them are 5 sqrt(eta / n)
    n, gamma = 4_000_000, math.tan(2 * math.asin(eta / 2))
    t = np.random.default_rng(1).standard_normal(n) / gamma
    found = np.mean(1 / (1 + t**2))
    assert gaussian_beta(eta) == pytest.approx(found, abs=5 * math.sqrt(eta / n))
    assert gaussian_beta(eta) < 1.26 * eta


@pytest.mark.parametrize("near", [3, 30, 300])
@pytest.mark.parametrize("dim", [1, 2, 10, 40])
def test_quantile__holds_under_the_null_at_every_scale(dim: int, near: int) -> None:
    # at tau = 5% exceeded with probability at most 5% each, at most 60 trials: 10 or more have
    # probability 0.0005
    for eps in (0.02, 0.2):
        tester = make_tester(dim, eps=eps, tau=0.05, n_rows=round(near / eps))
        draws = np.random.default_rng([dim, near])
        exceeded = np.zeros(len(tester.etas))
        for _ in range(60):
            result = measure(tester, draws.standard_normal((tester.n_rows, dim)))
            exceeded += [
                one.betas()[0] / one.eta > tester.quantile(one.n_rows, one.eta) for one in result
            ]
        assert exceeded.max() <= 9


@pytest.mark.parametrize("dim", [1, 4, 30, 100])
@pytest.mark.parametrize("eps", [0.001, 0.02, 0.25])
def test_rows_needed__are_few(dim: int, eps: float) -> None:
    tester = make_tester(dim, eps=eps, tau=1e-5)
    rows = tester.rows_needed()
    finest = [tester.quantile(n, eps) for n in (rows, rows - 1)]
    assert finest[0] <= WEDGE_LIMIT < finest[1]
    assert all(tester.quantile(rows, eta) <= WEDGE_LIMIT for eta in tester.etas)
    assert rows <= (100 + 10 * dim) / eps


@pytest.mark.parametrize("dim", [1, 3, 12])
def test_wedge__gaussian_rows_as_planned_pass(dim: int) -> None:
    # fails with probability at most tau = 1% each: 3 or more of 40 has probability 0.008
    tester = make_tester(dim)
    failed = 0
    for seed in range(40):
        rng = np.random.default_rng([dim, seed])
        plane = Plane(rng.standard_normal(dim)).unit()
        tester = make_tester(dim, candidates=(plane,), n_rows=tester.rows_needed())
        (one,) = judge(tester, rng.standard_normal((tester.n_rows, dim)))
        failed += one.outcome is not Outcome.PASSED
    assert failed <= 2


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


def test_betas__are_those_at_eps() -> None:
    X = np.random.default_rng(6).standard_normal((30_000, 3))
    axes = tuple(Plane(axis) for axis in np.eye(3))
    tester = make_tester(3, candidates=axes)
    alone = WedgeSums(axes, 0.05)
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    expected = alone.finalize(alone.map(block)).betas()
    assert tester.betas(measure(tester, X)) == pytest.approx(expected.tolist(), rel=1e-12)


def test_needs__single_rows_of_many_and_fewer_at_coarse_scales() -> None:
    few = make_tester(5, n_rows=600).needs()
    assert all(isinstance(one, WedgeSums) for one in few.members)
    tester = make_tester(5, n_rows=10**6, seed=9)
    for one, eta in zip(tester.needs().members, tester.etas, strict=True):
        assert isinstance(one, Sampled)
        assert (one.low, one.seed, one.stream) == (0.0, 9, Stream.WEDGE_SAMPLE)
        assert one.high == pytest.approx(2 * 150 / eta / 10**6)


def test_of__takes_eps_and_not_the_width_of_slabs() -> None:
    context = make_context(Stage.FINAL, slab_eps=0.25, eps=0.01)
    tester = WedgeTester.of(context)
    assert (tester.eps, tester.n_rows, tester.seed) == (0.01, 20_000, 3)
    assert tester.tau == pytest.approx(context.tau / 3 / 4)
    assert tester.candidates == context.candidates
