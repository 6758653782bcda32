from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.kernels.margins import grid_margins, margins, rough_margins, wide_margins


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


@settings(max_examples=25)
@given(start=st.integers(0, 39_000), length=st.integers(0, 20_000))
def test_wide_margins__bits_do_not_depend_on_the_chunk(start: int, length: int) -> None:
    X = np.random.default_rng(0).standard_normal((40_000, 7)).astype(np.float32)
    piece = wide_margins(X[start : start + length], unit(7))
    np.testing.assert_array_equal(piece, wide_margins(X, unit(7))[start : start + length])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [1, 15, 16, 40])
@pytest.mark.parametrize("shifted", [False, True])
def test_rough_margins__are_within_their_slack(dtype: type, dim: int, shifted: bool) -> None:
    rng = np.random.default_rng(dim)
    X = rng.standard_normal((20_000, dim)).astype(dtype)
    V, shifts = rng.standard_normal((5, dim)), rng.standard_normal(5) if shifted else None
    exact = V @ X.T.astype(np.float64) - (0 if shifts is None else shifts[:, None])
    seen = 0
    for window, found, slack in rough_margins(X, V, shifts):
        assert (window.start, found.dtype) == (seen, X.dtype)
        seen = window.stop
        assert (np.abs(found - exact[:, window]).max(axis=1) <= slack).all()
        assert (slack < 1e-2).all()
    assert seen == len(X)
    assert list(rough_margins(X[:0], V, shifts)) == []
