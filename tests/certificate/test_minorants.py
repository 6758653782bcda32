"""Minorants stay below the indicator, and are the best ones where that is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.certificate.minorants import (
    evaluate,
    extremal_nodes,
    hermite_from_powers,
    interpolate_step,
    normal_moments,
    propose_minorants,
    real_roots,
    subtract_excess,
)


def excess(coefficients, tau, scale=1.0):
    """Largest value above 1{t < tau} on a fine grid and far out."""
    near = np.linspace(-12, 12, 4001) * scale
    far = np.geomspace(12, 1e7, 300) * scale
    grid = np.concatenate([near, far, -far, tau + np.linspace(-1, 1, 401) * scale, [tau]])
    values, rounding = evaluate(coefficients[:, None], grid[:, None])
    return float((values - rounding - (grid < tau)[:, None]).max())


@pytest.mark.parametrize("degree", [2, 4, 6, 8])
def test_minorants__below_the_indicator_for_normal_moments(degree):
    tau = np.concatenate([np.linspace(-9, 9, 181), [1e-9, 50.0, 1e3, 1e5, 1e9, -1e9]])
    laws = np.tile(normal_moments(degree), (len(tau), 1))
    for coefficients, threshold in zip(propose_minorants(laws, tau).certified(), tau, strict=True):
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
    coefficients = propose_minorants(moments, np.array([tau * scale])).certified()[0]
    assert excess(coefficients, tau * scale, scale) <= 1e-12


@pytest.mark.parametrize(("degree", "expected"), [(2, 0), (4, 1 / 6), (6, 1 / 6), (8, 7 / 30)])
def test_minorants__mean_at_zero_is_the_chebyshev_markov_bound(degree, expected):
    # the weights left of 0 of the Gauss-Hermite rules with a node at 0
    law = normal_moments(degree)
    coefficients = propose_minorants(law[None], np.array([0.0])).certified()[0]
    assert coefficients @ law == pytest.approx(expected, abs=2e-3)


def test_minorants__degree_two_is_cantelli():
    law = normal_moments(2)
    for tau in (0.5, 1.0, 3.0):
        mean = propose_minorants(law[None], np.array([tau])).certified()[0] @ law
        assert mean == pytest.approx(tau**2 / (1 + tau**2), abs=1e-9)


def test_minorants__follows_the_law_it_is_given():
    shifted = np.random.default_rng(0).normal(2.0, 0.3, 10_000)
    moments = np.array([[np.mean(shifted**m) for m in range(5)]])
    fitted = propose_minorants(moments, np.array([3.0])).certified()[0] @ moments[0]
    plain = propose_minorants(normal_moments(4)[None], np.array([3.0])).certified()[0] @ moments[0]
    assert fitted > 0.8 > plain


@pytest.mark.parametrize("nodes", [[-1.0, 2.0], [-3.0, -1.0], [-0.2, 1.0], [0.7, 0.2, 9.0]])
def test_subtract_excess__lowers_what_is_too_high_and_drops_what_rises(nodes):
    places, tau = np.array(nodes)[:, None], np.array([0.5])
    good = interpolate_step(places, tau)
    assert np.abs(subtract_excess(good, places, tau) - good).max() <= 1e-6
    raised = good + np.eye(len(good))[:, :1] * 0.25
    lowered = subtract_excess(raised, places, tau)
    assert excess(raised[:, 0], 0.5) >= 0.25 - 1e-9
    assert excess(lowered[:, 0], 0.5) <= 1e-12
    assert lowered.any()
    assert not subtract_excess(-good, places, tau).any()
    # maxima that are not where they are said to be are not looked for, nor one node said twice
    for claimed in (places + 0.3, places * 0 + 1, places[[0] * len(nodes)]):
        assert not subtract_excess(good, claimed, tau).any()


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 4), lift=st.floats(-0.2, 0.5))
@settings(max_examples=100, deadline=None)
def test_subtract_excess__is_below_the_indicator_wherever_it_is_not_nothing(seed, count, lift):
    rng = np.random.default_rng(seed)
    nodes = rng.choice([0.01, 1.0, 30.0]) * rng.standard_normal((count, 1))
    tau = rng.standard_normal(1)
    polynomial = interpolate_step(nodes, tau)
    polynomial[0] += lift
    polynomial *= 1 + rng.choice([0.0, 1e-9]) * rng.standard_normal(polynomial.shape)
    assert excess(subtract_excess(polynomial, nodes, tau)[:, 0], float(tau[0])) <= 1e-12


@pytest.mark.parametrize("zeros", [[2.0], [-1.0, 3.0], [0.0, 0.0], [-40.0, 0.1, 2.0], [1, 2, 3, 4]])
def test_real_roots__finds_them(zeros):
    monic = np.polynomial.polynomial.polyfromroots(zeros)[:-1, None]
    np.testing.assert_allclose(np.sort(real_roots(monic)[:, 0]), np.sort(zeros), atol=1e-6)


@pytest.mark.parametrize("degree", [2, 4, 6, 8])
def test_extremal_nodes__are_those_of_gauss(degree):
    # with an atom at a node of the Gauss rule of n + 1 points, the others are its other nodes
    rule = np.polynomial.hermite_e.hermegauss(degree // 2 + 1)[0]
    found = extremal_nodes(normal_moments(degree)[:, None], rule[:1])[:, 0]
    np.testing.assert_allclose(np.sort(found), rule[1:], atol=1e-6)


def test_hermite_from_powers__matches_numpy():
    points = np.linspace(-3, 3, 7)
    table = hermite_from_powers(6)
    norms = np.sqrt([float(np.prod(np.arange(1, m + 1))) for m in range(7)])
    basis = np.polynomial.hermite_e.hermevander(points, 6) / norms
    np.testing.assert_allclose(basis @ table.T, np.vander(points, 7, increasing=True), atol=1e-9)
