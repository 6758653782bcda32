from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import eval_hermitenorm

from streamhalf.kernels.monomials import (
    count_monomials,
    degree_offset,
    evaluate_monomials,
    extreme_eigenpair,
    gaussian_monomial_mean,
    hermite_gram,
    hermite_moments,
    monomial_gram,
    monomial_ranks,
    monomial_tuples,
    spread_gram,
    sum_monomials,
)


@given(dim=st.integers(1, 6), degree=st.integers(0, 4))
def test_monomial_tuples__are_all_rising_tuples_in_rank_order(dim: int, degree: int) -> None:
    tuples = monomial_tuples(dim, degree)
    expected = set(itertools.combinations_with_replacement(range(dim), degree))
    assert {tuple(row) for row in tuples.tolist()} == expected
    ranks = monomial_ranks(tuples, dim)
    assert ranks.tolist() == list(range(degree_offset(dim, degree), count_monomials(dim, degree)))


@pytest.mark.parametrize(("dim", "degree"), [(1, 3), (4, 2), (3, 4)])
def test_evaluate_monomials__multiplies_the_named_variables(dim: int, degree: int) -> None:
    X = np.random.default_rng(0).standard_normal((7, dim))
    out = np.empty((count_monomials(dim, degree), 7))
    evaluate_monomials(X, degree, out)
    tuples = [t for m in range(degree + 1) for t in monomial_tuples(dim, m)]
    for row, variables in zip(out, tuples, strict=True):
        np.testing.assert_allclose(row, X[:, variables].prod(axis=1))


def test_monomial_gram__float32_is_close_to_the_float64_oracle() -> None:
    X = np.random.default_rng(1).standard_normal((20_000, 6)).astype(np.float32)
    oracle = monomial_gram(X.astype(np.float64), 2)
    error = np.abs(monomial_gram(X, 2) - oracle).max() / len(X)
    assert error < 2e-6


def test_monomial_gram__falls_back_to_float64_where_float32_overflows() -> None:
    X = np.full((3, 1), 1e15, dtype=np.float32)
    np.testing.assert_allclose(monomial_gram(X, 2)[2, 2], 3e60, rtol=1e-6)


def plain_sums(X: np.ndarray, degree: int) -> np.ndarray:
    tuples = [t for m in range(degree + 1) for t in monomial_tuples(X.shape[1], m)]
    return np.array([X[:, variables].prod(axis=1).sum() for variables in tuples])


@pytest.mark.parametrize(("dim", "degree"), [(1, 4), (3, 2), (3, 4), (2, 6), (9, 4), (17, 4)])
def test_sum_monomials__equals_a_loop_over_all_monomials(dim: int, degree: int) -> None:
    X = np.random.default_rng(dim).standard_normal((2500, dim))
    np.testing.assert_allclose(sum_monomials(X, degree), plain_sums(X, degree), atol=1e-8)


@pytest.mark.parametrize("dim", [6, 24])
def test_sum_monomials__float32_is_close_to_the_float64_oracle(dim: int) -> None:
    X = np.random.default_rng(1).standard_normal((20_000, dim)).astype(np.float32)
    oracle = sum_monomials(X.astype(np.float64), 4)
    assert np.abs(sum_monomials(X, 4) - oracle).max() / len(X) < 2e-6


@pytest.mark.parametrize("dim", [2, 24])
def test_sum_monomials__falls_back_to_float64_where_float32_overflows(dim: int) -> None:
    X = np.zeros((3, dim), dtype=np.float32)
    X[:, 1] = 1e15
    assert sum_monomials(X, 4).max() == pytest.approx(3e60, rel=1e-6)


@pytest.mark.parametrize("dim", [2, 24])
def test_sum_monomials__of_no_rows_are_zero(dim: int) -> None:
    sums = sum_monomials(np.zeros((0, dim), dtype=np.float32), 4)
    assert sums.tolist() == [0.0] * count_monomials(dim, 4)


@pytest.mark.parametrize(("dim", "degree"), [(1, 1), (4, 1), (3, 2), (2, 3)])
def test_spread_gram__is_the_gram_matrix(dim: int, degree: int) -> None:
    X = np.random.default_rng(2).standard_normal((50, dim))
    gram = spread_gram(sum_monomials(X, 2 * degree), dim, degree)
    np.testing.assert_allclose(gram, monomial_gram(X, degree), atol=1e-10)


@pytest.mark.parametrize(("dim", "degree"), [(1, 4), (3, 4), (2, 6), (5, 2), (2, 8)])
def test_hermite_moments__equal_direct_evaluation(dim: int, degree: int) -> None:
    X = np.random.default_rng(2).standard_t(8, (500, dim))
    means = sum_monomials(X, degree) / len(X)
    moments = hermite_moments(means, dim, degree)
    direct = []
    for m in range(degree + 1):
        for variables in monomial_tuples(dim, m).tolist():
            value = np.ones(len(X))
            for j in set(variables):
                power = variables.count(j)
                value = value * eval_hermitenorm(power, X[:, j]) / math.sqrt(math.factorial(power))
            direct.append(value.mean())
    np.testing.assert_allclose(moments, direct, atol=1e-7 * np.abs(means).max())


def test_hermite_gram__equals_direct_evaluation() -> None:
    X = np.random.default_rng(3).standard_normal((300, 2))
    a, b = X.T
    H = np.stack([np.ones_like(a), a, b, (a**2 - 1) / math.sqrt(2), a * b, (b**2 - 1) / math.sqrt(2)])
    np.testing.assert_allclose(hermite_gram(monomial_gram(X, 2) / len(X), 2, 2), H @ H.T / len(X), atol=1e-12)


@pytest.mark.parametrize(("variables", "mean"), [((), 1), ((0,), 0), ((0, 0), 1), ((1, 1, 1, 1), 3), ((0, 0, 1, 1), 1)])
def test_gaussian_monomial_mean__is_isserlis(variables: tuple[int, ...], mean: float) -> None:
    assert gaussian_monomial_mean(variables) == mean


@pytest.mark.parametrize("size", [1, 30, 255, 256, 400])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_extreme_eigenpair__is_the_one_of_all(size: int, sign: float) -> None:
    drawn = np.random.default_rng(size).standard_normal((2 * size, size))
    matrix = sign * (drawn.T @ drawn / (2 * size) - np.eye(size))
    value, vector = extreme_eigenpair(matrix)
    values = np.linalg.eigvalsh(matrix)
    assert value == pytest.approx(values[np.argmax(np.abs(values))], rel=1e-12)
    assert np.linalg.norm(vector) == pytest.approx(1)
    np.testing.assert_allclose(matrix @ vector, value * vector, atol=1e-6)


def test_extreme_eigenpair__of_nothing_and_of_equal_values() -> None:
    for matrix in (np.zeros((300, 300)), 0.5 * np.eye(300)):
        value, vector = extreme_eigenpair(matrix)
        assert value == pytest.approx(matrix[0, 0])
        np.testing.assert_allclose(matrix @ vector, value * vector, atol=1e-9)
