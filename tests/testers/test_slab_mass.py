from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr

from streamhalf.data.block import Block, RowRange
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.slabs import assign_slabs, count_slabs, masses_about
from streamhalf.reductions.base import Counts
from streamhalf.results import Outcome, Role, SlabShare, TestResult, overall_outcome
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.base import MOST_ROWS
from streamhalf.testers.slabs import (
    SlabMassTester,
    count_scales,
    deviation_bound,
    finest_half_count,
    merge_slabs,
    slab_half_count,
)

ROWS = 10**6  # of the data set: only what is needed goes by it


def draw_counts(eps: float, n_rows: int, rng: np.random.Generator, size: int) -> np.ndarray:
    """Histograms of true N(0, 1) margins over the finest slabs."""
    return rng.multinomial(n_rows, masses_about(eps, finest_half_count(eps), 0.0), size=size)


def judge(tester: SlabMassTester, *counts: np.ndarray) -> tuple[TestResult, ...]:
    """The test_results about candidates with these histograms."""
    result = Counts(int(counts[0].sum()), np.array(counts))
    return tester.judge(result, n_seen=result.n_rows)


def count_margins(margins: np.ndarray, eps: float) -> np.ndarray:
    return count_slabs_by(margins, eps, finest_half_count(eps))


def count_slabs_by(margins: np.ndarray, width: float, half_count: int) -> np.ndarray:
    edges = width * np.arange(-half_count, half_count + 1)
    return count_slabs(assign_slabs(margins, edges), 2 * half_count + 2)


@given(eta=st.floats(1e-4, 0.5))
def test_slab_half_count__leaves_mass_at_most_eta_beyond(eta: float) -> None:
    # the printed radius sqrt(log(1/eta)) leaves 8.6 eta at eta = 0.001
    reach = slab_half_count(eta) * eta
    assert 2 * ndtr(-reach) <= eta
    assert reach - eta < math.sqrt(2 * math.log(1 / eta)) <= reach * (1 + 1e-12)


@given(eps=st.floats(0.002, 0.25))
def test_finest_half_count__covers_every_scale_below_one_half(eps: float) -> None:
    scales = range(1, count_scales(eps) + 1)
    assert scales[-1] * eps < 0.5 <= (scales[-1] + 1) * eps * (1 + 1e-12)
    reaches = [j * slab_half_count(j * eps) for j in scales]
    assert finest_half_count(eps) == max(reaches)


@given(
    j=st.integers(1, 7),
    quarters=st.lists(st.integers(-600, 600), max_size=60),
    half_count=st.integers(1, 12),
    spare=st.integers(0, 9),
)
def test_merge_slabs__equals_the_histogram_at_the_coarser_scale(
    j: int, quarters: list[int], half_count: int, spare: int
) -> None:
    # multiples of eps / 4 with eps a power of two: no rounding blurs which slab a margin is in
    eps = 1 / 16
    margins = np.array(quarters, dtype=np.float64) * eps / 4
    finest = j * half_count + spare
    fine = count_slabs_by(margins, eps, finest)
    coarse = count_slabs_by(margins, j * eps, half_count)
    np.testing.assert_array_equal(merge_slabs(fine, j, half_count), coarse)


@pytest.mark.parametrize(("eps", "n_rows"), [(0.05, 300), (0.05, 30_000), (0.2, 2_000)])
def test_quantile__holds_under_the_null_at_every_scale(eps: float, n_rows: int) -> None:
    # exceeded with probability at most 5% at each scale: more than 142 of 2000 has probability 2e-5
    tester = SlabMassTester(eps=eps, tau=0.05 * count_scales(eps))
    counts = draw_counts(eps, n_rows, np.random.default_rng(5), 2000)
    for j in range(1, count_scales(eps) + 1):
        half_count = slab_half_count(j * eps)
        masses = masses_about(j * eps, half_count, 0.0)
        merged = np.array([merge_slabs(drawn, j, half_count) for drawn in counts])
        distances = np.abs(merged / n_rows - masses).sum(axis=1)
        assert np.count_nonzero(distances > tester.quantile(n_rows, j * eps)) <= 142


def test_slab_mass__few_gaussian_rows_are_never_rejected() -> None:
    # rejected with probability at most 1% each: 5 or more of 150 has probability 0.02
    rng = np.random.default_rng(8)
    tester = SlabMassTester(eps=0.04, tau=0.01)
    outcomes = [overall_outcome(judge(tester, draw_counts(0.04, n_rows, rng, 1)[0])) for n_rows in (1, 10, 200) * 50]
    assert outcomes.count(Outcome.REJECTED) <= 4
    assert outcomes.count(Outcome.INCONCLUSIVE) >= 140


