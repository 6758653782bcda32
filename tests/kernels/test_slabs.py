from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamhalf.kernels.slabs import (
    assign_slabs,
    count_slabs,
    number_slabs,
    sum_slab_products,
)


def test_assign_slabs__lower_edge_belongs_to_the_slab() -> None:
    edges = np.array([-1.0, 0.0, 1.0])
    margin = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 9.0])
    assert assign_slabs(margin, edges).tolist() == [0, 1, 1, 2, 2, 3, 3]


@given(n=st.integers(0, 80), n_slabs=st.integers(1, 9), seed=st.integers(0, 1000))
def test_sum_slab_products__equals_a_loop(n: int, n_slabs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    slab = rng.integers(0, n_slabs, n).astype(np.int32)
    first, second = sum_slab_products(X, slab, n_slabs)
    assert count_slabs(slab, n_slabs).sum() == n
    for i in range(n_slabs):
        rows = X[slab == i]
        np.testing.assert_allclose(first[i], rows.sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(second[i], rows.T @ rows, atol=1e-12)


def test_number_slabs__tails_are_clipped() -> None:
    margin = np.array([-9.0, -1.0, -0.51, -0.5, 0.0, 0.49, 0.5, 1.0, 9.0])
    assert number_slabs(margin, 0.5, 2).tolist() == [0, 1, 1, 2, 3, 3, 4, 5, 5]
