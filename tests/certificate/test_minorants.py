"""Minorants stay below the indicator, and are the best ones where that is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.certificate.minorants import evaluate, fit_minorants, interpolate_step, largest_excess, normal_moments


def minorants(laws, tau):
    """Certified minorants of slabs that are trusted, and what they are worth in all."""
    laws, tau = np.atleast_2d(laws).astype(np.float64), np.atleast_1d(tau).astype(np.float64)
    found, ones = np.empty_like(laws), np.ones(len(tau))
    worth = fit_minorants(laws, ones, normal_moments(laws.shape[1] - 1), tau, ones, found)
    return found, worth


def excess(coefficients, tau, scale=1.0):
    """Largest value above 1{t < tau} on a fine grid and far out."""
    near = np.linspace(-12, 12, 1001) * scale
    far = np.geomspace(12, 1e7, 100) * scale
    grid = np.concatenate([near, far, -far, tau + np.linspace(-1, 1, 201) * scale, [tau]])
    found = ((*evaluate(coefficients, 0, point), point) for point in grid)
    return max(value - rounding - (point < tau) for value, rounding, point in found)


@pytest.mark.parametrize("degree", [2, 4, 6, 8])
def test_minorants__below_the_indicator_for_normal_moments(degree):
    tau = np.concatenate([np.linspace(-9, 9, 61), [1e-9, 50.0, 1e3, 1e5, 1e9, -1e9]])
    laws = np.tile(normal_moments(degree), (len(tau), 1))
    for coefficients, threshold in zip(minorants(laws, tau)[0], tau, strict=True):
        assert excess(coefficients, threshold) <= 1e-12


@given(
    seed=st.integers(0, 2**32 - 1),
    degree=st.sampled_from([2, 4, 6, 8]),
    tau=st.floats(-20, 50),
    scale=st.sampled_from([1e-3, 1.0, 1e4]),
)
@settings(max_examples=150, deadline=None)
def test_minorants__below_the_indicator_whatever_the_moments(seed, degree, tau, scale):
    rng = np.random.default_rng(seed)
    atoms = rng.standard_t(2, int(rng.integers(1, 30))) * scale
    moments = np.array([[np.mean(atoms**m) for m in range(degree + 1)]])
    if seed % 3 == 0:
        moments[0, 1:] = rng.standard_normal(degree) * scale ** np.arange(1, degree + 1)
    coefficients = minorants(moments, tau * scale)[0][0]
    assert excess(coefficients, tau * scale, scale) <= 1e-12


@pytest.mark.parametrize(("degree", "expected"), [(2, 0), (4, 1 / 6), (6, 1 / 6), (8, 7 / 30)])
def test_minorants__mean_at_zero_is_the_chebyshev_markov_bound(degree, expected):
    # the weights left of 0 of the Gauss-Hermite rules with a node at 0
    law = normal_moments(degree)
    (coefficients,), worth = minorants(law, 0.0)
    assert coefficients @ law == pytest.approx(expected, abs=2e-3)
    assert worth == pytest.approx(coefficients @ law, abs=1e-6)


@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
def test_minorants__degree_two_is_cantelli(tau):
    law = normal_moments(2)
    mean = minorants(law, tau)[0][0] @ law
    assert mean == pytest.approx(tau**2 / (1 + tau**2), abs=1e-9)


def test_minorants__follows_the_law_it_is_given():
    shifted = np.random.default_rng(0).normal(2.0, 0.3, 10_000)
    moments = np.array([np.mean(shifted**m) for m in range(5)])
    fitted, plain = (minorants(law, 3.0)[0][0] @ moments for law in (moments, normal_moments(4)))
    assert fitted > 0.8 > plain


@pytest.mark.parametrize("moment", [np.nan, np.inf, -1.0, 1e300])
def test_minorants__of_moments_of_no_law_are_valid_too(moment):
    law = normal_moments(4)
    law[2] = moment
    found = minorants(law, 0.3)[0][0]
    assert excess(found, 0.3) <= 1e-12


def interpolated(nodes, tau):
    coefficients = np.empty(2 * len(nodes) + 1)
    interpolate_step(nodes, tau, np.empty((3, len(coefficients))), coefficients)
    return coefficients


@pytest.mark.parametrize("nodes", [[-1.0, 2.0], [-3.0, -1.0], [-0.2, 1.0], [0.2, 0.7, 9.0]])
def test_largest_excess__sees_what_is_too_high_and_gives_up_what_rises(nodes):
    places = np.array(nodes)
    good = interpolated(places, 0.5)
    assert largest_excess(good, places, 0.5) <= 1e-6
    raised = good + np.eye(len(good))[0] * 0.25
    assert excess(raised, 0.5) >= 0.25 - 1e-9
    assert largest_excess(raised, places, 0.5) == pytest.approx(0.25, abs=1e-6)
    # maxima that are not where they are said to be are not looked for, nor one node said twice
    assert largest_excess(-good, places, 0.5) == np.inf
    for claimed in (places + 0.3, places * 0 + 1, places[[0] * len(nodes)]):
        assert largest_excess(good, claimed, 0.5) == np.inf


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 4), lift=st.floats(-0.2, 0.5))
@settings(max_examples=60, deadline=None)
def test_largest_excess__is_not_exceeded_wherever_it_is_finite(seed, count, lift):
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.choice([0.01, 1.0, 30.0]) * rng.standard_normal(count))
    tau = float(rng.standard_normal())
    polynomial = interpolated(nodes, tau)
    polynomial[0] += lift
    polynomial *= 1 + rng.choice([0.0, 1e-9]) * rng.standard_normal(len(polynomial))
    polynomial[0] -= max(0.0, largest_excess(polynomial, nodes, tau))
    assert polynomial[0] == -np.inf or excess(polynomial, tau) <= 1e-12
