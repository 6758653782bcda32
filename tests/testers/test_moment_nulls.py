"""Quantiles against simulation; every exceedance count has its probability beside it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from streamhalf.kernels.monomials import count_monomials
from streamhalf.reductions.moments import Moments, MomentsResult
from streamhalf.testers.moments import excluded_deviation, largest_quantile, quadratics_quantile, second_moment_quantile
from streamhalf.testing import Block


def measure(X: np.ndarray) -> MomentsResult:
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    return Moments(4).finalize(Moments(4).map(block))


def norm(matrix: np.ndarray) -> float:
    """Operator norm of matrix - I."""
    return float(np.abs(np.linalg.eigvalsh(matrix - np.eye(len(matrix)))).max())


@pytest.mark.parametrize(
    ("dim", "n_rows"), [(1, 1), (1, 30), (1, 1_000), (3, 10), (3, 4_000), (10, 30), (10, 3_000), (20, 30)]
)
def test_quantiles__hold_under_the_null_at_any_number_of_rows(dim: int, n_rows: int) -> None:
    # each exceeded with probability at most 5%: 9 or more of 60 have probability 0.003, for all
    # 24 together 0.07, and the seeds are fixed
    tau, exceeded = 0.05, np.zeros(3)
    count = count_monomials(dim, 4) - 1
    limits = (
        largest_quantile(n_rows, count, tau),
        second_moment_quantile(n_rows, dim, tau),
        quadratics_quantile(n_rows, dim, tau),
    )
    rng = np.random.default_rng([dim, n_rows])
    for _ in range(60):
        found = measure(rng.standard_normal((n_rows, dim)))
        largest = np.abs(found.hermite()[1:]).max()
        statistics = (largest, norm(found.second_moment()), norm(found.hermite_gram()))
        exceeded += np.greater(statistics, limits)
    assert exceeded.max() <= 8


@pytest.mark.parametrize("n_rows", [1, 10, 30])
@pytest.mark.parametrize("tau", [1e-2, 1e-4])
def test_quantiles__hold_in_the_tail_of_a_single_feature(tau: float, n_rows: int) -> None:
    # of 100,000 sets 1,000 or 10 may exceed: 1,170 and 31 have probabilities below 1e-6
    rng = np.random.default_rng(n_rows)
    x = rng.standard_normal((100_000, n_rows))
    he = np.stack([np.ones_like(x), x, (x**2 - 1) / math.sqrt(2)], axis=-1)
    gram = np.swapaxes(he, 1, 2) @ he / n_rows - np.eye(3)
    third = (x**3 - 3 * x).mean(axis=1) / math.sqrt(6)
    fourth = (x**4 - 6 * x**2 + 3).mean(axis=1) / math.sqrt(24)
    largest = np.abs([gram[:, 0, 1], gram[:, 0, 2], third, fourth]).max(axis=0)
    quadratics = np.abs(np.linalg.eigvalsh(gram)[:, [0, -1]]).max(axis=1)
    second = np.abs(np.linalg.eigvalsh(gram[:, :2, :2])[:, [0, -1]]).max(axis=1)
    most = {1e-2: 1_169, 1e-4: 30}[tau]
    assert np.count_nonzero(largest > largest_quantile(n_rows, 4, tau)) <= most
    assert np.count_nonzero(second > second_moment_quantile(n_rows, 1, tau)) <= most
    assert np.count_nonzero(quadratics > quadratics_quantile(n_rows, 1, tau)) <= most


@pytest.mark.parametrize("dim", [1, 10, 40])
@pytest.mark.parametrize("tau", [0.1, 1e-6, 1e-40])
def test_quadratics_quantile__falls_with_rows_and_is_that_of_a_normal_law_for_many(dim: int, tau: float) -> None:
    rows = np.unique(np.geomspace(1, 1e9, 200).astype(int)).tolist()
    found = [quadratics_quantile(n, dim, tau) for n in rows]
    assert all(a > b for a, b in itertools.pairwise(found))
    assert quadratics_quantile(0, dim, tau) == found[0]
    assert 4 * quadratics_quantile(16 * 10**9, dim, tau) == pytest.approx(found[-1], rel=1e-3)


SCALES = {
    "every row": ([1.0, 0.0], [math.sqrt(1.1), 1.0]),
    "one row in twenty": ([0.05, 0.95], [1.5, 1.0]),
    "one row in a hundred": ([0.01, 0.99], [2.0, 1.0]),
    "half of them shorter": ([0.5, 0.5], [0.6, 1.0]),
}
"""Shares of rows, and their factors along one feature."""


def deviation_of(shares: list[float], factors: list[float]) -> float:
    """Norm of E H H^T - I along that feature, from E x² and E x⁴."""
    second = sum(p * s**2 for p, s in zip(shares, factors, strict=True))
    fourth = sum(3 * p * s**4 for p, s in zip(shares, factors, strict=True))
    mixed = (second - 1) / math.sqrt(2)
    gram = np.array([[1, 0, mixed], [0, second, 0], [mixed, 0, (fourth - 2 * second + 1) / 2]])
    return norm(gram)


@pytest.mark.parametrize("law", SCALES)
@pytest.mark.parametrize("n_rows", [300, 10_000])
def test_excluded_deviation__is_above_that_of_the_source(law: str, n_rows: int) -> None:
    # below it with probability at most 5% each: 33 or more of 400 have probability 0.004
    shares, factors = SCALES[law]
    truth = deviation_of(shares, factors)
    rng = np.random.default_rng(n_rows)
    below = 0
    for _ in range(20):
        factor = np.where(rng.random((20, n_rows)) < shares[0], *factors)
        x = factor * rng.standard_normal((20, n_rows))
        he = np.stack([np.ones_like(x), x, (x**2 - 1) / math.sqrt(2)], axis=-1)
        gram = np.swapaxes(he, 1, 2) @ he / n_rows
        below += sum(excluded_deviation(norm(one), n_rows, 0.05) < truth for one in gram)
    assert below <= 32


@pytest.mark.parametrize("statistic", [0.0, 0.1, 2.0])
def test_excluded_deviation__solves_its_equation_and_nears_the_statistic(statistic: float) -> None:
    found = excluded_deviation(statistic, 5_000, 0.01)
    z = 2.3263478740408408
    assert (found - statistic) ** 2 == pytest.approx(z**2 * (14 + 280 * found) / 5_000)
    assert statistic < excluded_deviation(statistic, 10**9, 0.01) < statistic + 0.01
    assert excluded_deviation(statistic, 0, 0.01) > 1
