from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions import SlabCovariance, Viewed
from streamhalf.reductions.candidates import SlabCovarianceResult
from streamhalf.reductions.row_view import Sample
from streamhalf.results import Outcome, SlabSecondMoment, TestResult
from streamhalf.testers.slabs import COVARIANCE_LIMIT, SlabCovarianceTester, covariance_edges, merge_outwards

EDGES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


def measure(X: np.ndarray, v: np.ndarray, edges: np.ndarray = EDGES) -> SlabCovarianceResult:
    reduction = SlabCovariance((Plane(v),), edges)
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    return reduction.finalize(reduction.map(block))


def make_tester(dim: int, *, tau: float = 0.01, n_slabs: int = 6, **more) -> SlabCovarianceTester:
    return SlabCovarianceTester(dim=dim, eps=0.1, tau=tau, n_slabs=n_slabs, **more)


def judge(X: np.ndarray) -> TestResult:
    """Evidence about the first axis."""
    dim = X.shape[1]
    (test_result,) = make_tester(dim).judge(measure(X, np.eye(dim)[0]), n_seen=len(X))
    return test_result


@pytest.mark.parametrize(("dim", "n_rows"), [(1, 50), (5, 200), (20, 400), (20, 30)])
def test_quantile__holds_under_the_null(dim: int, n_rows: int) -> None:
    # exceeded with probability at most 5% each: more than 32 of 300 has probability 2e-5
    tester = make_tester(dim, tau=0.05, n_slabs=1)
    rng = np.random.default_rng(dim)
    draws = rng.standard_normal((300, n_rows, dim))
    largest = np.linalg.eigvalsh(np.swapaxes(draws, 1, 2) @ draws / n_rows)[:, -1]
    assert np.count_nonzero(largest > tester.quantile(n_rows)) <= 32


def test_slab_covariance__names_slab_and_direction() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20_000, 3))
    inside = (X[:, 0] >= 0.5) & (X[:, 0] < 1)
    X[inside, 1] *= 2  # variance 4 along x2 in one slab; over all rows it is 1.45
    test_result = judge(X)
    assert test_result.outcome is Outcome.REJECTED
    (evidence,) = test_result.evidence
    assert isinstance(evidence.subject, SlabSecondMoment)
    assert (evidence.subject.low, evidence.subject.high) == (0.5, 1.0)
    assert abs(evidence.subject.direction[1]) > 0.99
    assert evidence.observed == test_result.statistic == pytest.approx(4, abs=0.3)
    assert (evidence.expected, evidence.limit) == (1.0, COVARIANCE_LIMIT)
    assert test_result.n_rows == np.count_nonzero(inside)


def test_slab_covariance__looks_only_orthogonally_to_the_candidate() -> None:
    X = np.random.default_rng(4).standard_normal((5_000, 2))
    X[:, 0] *= 5  # along v: the slab mass tester's business
    assert judge(X).outcome is Outcome.PASSED


def test_slab_covariance__inconclusive_names_the_rows_of_a_slab() -> None:
    X = np.array([[0.1, 1.6, 0.0]] * 10 + [[-0.1, 0.0, 0.0]] * 10)
    test_result = judge(X)
    assert test_result.outcome is Outcome.INCONCLUSIVE
    assert test_result.statistic == pytest.approx(2.56)
    assert test_result.rows_needed == make_tester(3).rows_per_slab()


def test_slab_covariance__no_rows_are_an_error() -> None:
    with pytest.raises(ValueError, match="no slab to judge"):
        judge(np.empty((0, 2)))


@given(
    half=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    other=st.lists(st.integers(0, 40), min_size=8, max_size=8),
    rows=st.integers(1, 120),
)
def test_merge_outwards__partitions_each_side_into_large_groups(half: list[int], other: list[int], rows: int) -> None:
    counts = np.array(other[: len(half)] + half)
    zero = len(half)
    edges = np.arange(1 - zero, zero, dtype=np.float64)
    groups = merge_outwards(counts, edges, rows)
    for side in (range(zero), range(zero, 2 * zero)):
        mine = [group for group in groups if set(group) <= set(side)]
        total = int(counts[list(side)].sum())
        assert sorted(i for group in mine for i in group) == (list(side) if total else [])
        assert all(group == list(range(group[0], group[-1] + 1)) for group in mine)
        enough = [int(counts[group].sum()) >= rows for group in mine]
        assert all(enough) or (len(mine) == 1 and total < rows)
    assert sum(len(group) for group in groups) == len({i for group in groups for i in group})


