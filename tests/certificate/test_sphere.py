"""Bounds over the sphere against the polynomial itself, and on the quadratic forms behind them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.certificate.sphere import (
    bound_form,
    lapack_addresses,
    minimum_over_sphere,
    sphere,
    uniform_point,
    univariate_minimum,
)

OWNER = np.repeat([0, 1, 2], [1, 4, 10])
seeds = st.integers(0, 2**32 - 1)


def unit_vectors(rng, dim, count=200):
    u = rng.standard_normal((count, dim))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def normalised(owner, y):
    return y / np.sqrt(np.bincount(owner, y * y))[owner]


def bound_of(matrix, owner, y, steps):
    """The bound from shifts that belong to y, and the bottom vector that it ends with."""
    y = normalised(owner, y)
    shift = np.bincount(owner, y * (matrix @ y))
    found, _ = bound_form(matrix, owner, shift, y, -1.0, steps, -np.inf, lapack_addresses())
    return found, y


@given(
    seed=seeds,
    steps=st.integers(0, 6),
    scale=st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 1e20]),
    rank=st.sampled_from([0, 1, 15]),
)
@settings(max_examples=80, deadline=None)
def test_bound_form__never_exceeds_the_form(seed, steps, scale, rank):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((rank, 15))
    matrix = scale * (rows + rows.T if rank == 15 else -rows.T @ rows)
    bound, bottom = bound_of(matrix, OWNER, rng.standard_normal(15), steps)
    points = [normalised(OWNER, y) for y in (bottom, *rng.standard_normal((50, 15)))]
    assert bound <= min(float(y @ matrix @ y) for y in points)


@pytest.mark.parametrize("start", ["ones", "an eigenvector that is not the lowest"])
def test_bound_form__is_the_smallest_eigenvalue_where_there_is_one_part(start):
    square = np.random.default_rng(1).standard_normal((30, 30))
    matrix = square + square.T
    values, vectors = np.linalg.eigh(matrix)
    y = np.ones(30) if start == "ones" else vectors[:, 20].copy()
    found, _ = bound_of(matrix, np.zeros(30, dtype=np.int64), y, 8)
    assert found <= values[0]
    assert found == pytest.approx(values[0], rel=2e-3)


def test_bound_form__is_attained_where_one_direction_is_far_below_the_others():
    rng = np.random.default_rng(2)
    low, square = normalised(OWNER, rng.standard_normal(15)), rng.standard_normal((15, 15))
    matrix = 0.01 * (square + square.T) - np.outer(low, low)
    found, bottom = bound_of(matrix, OWNER, rng.standard_normal(15), 8)
    y = normalised(OWNER, bottom)
    assert found == pytest.approx(float(y @ matrix @ y), rel=2e-3)


@pytest.mark.parametrize(("dim", "degree"), [(1, 2), (1, 6), (2, 4), (4, 4), (3, 8)])
def test_matrix__represents_the_polynomial(dim, degree):
    rng = np.random.default_rng(dim + degree)
    table = sphere(dim, degree)
    b = rng.standard_normal(len(table.weights))
    for u in unit_vectors(rng, dim, 5):
        y = table.point(u)[: table.size]
        assert b[0] + y @ table.matrix(b) @ y == pytest.approx(b @ table.point(u), abs=1e-10)


def test_uniform__is_the_mean_over_the_sphere():
    table = sphere(3, 4)
    points = [table.point(u) for u in unit_vectors(np.random.default_rng(0), 3, 20_000)]
    # standard errors are below 0.007 times the weights, at most sqrt(12)
    np.testing.assert_allclose(uniform_point(3, 4), np.mean(points, axis=0), atol=0.05)


@given(seed=seeds, size=st.sampled_from([(1, 4), (2, 4), (3, 6), (5, 4)]))
@settings(max_examples=60, deadline=None)
def test_minimum_over_sphere__never_exceeds_the_polynomial(seed, size):
    rng = np.random.default_rng(seed)
    table = sphere(*size)
    b = rng.standard_normal(len(table.weights)) * rng.choice([0.0, 0.01, 1.0], len(table.weights))
    bound, guide = minimum_over_sphere(table, b, steps=4)
    closer, better = minimum_over_sphere(table, b, guide, steps=4, closely=True)
    seen = min(float(b @ table.point(u)) for u in unit_vectors(rng, size[0]))
    seen = min(seen, *(float(b @ table.point(one.worst)) for one in (guide, better)))
    assert max(bound, closer) <= seen


def test_minimum_over_sphere__is_exact_for_quadratics_and_for_one_direction():
    rng = np.random.default_rng(4)
    table = sphere(6, 4)
    square, part = rng.standard_normal((6, 6)), table.slices[1]
    b = np.zeros(len(table.weights))
    b[table.ranks[part, part]] = (square + square.T) / table.shares[part, part]
    least = np.linalg.eigvalsh(square + square.T)[0]
    assert minimum_over_sphere(table, b, steps=8)[0] == pytest.approx(least, rel=1e-4)
    b = 0.7 * table.point(unit_vectors(rng, 6, 1)[0])
    grid = np.linspace(-1, 1, 20_001)
    least = 0.7 * np.min(1 + grid + grid**2 + grid**3 + grid**4)
    assert minimum_over_sphere(table, b, steps=8)[0] == pytest.approx(least, rel=1e-4)


@given(seed=seeds, degree=st.integers(2, 8), leading=st.sampled_from([0.0, 1e-300, 1e-12, 1.0]))
@settings(max_examples=60, deadline=None)
def test_univariate_minimum__is_below_every_value_and_next_to_the_smallest(seed, degree, leading):
    rng = np.random.default_rng(seed)
    # double zeros inside the interval: the minimum is 0 or next to it, wherever they are
    zeros = rng.uniform(-1, 1, degree // 2)
    coefficients = np.polynomial.polynomial.polyfromroots([*zeros, *zeros])
    coefficients[-1] *= leading
    points = np.concatenate([zeros, np.linspace(-1, 1, 20_001)])
    least = np.polynomial.polynomial.polyval(points, coefficients).min()
    found = univariate_minimum(coefficients)
    assert least - 1e-5 * np.abs(coefficients).sum() <= found <= least
