from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamhalf.kernels.localize import (
    acceptance_probability,
    grid_margins,
    map_back,
    margins,
    whiten_localized,
    wide_margins,
)

from streamhalf.kernels.uniforms import uniforms_at


def unit(dim: int, seed: int = 0) -> np.ndarray:
    v = np.random.default_rng(seed).standard_normal(dim)
    return v / np.linalg.norm(v)


@settings(max_examples=50)
@given(start=st.integers(0, 3000), length=st.integers(0, 500), dim=st.sampled_from([3, 8, 17]))
def test_margins__bits_do_not_depend_on_the_chunk(start: int, length: int, dim: int) -> None:
    X = np.random.default_rng(0).standard_normal((4000, dim)).astype(np.float32)
    whole = margins(X, unit(dim))
    piece = margins(X[start : start + length], unit(dim))
    np.testing.assert_array_equal(piece, whole[start : start + length])


@settings(max_examples=40)
@given(
    start=st.integers(0, 12_000),
    length=st.integers(0, 12_000),
    keep=st.sampled_from([1.0, 0.9, 0.1]),
    dim=st.sampled_from([3, 8, 17]),
    count=st.sampled_from([1, 8, 17]),
)
def test_grid_margins__bits_depend_on_the_row_and_its_number_alone(
    start: int, length: int, keep: float, dim: int, count: int
) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((14_000, dim)).astype(np.float32)
    V = rng.standard_normal((count, dim))
    rows = 777 + np.arange(14_000)
    whole = grid_margins(X, V, rows)
    np.testing.assert_allclose(whole, V @ X.T.astype(np.float64), atol=2e-6 * dim)
    chosen = np.flatnonzero(rng.random(14_000) < keep)
    chosen = chosen[(chosen >= start) & (chosen < start + length)]
    np.testing.assert_array_equal(grid_margins(X[chosen], V, rows[chosen]), whole[:, chosen])


def test_wide_margins__are_float64_whatever_the_rows() -> None:
    X = np.random.default_rng(0).standard_normal((40_000, 7)).astype(np.float32)
    expected = X.astype(np.float64) @ unit(7)
    np.testing.assert_allclose(wide_margins(X, unit(7)), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("delta", [0.5, 0.1, 0.02])
def test_localisation__accepted_gaussian_rows_are_gaussian_after_whitening(delta: float) -> None:
    # acceptance rate and moments within 5 standard errors: fails with probability below 1e-4
    n, dim = 400_000, 3
    v = unit(dim)
    X = np.random.default_rng(5).standard_normal((n, dim))
    margin = margins(X, v)
    keep = uniforms_at(1, 2, np.arange(n)) < acceptance_probability(margin, delta)
    assert abs(keep.mean() - delta) < 5 * np.sqrt(delta / n)
    Z = whiten_localized(X[keep], margin[keep], v, delta)
    second = Z.T @ Z / len(Z)
    assert np.abs(second - np.eye(dim)).max() < 5 * np.sqrt(2 / len(Z))


def test_map_back__recovers_the_true_normal() -> None:
    # under y = sgn(v*·x), the localised problem has normal Sigma^{1/2} v*
    delta, dim = 0.1, 4
    v, truth = unit(dim, 1), unit(dim, 2)
    w = truth - (1 - delta) * (truth @ v) * v
    np.testing.assert_allclose(map_back(w / np.linalg.norm(w), v, delta), truth, atol=1e-12)


@given(start=st.integers(0, 10**12), length=st.integers(1, 50), skip=st.integers(0, 49))
def test_uniforms__depend_on_the_row_alone(start: int, length: int, skip: int) -> None:
    rows = np.arange(start, start + length)
    drawn = uniforms_at(7, 3, rows)
    assert ((drawn >= 0) & (drawn < 1)).all()
    np.testing.assert_array_equal(uniforms_at(7, 3, rows[skip:]), drawn[skip:])
    np.testing.assert_array_equal(uniforms_at(7, 3, rows[::3]), drawn[::3])


def test_uniforms__are_uniform_and_differ_between_seeds_and_streams() -> None:
    # Kolmogorov-Smirnov distance above 2/sqrt(n) has probability 7e-4
    n = 100_000
    draws = [uniforms_at(seed, stream, np.arange(n)) for seed, stream in ((0, 0), (0, 1), (1, 0))]
    for drawn in draws:
        assert np.abs(np.sort(drawn) - np.arange(n) / n).max() < 2 / np.sqrt(n)
    assert abs(np.corrcoef(draws)[0, 1:]).max() < 0.02
