import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import betaln

from streamhalf.kernels.anytime import lower, upper
from streamhalf.kernels.binomial import binomial_upper


@pytest.mark.parametrize("p", [0.0, 0.01, 0.3, 1.0])
def test_bounds__hold_at_all_looks_at_once(p):
    tau, n_runs = 0.05, 1000
    looks = np.unique(np.geomspace(1, 1e6, 50).astype(int))
    rng = np.random.default_rng(3)
    errors = np.cumsum(rng.binomial(np.diff(looks, prepend=0), p, size=(n_runs, len(looks))), axis=1)
    low, high = lower(errors, looks, tau), upper(errors, looks, tau)
    missed = ((low > p) | (high < p)).any(axis=1)
    assert missed.mean() <= tau  # about 0.01: fails with chance below 1e-6
    assert (low <= errors / looks).all()
    assert (high >= errors / looks).all()


def test_bounds__are_where_the_mixture_reaches_its_limit():
    errors, n_rows, tau = np.array([1, 50, 999]), 1000, np.array([0.1, 0.01, 0.001])
    for p in (lower(errors, n_rows, tau), upper(errors, n_rows, tau)):
        mixture = betaln(errors + 0.5, n_rows - errors + 0.5) - betaln(0.5, 0.5)
        assert_allclose(mixture - errors * np.log(p) - (n_rows - errors) * np.log1p(-p), -np.log(tau))


def test_bounds__of_no_rows_and_of_extreme_counts():
    assert_array_equal(lower([0, 0, 5], [0, 100, 5], 0.05)[:2], 0)
    assert_array_equal(upper([0, 5], [0, 5], 0.05), 1)
    assert 0 < lower(5, 5, 0.05) < 1
    assert 0 < upper(0, 100, 0.05) < 0.1


def test_upper__is_not_twice_as_wide_as_a_bound_for_one_look():
    errors, n_rows = 50_000, 1_000_000
    assert 1 < (upper(errors, n_rows, 0.05) - 0.05) / (binomial_upper(errors, n_rows, 0.05) - 0.05) < 3


def test_bounds__hold_for_billions_of_rows():
    errors, n_rows = 5 * 10**10, 10**12
    assert 0.05 - 1e-5 < lower(errors, n_rows, 0.01) < 0.05 < upper(errors, n_rows, 0.01) < 0.05 + 1e-5
