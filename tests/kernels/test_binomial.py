"""Bounds of an error rate, against the binomial law itself."""

from __future__ import annotations

import pytest
from scipy import stats

from streamhalf.kernels.binomial import binomial_lower, binomial_upper


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