def test_slab_mass__inconclusive_names_the_rows_that_settle_it() -> None:
    tester = SlabMassTester(eps=0.1, tau=0.01)
    rng = np.random.default_rng(9)
    (test_result,) = judge(tester, draw_counts(0.1, 500, rng, 1)[0])
    assert test_result.outcome is Outcome.INCONCLUSIVE
    assert test_result.limit < test_result.statistic <= test_result.null_quantile
    assert test_result.rows_needed == tester.rows_needed()
    (settled,) = judge(tester, draw_counts(0.1, test_result.rows_needed, rng, 1)[0])
    assert settled.outcome is Outcome.PASSED
    assert settled.rows_needed is None


def judge_marginal(marginal: str, eps: float, n_rows: int = 60_000) -> tuple[TestResult, ...]:
    """Slab masses along the planted direction."""
    spec = SyntheticSpec(rows=n_rows, dim=4, marginal=marginal, noise="none", seed=1)
    planted = plant(spec)
    rows = generate(spec, planted, RowRange(0, n_rows))
    tester = SlabMassTester(eps=eps, tau=0.01, candidates=(Plane(planted.v),), first=3)
    result = tester.needs().map(Block(rows.X, rows.y, np.arange(n_rows)))
    return tester.judge(result, n_seen=n_rows)


def test_slab_mass__spike_is_named_by_its_slab() -> None:
    # a share 0.1 of the rows lies within 0.005 of the boundary, half of it on each side
    (test_result,) = judge_marginal("spike", 0.1)
    assert test_result.outcome is Outcome.REJECTED
    assert {item.subject for item in test_result.evidence[:2]} == {SlabShare(0.0, 0.1), SlabShare(-0.1, 0.0)}
    for item in test_result.evidence[:2]:
        assert item.expected == pytest.approx(0.0398, abs=1e-4)
        assert item.observed > item.expected + 0.03
        assert item.deviation == pytest.approx(item.observed - item.expected)
        assert item.limit == test_result.limit == 0.1
    assert (test_result.scale, test_result.candidate) == (0.1, 3)


def test_slab_mass__a_coarse_scale_rejects_where_the_finest_cannot_tell() -> None:
    # 50 rows, all on one side: chance alone puts 50 rows into 50 of 280 thin slabs
    margins = np.abs(np.random.default_rng(2).standard_normal(50))
    tester = SlabMassTester(eps=0.02, tau=0.01)
    finest, coarser = judge(tester, count_margins(margins, 0.02))
    assert finest.outcome is Outcome.INCONCLUSIVE
    assert coarser.outcome is Outcome.REJECTED
    assert coarser.limit > finest.limit == 0.02


def test_slab_mass__every_candidate_is_judged_under_its_number() -> None:
    rng = np.random.default_rng(3)
    tester = SlabMassTester(eps=0.1, tau=0.01, first=5)
    good = draw_counts(0.1, 8_000, rng, 2)
    bad = count_margins(0.5 * rng.standard_normal(8_000), 0.1)
    found = judge(tester, good[0], bad, good[1])
    assert [(one.candidate, one.outcome) for one in found] == [
        (5, Outcome.PASSED),
        (6, Outcome.REJECTED),
        (7, Outcome.PASSED),
    ]


MEANS = (0.01, 0.3, 0.5, 0.999, 1.0, 1.5, 2.0, 2.5, 7.5, 40.0, 1000.5)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 10, 33, 100, 1001, 10**4, 10**7])
def test_deviation_bound__is_above_the_exact_binomial(n_rows: int) -> None:
    # de Moivre: the mean absolute deviation is 2 k (1 - p) P[B = k] with k = floor(n p) + 1
    at_means = np.array(MEANS) / n_rows
    p = np.concatenate([np.geomspace(1e-9, 0.5, 400), at_means[at_means <= 0.5]])
    k = np.floor(n_rows * p) + 1
    exact = 2 * k * (1 - p) * stats.binom.pmf(k, n_rows, p)
    bound = deviation_bound(n_rows, p)
    assert (exact <= bound * (1 + 1e-9)).all()
    # and not far above it: the normal law's where counts are large, 2 n p where they are small
    large = n_rows * p * (1 - p) >= 1
    assert (bound[large] <= 1.2 * exact[large]).all()
    assert (bound <= 2 * n_rows * p).all()


def about(at: float, *, eps: float, tau: float = 0.01, knows: bool = True) -> SlabMassTester:
    """A tester of a plane with a threshold, which it knows when slabs are planned, or not."""
    return SlabMassTester(eps=eps, tau=tau, candidates=(Plane(np.eye(2)[0], at),), threshold=abs(at) if knows else 0.0)


