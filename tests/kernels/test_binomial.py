"""Bounds of an error rate, against the binomial law itself."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import betaln

from streamhalf.kernels.binomial import anytime_lower, anytime_upper, binomial_lower, binomial_upper, segment_upper


@pytest.mark.parametrize(("errors", "n_rows"), [(1, 10), (50, 1_000), (999, 1_000)])
@pytest.mark.parametrize("tau", [0.05, 1e-6])
def test_bounds__are_where_chance_leaves_tau(errors: int, n_rows: int, tau: float) -> None:
    low, high = binomial_lower(errors, n_rows, tau), binomial_upper(errors, n_rows, tau)
    assert low < errors / n_rows < high
    assert stats.binom.sf(errors - 1, n_rows, low) == pytest.approx(tau)
    assert stats.binom.cdf(errors, n_rows, high) == pytest.approx(tau)


def test_bounds__end_at_0_and_1() -> None:
    assert binomial_lower(0, 7, 0.01) == 0
    assert binomial_upper(7, 7, 0.01) == 1
    assert binomial_lower(7, 7, 0.01) == pytest.approx(0.01 ** (1 / 7))


@pytest.mark.parametrize(
    ("share", "bad", "rate"), [(0.015, 1.0, 0.0), (0.05, 0.5, 0.02), (0.5, 1.0, 0.0), (0.9, 1.0, 0.0)]
)
@pytest.mark.parametrize("unequal", [False, True])
def test_segment_upper__holds_for_any_means(share: float, bad: float, rate: float, unequal: bool) -> None:
    """It fails with probability 0.02 at most: 14 of 300 or more has probability 4e-3 at that."""
    rng, truth, missed = np.random.default_rng(11), share * bad + (1 - share) * rate, 0
    for _ in range(300):
        rows = rng.integers(1, 60, 120) if unequal else np.full(120, 40)
        rates = np.where(rng.random(120) < share, bad, rate)
        missed += segment_upper(rng.binomial(rows, rates), rows, 0.02) < truth
    assert missed < 14


def test_segment_upper__approaches_the_mean_and_is_exact_at_the_ends() -> None:
    rng, widths = np.random.default_rng(1), []
    for n in (100, 10_000, 1_000_000):
        rows = np.full(n, 200)
        errors = rng.binomial(rows, np.where(rng.random(n) < 0.1, 0.5, 0.0))
        widths.append(segment_upper(errors, rows, 0.01) - errors.sum() / rows.sum())
    # a normal bound has 2.33 standard errors; sqrt(2 ln(1/tau)) = 3.03 is what bets leave
    assert widths[2] < 3.8 * 0.152 / 1_000
    assert widths[0] > 8 * widths[1] > 64 * widths[2]
    none, all_of_them = np.zeros(256, dtype=np.int64), np.full(256, 200)
    assert segment_upper(none, all_of_them, 0.005) == pytest.approx(1 - 0.005 ** (1 / 256), rel=0.3)
    assert segment_upper(all_of_them, all_of_them, 0.005) == 1.0


@pytest.mark.parametrize("p", [0.0, 0.01, 0.3, 1.0])
def test_bounds__hold_at_all_looks_at_once(p):
    tau, n_runs = 0.05, 1000
    looks = np.unique(np.geomspace(1, 1e6, 50).astype(int))
    rng = np.random.default_rng(3)
    errors = np.cumsum(rng.binomial(np.diff(looks, prepend=0), p, size=(n_runs, len(looks))), axis=1)
    low, high = anytime_lower(errors, looks, tau), anytime_upper(errors, looks, tau)
    missed = ((low > p) | (high < p)).any(axis=1)
    assert missed.mean() <= tau  # about 0.01: fails with chance below 1e-6
    assert (low <= errors / looks).all()
    assert (high >= errors / looks).all()


def test_bounds__are_where_the_mixture_reaches_its_limit():
    errors, n_rows, tau = np.array([1, 50, 999]), 1000, np.array([0.1, 0.01, 0.001])
    for p in (anytime_lower(errors, n_rows, tau), anytime_upper(errors, n_rows, tau)):
        mixture = betaln(errors + 0.5, n_rows - errors + 0.5) - betaln(0.5, 0.5)
        assert_allclose(mixture - errors * np.log(p) - (n_rows - errors) * np.log1p(-p), -np.log(tau))


def test_bounds__of_no_rows_and_of_extreme_counts():
    assert_array_equal(anytime_lower([0, 0, 5], [0, 100, 5], 0.05)[:2], 0)
    assert_array_equal(anytime_upper([0, 5], [0, 5], 0.05), 1)
    assert 0 < anytime_lower(5, 5, 0.05) < 1
    assert 0 < anytime_upper(0, 100, 0.05) < 0.1


def test_upper__is_not_twice_as_wide_as_a_bound_for_one_look():
    errors, n_rows = 50_000, 1_000_000
    assert 1 < (anytime_upper(errors, n_rows, 0.05) - 0.05) / (binomial_upper(errors, n_rows, 0.05) - 0.05) < 3


def test_bounds__hold_for_billions_of_rows():
    errors, n_rows = 5 * 10**10, 10**12
    assert 0.05 - 1e-5 < anytime_lower(errors, n_rows, 0.01) < 0.05 < anytime_upper(errors, n_rows, 0.01) < 0.05 + 1e-5
