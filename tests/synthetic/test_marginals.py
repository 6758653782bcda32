from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from streamhalf.synthetic.distributions import (
    EQUICORRELATION,
    HOLE_ATOM,
    HOLE_HALF_WIDTH,
    LOW_RANK_SHARE,
    SHIFT,
    SPIKE_HALF_WIDTH,
    SPIKE_SHARE,
    hole_distribution,
    spike_distribution,
)
from tests.synthetic.specs import SIGMAS, make_spec, whole

# fourth moment of a coordinate, all of unit variance
KNOWN_LAWS = {"gaussian": 3, "student-t": 4, "laplace": 6, "uniform": 1.8, "rademacher": 1, "gauss-hermite": 3}


@pytest.mark.parametrize("marginal", KNOWN_LAWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_marginal__has_unit_variance_and_its_fourth_moment(marginal: str, dtype: str) -> None:
    _, rows = whole(make_spec(marginal, rows=100_000, dim=4, seed=1, dtype=dtype))
    X = rows.X.astype(np.float64)
    for power, expected in ((1, 0), (2, 1), (4, KNOWN_LAWS[marginal])):
        values = X.ravel() ** power
        error = values.std() / math.sqrt(values.size) + 1e-6
        # failure probability below 2e-9 for another seed (heavy tails of power 4: below 1e-6)
        assert abs(values.mean() - expected) < SIGMAS * error
    second = X.T @ X / len(X)
    # an off-diagonal entry has standard error 1/sqrt(n); six entries, below 2e-8 for another seed
    assert np.abs(second - np.diag(np.diag(second))).max() < SIGMAS / math.sqrt(len(X))


def index_gaps(dim: int) -> np.ndarray[Any, Any]:
    return np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))


@pytest.mark.parametrize(
    ("marginal", "mean", "covariance"),
    [
        ("mixture", 0, 1.03 * np.eye(4)),
        ("correlated", 0, np.where(index_gaps(4) == 0, 1, EQUICORRELATION)),
        ("shifted", SHIFT, np.eye(4)),
        ("low-rank", 0, np.where(index_gaps(4) == 0, 1, LOW_RANK_SHARE * np.cos(index_gaps(4)))),
    ],
)
def test_marginal__has_the_mean_and_covariance_it_states(
    marginal: str, mean: float, covariance: np.ndarray[Any, Any]
) -> None:
    _, rows = whole(make_spec(marginal, rows=100_000, dim=4, seed=1))
    X = rows.X.astype(np.float64)
    # an entry has standard error sqrt(2/n) at most (mixture: 1.6/sqrt(n)); failure probability of
    # another seed below 1e-7 over all entries
    limit = SIGMAS * 1.6 / math.sqrt(len(X))
    np.testing.assert_allclose(X.mean(axis=0), mean, atol=limit)
    np.testing.assert_allclose(np.cov(X.T), covariance, atol=limit)


def test_hole_law__has_the_moments_of_a_gaussian() -> None:
    law = hole_distribution()
    gap = law.gap / law.scale
    assert 0 < law.atom_share < 1
    assert law.gap >= HOLE_HALF_WIDTH
    for power, expected in ((0, 1), (2, 1), (4, 3)):
        tail = 2 * integrate.quad(lambda g, p=power: g**p * stats.norm.pdf(g), gap, 12)[0]
        bulk = law.scale**power * tail / (2 * stats.norm.sf(gap))
        moment = (1 - law.atom_share) * bulk + law.atom_share * HOLE_ATOM**power
        assert moment == pytest.approx(expected, abs=1e-9)


def test_spike_law__has_the_moments_of_a_gaussian() -> None:
    law = spike_distribution()
    for power, expected in ((0, 1), (2, 1), (4, 3)):
        bulk = stats.norm(loc=law.sign, scale=law.gaussian).expect(lambda z, p=power: z**p)
        spike = SPIKE_HALF_WIDTH**power / (power + 1)
        moment = (1 - SPIKE_SHARE) * bulk + SPIKE_SHARE * spike
        assert moment == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("planted_name", ["axis", "generic"])
@pytest.mark.parametrize("marginal", ["hole", "spike"])
def test_marginal__along_v_matches_moments_and_is_gaussian_across(marginal: str, planted_name: str, dtype: str) -> None:
    spec = make_spec(marginal, rows=100_000, dim=4, planted=planted_name, dtype=dtype)
    planted, rows = whole(spec)
    X = rows.X.astype(np.float64)
    along, across = X @ planted.v, X @ planted.u
    n = len(X)
    if marginal == "hole":
        assert np.abs(along).min() > HOLE_HALF_WIDTH
    else:
        in_spike = np.mean(np.abs(along) < SPIKE_HALF_WIDTH + 1e-6)
        own = 2 * stats.norm(spike_distribution().sign, spike_distribution().gaussian).pdf(0) * SPIKE_HALF_WIDTH
        share = SPIKE_SHARE + (1 - SPIKE_SHARE) * own
        # failure probability below 2e-9 for another seed
        assert abs(in_spike - share) < SIGMAS * math.sqrt(share / n)
    for power, expected in ((1, 0), (2, 1), (3, 0), (4, 3), (5, 0)):
        for values in (along**power, across**power):
            # failure probability below 2e-9 for another seed
            assert abs(values.mean() - expected) < SIGMAS * values.std() / math.sqrt(n)
    # across is N(0,1) and independent: Kolmogorov's test at level 1e-6, and no correlation
    assert stats.kstest(across, "norm").pvalue > 1e-6
    assert abs(np.mean(across * along)) < SIGMAS / math.sqrt(n)
    assert abs(np.mean((across**2 - 1) * along**2)) < SIGMAS * math.sqrt(6 / n)