def draw_about(tester: SlabMassTester, n_rows: int, rng: np.random.Generator, size: int):
    """Histograms of true N(0, 1) margins about the tester's candidate."""
    half_count, (plane,) = tester.needs().half_count, tester.candidates
    masses = masses_about(tester.eps, half_count, plane.threshold)
    return rng.multinomial(n_rows, masses / masses.sum(), size=size)


@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("threshold", [1.0, -1.9, 2.2])
@pytest.mark.parametrize(("eps", "n_rows"), [(0.1, 300), (0.1, 30_000), (0.25, 2_000)])
def test_quantile__holds_under_the_null_about_thresholds(
    eps: float, n_rows: int, threshold: float, knows: bool
) -> None:
    # exceeded with probability at most 1% at each scale: more than 38 of 2000 has probability 1e-4;
    # also where the slabs that were planned do not reach the bulk of the rows
    tester = about(threshold, eps=eps, tau=0.01 * count_scales(eps), knows=knows)
    counts = draw_about(tester, n_rows, np.random.default_rng(5), 2000)
    for j in range(1, count_scales(eps) + 1):
        half_count = tester.half_count(j * eps, threshold)
        masses = masses_about(j * eps, half_count, threshold)
        merged = np.array([merge_slabs(drawn, j, half_count) for drawn in counts])
        distances = np.abs(merged / n_rows - masses).sum(axis=1)
        quantile = tester.quantile(n_rows, j * eps, threshold)
        assert np.count_nonzero(distances > quantile) <= 38


@pytest.mark.parametrize(
    ("eps", "threshold"), [(0.02, 0.0), (0.077, 0.0), (0.25, 0.0), (0.1, 0.5), (0.1, -1.5), (0.1, 1.9)]
)
def test_slab_mass__gaussian_at_the_planned_rows_passes(eps: float, threshold: float) -> None:
    # fails with probability at most tau = 1% each: 5 or more of 100 has probability 0.003
    tester = about(threshold, eps=eps)
    rows, limit = tester.rows_needed(), eps * math.exp(-(threshold**2) / 2)
    assert tester.quantile(rows, eps, threshold) <= limit < tester.quantile(rows - 1, eps, threshold)
    assert rows >= math.exp(threshold**2) * about(0.0, eps=eps).rows_needed()
    found = [judge(tester, counts) for counts in draw_about(tester, rows, np.random.default_rng(7), 100)]
    assert sum(overall_outcome(one) is not Outcome.PASSED for one in found) <= 4
    assert all(one[0].role is Role.REQUIRED and one[0].scale == eps for one in found)
    assert found[0][0].limit == pytest.approx(limit)


def test_slab_mass__about_a_threshold_the_finest_scale_that_rows_allow_counts() -> None:
    # rejected with probability at most 1%
    tester = about(1.5, eps=0.02)
    rows = 200_000
    (one,) = judge(tester, draw_about(tester, rows, np.random.default_rng(1), 1)[0])
    assert (one.outcome, one.role) == (Outcome.PASSED, Role.REQUIRED)
    j = round(one.scale / 0.02)
    assert j > 1
    at_scales = [tester.quantile(rows, i * 0.02, 1.5) <= i * one.limit / j for i in (j - 1, j)]
    assert at_scales == [False, True]


@pytest.mark.parametrize("threshold", [1.9, -3.0, 7.0, 1e3])
def test_slab_mass__doubts_about_a_threshold_that_no_scale_settles_do_not_count(threshold: float) -> None:
    # rejected with probability at most 1% each
    tester = about(threshold, eps=0.05)
    drawn = draw_about(tester, 500, np.random.default_rng(2), 1)[0]
    (one,) = judge(tester, drawn)
    assert one.role is Role.EXTRA
    assert one.outcome is Outcome.PASSED or not one.has_say
    if one.outcome is Outcome.INCONCLUSIVE:
        assert 500 < one.rows_needed <= MOST_ROWS
    # a rejection counts all the same
    wrong = np.zeros_like(drawn)
    wrong[len(wrong) // 2] = 500
    (rejected,) = judge(tester, wrong)
    assert rejected.outcome is Outcome.REJECTED
    assert rejected.has_say


def test_slab_mass__a_hole_at_a_plane_with_a_threshold_is_named() -> None:
    X = np.random.default_rng(4).standard_normal((200_000, 2))
    X = X[np.abs(X[:, 0] - 1.2) > 0.1]
    tester = about(1.2, eps=0.1)
    result = tester.needs().map(Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X))))
    (one,) = tester.judge(result, n_seen=len(X))
    assert one.outcome is Outcome.REJECTED
    assert {item.subject for item in one.evidence[:2]} == {SlabShare(-0.1, 0.0), SlabShare(0.0, 0.1)}
