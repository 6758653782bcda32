from __future__ import annotations

import numpy as np
import pytest

from streamhalf.kernels.digest import sum_row_hashes

ROWS = np.arange(20, dtype=np.int64)


def make(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((20, 4)).astype(dtype), np.ones(20, dtype=np.int8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [[0], [1, 2], [0, 1, 2, 3]])
def test_sum_row_hashes__changed_signs_do_not_cancel(dtype: type, features: list[int]) -> None:
    X, y = make(dtype)
    changed = X.copy()
    changed[7, features] *= -1
    assert sum_row_hashes(changed, y, ROWS) != sum_row_hashes(X, y, ROWS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sum_row_hashes__swapped_rows_and_labels_show(dtype: type) -> None:
    X, y = make(dtype)
    whole = sum_row_hashes(X, y, ROWS)
    swapped = X[[1, 0, *range(2, 20)]]
    assert sum_row_hashes(swapped, y, ROWS) != whole
    flipped = y.copy()
    flipped[3] = -1
    assert sum_row_hashes(X, flipped, ROWS) != whole


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sum_row_hashes__pieces_add_up(dtype: type) -> None:
    X, y = make(dtype)
    parts = [sum_row_hashes(X[a:b], y[a:b], ROWS[a:b]) for a, b in ((0, 9), (9, 20))]
    assert sum(parts) % 2**64 == sum_row_hashes(X, y, ROWS)
