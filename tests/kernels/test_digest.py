from __future__ import annotations

import numpy as np
import pytest

from streamhalf.kernels.digest import KEPT, LARGEST, RowSketch, digest_rows, limit_for
from streamhalf.testing import assert_identical

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


RNG = np.random.default_rng(5)


def draw(n: int) -> np.ndarray:
    return RNG.integers(0, LARGEST, n, dtype=np.uint64)


def sketch(hashes: np.ndarray, limit: int) -> RowSketch:
    return RowSketch.of(hashes[hashes <= np.uint64(limit)])


DIFFERENT = draw(200_000)
DATA = {
    "different": DIFFERENT,
    "twice": np.tile(DIFFERENT[:60_000], 2),
    "some": np.concatenate([DIFFERENT, DIFFERENT[:4_000]]),
    "one": np.concatenate([DIFFERENT, np.full(200_000, draw(1)[0])]),
    "few": DIFFERENT[np.arange(100_000) % 16],
    "small": DIFFERENT[np.arange(900) % 300],
}


@pytest.mark.parametrize("hashes", DATA.values(), ids=DATA)
@pytest.mark.parametrize("known", [True, False])
def test_add__any_chunking_gives_the_same_counts(hashes: np.ndarray, known: bool) -> None:
    limit = limit_for(len(hashes)) if known else LARGEST
    whole = sketch(hashes, limit)
    parts = [sketch(piece, limit) for piece in np.array_split(RNG.permutation(hashes), 7)]
    merged = RowSketch.of(np.empty(0, dtype=np.uint64))
    for part in parts:
        merged = merged + part
    assert_identical(merged, whole)
    different, counts = np.unique(hashes[hashes <= np.uint64(limit)], return_counts=True)
    kept = min(KEPT, len(different))
    np.testing.assert_array_equal(whole.hashes[:kept], different[:kept])
    np.testing.assert_array_equal(whole.counts[:kept], counts[:kept])
    assert not whole.counts[kept:].any()


@pytest.mark.parametrize(
    ("name", "share", "times"),
    [
        ("different", 0.0, 1.0),
        ("twice", 1.0, 2.0),
        ("some", 8_000 / 204_000, 1.02),
        # the sample of different rows lacks it, but they are too few for so many rows
        ("one", 0.5, 2.0),
        ("small", 1.0, 3.0),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_repeats__are_seen(name: str, share: float, times: float, known: bool) -> None:
    hashes = DATA[name]
    limit = limit_for(len(hashes)) if known else LARGEST
    found = sketch(hashes, limit).repeats(len(hashes), limit)
    # 1,024 different rows: shares are right to 0.02 or so, their number to a tenth
    assert found == (pytest.approx(share, abs=0.03), pytest.approx(times, rel=0.1))
    if share == 0:
        assert found == (0.0, 1.0)


def test_repeats__a_handful_of_rows_many_times() -> None:
    hashes = DATA["few"]
    assert sketch(hashes, LARGEST).repeats(len(hashes), LARGEST) == (1.0, len(hashes) / 16)
    # perhaps none of them is looked at; that tells, too
    share, times = sketch(hashes, limit := limit_for(len(hashes))).repeats(len(hashes), limit)
    assert share > 0.99
    assert times > 100


def test_repeats__of_no_rows() -> None:
    assert RowSketch.of(np.empty(0, dtype=np.uint64)).repeats(0, LARGEST) == (0.0, 1.0)


def test_limit_for__looks_at_all_of_few_rows_and_enough_of_many() -> None:
    assert limit_for(0) == limit_for(8 * KEPT) == LARGEST
    assert limit_for(10**9) / 2**64 * 10**9 == pytest.approx(8 * KEPT)
