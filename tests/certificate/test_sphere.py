"""Bounds over the sphere against the polynomial itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.certificate.sphere import (
    descend,
    minimum_over_sphere,
    sphere,
    split_axis,
    uniform_point,
    univariate_minimum,
)


def unit_vectors(rng, dim, count=200):
    u = rng.standard_normal((count, dim))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


@pytest.mark.parametrize(("dim", "degree"), [(1, 2), (1, 6), (2, 4), (4, 4), (3, 8)])
def test_matrix__represents_the_polynomial(dim, degree):
    rng = np.random.default_rng(dim + degree)
    table = sphere(dim, degree)
    b = rng.standard_normal(len(table.weights))
    matrix = table.matrix(b)
    for u in unit_vectors(rng, dim, 5):
        y = table.point(u)[: table.parts[-1].stop]
        assert b[0] + y @ matrix @ y == pytest.approx(b @ table.point(u), abs=1e-10)


def test_uniform__is_the_mean_over_the_sphere():
    table = sphere(3, 4)
    sample = np.mean(
        [table.point(u) for u in unit_vectors(np.random.default_rng(0), 3, 20_000)], axis=0
    )
    # standard errors are below 0.007 times the weights, at most sqrt(12)
    np.testing.assert_allclose(uniform_point(table), sample, atol=0.05)


@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([(1, 4), (2, 4), (3, 6), (5, 4)]))
@settings(max_examples=60, deadline=None)
def test_bounds__never_exceed_the_polynomial(seed, size):
    rng = np.random.default_rng(seed)
    table = sphere(*size)
    b = rng.standard_normal(len(table.weights)) * rng.choice([0.0, 0.01, 1.0], len(table.weights))
    found = minimum_over_sphere(table, b, steps=4)
    seen = min(float(b @ table.point(u)) for u in unit_vectors(rng, size[0]))
    assert found.bound <= min(seen, float(b @ table.point(found.guide.worst)))


def test_minimum_over_sphere__is_exact_for_quadratics_and_for_one_direction():
    rng = np.random.default_rng(4)
    table = sphere(6, 4)
    square = rng.standard_normal((6, 6))
    block = table.blocks[1]
    b = np.zeros(len(table.weights))
    b[block.ranks] = (square + square.T) / block.weights
    least = np.linalg.eigvalsh(square + square.T)[0]
    assert minimum_over_sphere(table, b, steps=8).bound == pytest.approx(least, rel=1e-4)
    b = 0.7 * table.point(unit_vectors(rng, 6, 1)[0])
    grid = np.linspace(-1, 1, 20_001)
    least = 0.7 * np.min(1 + grid + grid**2 + grid**3 + grid**4)
    assert minimum_over_sphere(table, b, steps=8).bound == pytest.approx(least, rel=1e-4)


def test_descend__finds_the_bottom_of_a_quadratic():
    table = sphere(6, 2)
    b = np.random.default_rng(3).standard_normal(len(table.weights))
    b[1:7] = 0
    found = float(b @ table.point(descend(table, b, np.ones(6), steps=300)))
    block = table.blocks[1]
    least = b[0] + np.linalg.eigvalsh(b[block.ranks] * block.weights)[0]
    assert found == pytest.approx(least, abs=1e-6)


def test_split_axis__leaves_nothing_of_a_polynomial_in_one_direction():
    table = sphere(4, 4)
    axis = np.array([0.5, -0.5, 0.5, 0.5])
    scales = np.array([0.0, 0.3, -1.0, 0.4, 2.0])
    b = np.zeros(len(table.weights))
    for value, part in zip(scales, table.slices, strict=True):
        b[part] = value * table.point(axis)[part]
    along, rest = split_axis(table, b, axis)
    np.testing.assert_allclose(along, scales, atol=1e-12)
    np.testing.assert_allclose(rest, 0, atol=1e-12)


@pytest.mark.parametrize("leading", [0.0, 1e-300, 1e-12, 1.0])
def test_univariate_minimum__is_attained_and_not_exceeded(leading):
    coefficients = np.array([0.2, -1.0, 0.5, 1.5, leading])
    grid = np.polynomial.polynomial.polyval(np.linspace(-1, 1, 100_001), coefficients)
    assert grid.min() - 1e-6 <= univariate_minimum(coefficients) <= grid.min()
    assert univariate_minimum(np.zeros(3)) == 0.0


@given(seed=st.integers(0, 2**32 - 1), degree=st.integers(2, 8))
@settings(max_examples=60, deadline=None)
def test_univariate_minimum__is_below_every_value_and_next_to_the_smallest(seed, degree):
    rng = np.random.default_rng(seed)
    # double zeros inside the interval: the minimum is 0 or next to it, wherever they are
    zeros = rng.uniform(-1, 1, degree // 2)
    polynomial = np.polynomial.polynomial.polyfromroots([*zeros, *zeros])
    found = univariate_minimum(polynomial)
    values = np.polynomial.polynomial.polyval(
        np.concatenate([zeros, rng.uniform(-1, 1, 500)]), polynomial
    )
    assert -1e-5 * np.abs(polynomial).sum() <= found <= values.min()