@given(
    width=st.floats(0.005, 0.25), half_count=st.integers(1, 300), n_rows=st.integers(1, 10**6), rows=st.integers(1, 500)
)
def test_covariance_edges__give_every_slab_twice_its_rows(
    width: float, half_count: int, n_rows: int, rows: int
) -> None:
    edges = covariance_edges(width, half_count, n_rows, rows)
    np.testing.assert_array_equal(edges, -edges[::-1])
    assert edges[len(edges) // 2] == 0
    assert all(a < b for a, b in itertools.pairwise(edges))
    numbers = edges / width
    np.testing.assert_allclose(numbers, np.round(numbers), atol=1e-9)
    assert np.abs(numbers).max() <= half_count + 1e-9
    expected = n_rows * np.diff(ndtr(np.concatenate([[-np.inf], edges, [np.inf]])))
    if len(edges) > 1:
        assert expected.min() >= 2 * rows * (1 - 1e-9)


def test_covariance_edges__are_as_fine_as_the_rows_allow() -> None:
    edges = covariance_edges(0.01, 400, 1_000_000, 500)
    expected = 1_000_000 * np.diff(ndtr(edges[edges >= 0]))
    # a slab grows by one width at a time, at most 3,990 rows, until it holds 1,000
    assert expected[0] == pytest.approx(3989, abs=1)
    assert expected.max() < 1_000 + 3_990
    assert np.diff(edges).min() == pytest.approx(0.01)


@pytest.mark.parametrize(("n_rows", "sampled"), [(8_000, False), (10**6, True)])
def test_needs__a_sample_of_many_rows(n_rows: int, sampled: bool) -> None:
    candidates = (Plane(np.eye(5)[0]),)
    tester = make_tester(5, tau=0.001, n_slabs=40, n_rows=n_rows, candidates=candidates, seed=9)
    needs = tester.needs()
    assert isinstance(needs, Viewed) == sampled
    assert (tester.sample_rows() < n_rows) == sampled
    if sampled:
        share = tester.sample_rows() / n_rows
        assert needs.view.sample == Sample(9, Stream.SLAB_SAMPLE, 0.0, share)
    # enough for every slab of about half the central width to be conclusive
    assert len(tester.edges()) > (20 if sampled else 4)


@pytest.mark.parametrize("dim", [2, 10])
@given(most=st.integers(2, 60))
def test_edges__respect_the_largest_number_of_slabs(dim: int, most: int) -> None:
    tester = make_tester(dim, tau=0.001, n_slabs=40, n_rows=10**6)
    free = len(tester.edges()) + 1
    limited = len(dataclasses.replace(tester, most_slabs=most).edges()) + 1
    assert limited <= max(most, 2)
    assert limited >= min(free, most) / 3


def about(dim: int, threshold: float, **more) -> SlabCovarianceTester:
    """A tester that knows the threshold of its candidate."""
    candidates = (Plane(np.eye(dim)[0], threshold),)
    return make_tester(dim, candidates=candidates, threshold=abs(threshold), n_slabs=80, **more)


def judge_rows(tester: SlabCovarianceTester, X: np.ndarray) -> TestResult:
    needs = tester.needs()
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    (test_result,) = tester.judge(needs.finalize(needs.map(block)), n_seen=len(X))
    return test_result


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1.9, 2.2])
@pytest.mark.parametrize("dim", [1, 6])
def test_slab_covariance__gaussian_at_the_planned_rows_passes(dim: int, threshold: float) -> None:
    # fails with probability at most tau = 1% each: 3 or more of 20 has probability 0.001
    rows = about(dim, threshold).rows_needed()
    beside = rows * ndtr(-abs(threshold))
    assert beside >= 2 * about(dim, threshold).rows_per_slab()
    found = [
        judge_rows(about(dim, threshold, n_rows=rows), np.random.default_rng([dim, seed]).standard_normal((rows, dim)))
        for seed in range(20)
    ]
    assert sum(one.outcome is not Outcome.PASSED for one in found) <= 2
    # every slab has enough rows to be judged by
    assert all(one.n_rows >= about(dim, threshold).rows_per_slab() for one in found)


@pytest.mark.parametrize("threshold", [0.0, 2.0, -3.0, 6.0, 1e4])
def test_slab_covariance__few_gaussian_rows_are_never_rejected(threshold: float) -> None:
    # rejected with probability at most 1% each: 4 or more of 40 has probability 0.0006
    rows = (30, 400, 3_000)
    found = [
        judge_rows(
            about(4, threshold, n_rows=rows[seed % 3]), np.random.default_rng(seed).standard_normal((rows[seed % 3], 4))
        )
        for seed in range(40)
    ]
    assert sum(one.outcome is Outcome.REJECTED for one in found) <= 3
    assert about(4, threshold).rows_needed() >= 20 * about(4, threshold).rows_per_slab()


@pytest.mark.parametrize("threshold", [0.4, 1.9, 3.0])
@pytest.mark.parametrize(("width", "n_rows"), [(0.02, 200_000), (0.1, 20_000), (0.25, 5_000)])
def test_covariance_edges__give_every_slab_its_rows_about_some_plane(
    width: float, n_rows: int, threshold: float
) -> None:
    half_count, rows = round(8 / width), 100
    edges = covariance_edges(width, half_count, n_rows, rows, threshold=threshold)
    np.testing.assert_array_equal(edges, -edges[::-1])
    np.testing.assert_allclose(edges / width, np.round(edges / width), atol=1e-9)
    plain = covariance_edges(width, half_count, n_rows, rows)
    assert edges[-1] >= plain[-1] + threshold / 2 - width
    low, high = edges[edges >= 0][:-1], edges[edges > 0]
    at = np.linspace(0, threshold, 50)[:, None]
    held = n_rows * (ndtr(high - at) - ndtr(low - at)).max(axis=0)
    narrow = high - low < 0.5
    assert narrow.any()
    assert (held[narrow] >= 1.8 * rows).all()


def test_slab_covariance__judges_each_candidate_by_itself() -> None:
    X = np.random.default_rng(5).standard_normal((8_000, 2))
    X[:, 1] *= 2
    reduction = SlabCovariance(tuple(Plane(axis) for axis in np.eye(2)), EDGES)
    result = reduction.map(Block(X, np.ones(8_000, dtype=np.int8), np.arange(8_000)))
    found = make_tester(2, first=4).judge(reduction.finalize(result), n_seen=8_000)
    assert [one.outcome for one in found] == [Outcome.REJECTED, Outcome.PASSED]
    assert [(one.candidate, one.scale) for one in found] == [(4, 0.1), (5, 0.1)]
