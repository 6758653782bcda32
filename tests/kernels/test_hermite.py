from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import eval_hermitenorm

from streamhalf.kernels.hermite import extreme_eigenpair, gaussian_monomial_mean, hermite_gram, hermite_moments
from streamhalf.kernels.monomials import monomial_gram, monomial_tuples, sum_monomials


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
