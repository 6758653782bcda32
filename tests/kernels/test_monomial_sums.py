from __future__ import annotations

import numpy as np
import pytest

from streamhalf.kernels.monomial_sums import spread_gram, sum_monomials
from streamhalf.kernels.monomials import count_monomials, monomial_gram, monomial_tuples


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
