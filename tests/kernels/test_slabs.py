from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamhalf.kernels.slabs import assign_slabs, count_slabs, masses_about, sum_slab_products, unpack_symmetric


def test_assign_slabs__lower_edge_belongs_to_the_slab() -> None:
    edges = np.array([-1.0, 0.0, 1.0])
    margin = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 9.0])
    assert assign_slabs(margin, edges).tolist() == [0, 1, 1, 2, 2, 3, 3]


@given(
    edges=st.lists(st.floats(-5, 5, width=32), max_size=40, unique=True),
    margins=st.lists(st.floats(width=32, allow_nan=False), max_size=40),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_assign_slabs__equals_a_binary_search(edges: list[float], margins: list[float], dtype: type) -> None:
    bounds = np.sort(np.array(edges))
    margin = np.array([*margins, *edges, *np.negative(edges), 0.0, -0.0], dtype=dtype)
    expected = np.searchsorted(bounds, margin, side="right")
    assert assign_slabs(margin, bounds).tolist() == expected.tolist()


@pytest.mark.parametrize("n", [300, 40_000])  # a few rows in a slab, and many
def test_sum_slab_products__float32_is_close_to_the_float64_oracle(n: int) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 6), dtype=np.float32)
    slab = assign_slabs(X[:, 0], np.arange(-40, 41) * 0.05)
    found = sum_slab_products(X, slab[None], 82)
    oracle = sum_slab_products(X.astype(np.float64), slab[None], 82)
    assert np.abs(found - oracle).max() / n < 1e-6


@given(n=st.sampled_from([0, 1, 7, 80, 5_000]), n_slabs=st.sampled_from([1, 9, 300]), seed=st.integers(0, 1000))
def test_sum_slab_products__equals_a_loop(n: int, n_slabs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    slabs = rng.integers(0, n_slabs, (2, n)).astype(np.int32)
    for slab, sums in zip(slabs, sum_slab_products(X, slabs, n_slabs), strict=True):
        assert count_slabs(slab, n_slabs).sum() == n
        for i, found in enumerate(unpack_symmetric(sums, 3)):
            rows = X[slab == i]
            np.testing.assert_allclose(found, rows.T @ rows, atol=1e-10)


@pytest.mark.parametrize("threshold", [0.0, 1.3, -2.0])
def test_masses_about__are_those_of_rows_less_the_threshold(threshold: float) -> None:
    rows = np.random.default_rng(3).standard_normal(400_000) - threshold
    counts = count_slabs(assign_slabs(rows, np.arange(-3, 4) * 0.5), 8)
    # within five standard deviations, eight times: wrong with probability below 1e-5
    masses = masses_about(0.5, 3, threshold)
    assert masses.sum() == pytest.approx(1)
    assert (abs(counts / len(rows) - masses) < 5 * np.sqrt(masses / len(rows))).all()
