from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streamhalf.synthetic.distributions import Marginal, normal_threshold, sample_threshold


def test_normal_threshold__is_the_quantile_of_a_normal_law() -> None:
    found = normal_threshold(Marginal.GAUSSIAN, np.array([0.6, 0.8]), 0.1)
    assert found == pytest.approx(stats.norm.isf(0.1))
    axis = normal_threshold(Marginal.SHIFTED, np.array([1.0, 0.0]), 0.1)
    assert axis == pytest.approx(0.3 + stats.norm.isf(0.1))
    assert normal_threshold(Marginal.LAPLACE, np.array([1.0, 0.0]), 0.1) is None


def test_sample_threshold__has_the_share_above() -> None:
    values = np.random.default_rng(0).standard_normal(10_001)
    for positive in (1e-3, 0.3, 0.5, 0.999):
        threshold, share = sample_threshold(values, positive)
        assert share == pytest.approx(np.mean(values >= threshold), abs=1e-12)
        assert share == pytest.approx(positive, abs=2e-4)


@pytest.mark.parametrize(("positive", "expected"), [(0.01, 0.2), (0.3, 0.2), (0.6, 0.5), (1, 0.5)])
def test_sample_threshold__stays_off_values_that_differ_by_rounding(positive: float, expected: float) -> None:
    """Shares 0.5, 0.3 and 0.2 of the values -1, 0 and 1."""
    values = np.repeat([-1.0, 0.0, 1.0], [500, 300, 200])
    values += np.random.default_rng(1).uniform(-1e-7, 1e-7, len(values))
    threshold, share = sample_threshold(values, positive)
    assert share == pytest.approx(expected)
    assert np.abs(values - threshold).min() > 0.4
