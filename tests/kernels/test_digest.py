from __future__ import annotations

import numpy as np
import pytest

from streamhalf.kernels.digest import digest_rows

ROWS = np.arange(20, dtype=np.int64)


def make(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((20, 4)).astype(dtype), np.ones(20, dtype=np.int8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [[0], [1, 2], [0, 1, 2, 3]])
def test_digest_rows__changed_signs_do_not_cancel(dtype: type, features: list[int]) -> None:
    X, y = make(dtype)
    changed = X.copy()
    changed[7, features] *= -1
    assert digest_rows(changed, y, ROWS)[0] != digest_rows(X, y, ROWS)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digest_rows__swapped_rows_and_labels_show(dtype: type) -> None:
    X, y = make(dtype)
    whole = digest_rows(X, y, ROWS)[0]
    swapped = X[[1, 0, *range(2, 20)]]
    assert digest_rows(swapped, y, ROWS)[0] != whole
    flipped = y.copy()
    flipped[3] = -1
    assert digest_rows(X, flipped, ROWS)[0] != whole


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digest_rows__pieces_add_up(dtype: type) -> None:
    X, y = make(dtype)
    parts = [digest_rows(X[a:b], y[a:b], ROWS[a:b])[0] for a, b in ((0, 9), (9, 20))]
    assert sum(parts) % 2**64 == digest_rows(X, y, ROWS)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digest_rows__the_sketch_tells_the_same_row_elsewhere(dtype: type) -> None:
    X, y = make(dtype)
    X[[3, 5, 11]] = X[8]
    y[5] = -1  # the same features with another label are another row
    _, sketch = digest_rows(X, y, ROWS)
    assert sorted(sketch.counts[sketch.counts > 0].tolist()) == [1] * 17 + [3]
    few = int(sketch.hashes[4])
    _, smaller = digest_rows(X, y, ROWS, limit=few)
    np.testing.assert_array_equal(smaller.hashes[:5], sketch.hashes[:5])
    assert not smaller.counts[5:].any()


def test_digest_rows__hashes_of_regular_rows_are_spread_evenly() -> None:
    n = 300_000
    grid = np.stack([np.arange(n) % 600, np.arange(n) // 600], axis=1)
    for X in (grid.astype(np.float64), grid.astype(np.float32), np.arange(n)[:, None] / 8):
        _, sketch = digest_rows(X, np.ones(n, dtype=np.int8), np.arange(n))
        assert sketch.counts.max() == 1
        # the last of k hashes of n rows is about k / n of the way; 5 standard deviations
        reach = float(sketch.hashes[-1]) / 2.0**64
        assert reach == pytest.approx(len(sketch.hashes) / n, rel=5 / len(sketch.hashes) ** 0.5)
