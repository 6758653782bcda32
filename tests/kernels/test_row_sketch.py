"""Rows that repeat: exact whatever the chunking, and noticed where there are many or a few."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.kernels.digest import KEPT, LARGEST, RowSketch, limit_for
from streamhalf.testing import assert_identical

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
def test_merge__any_chunking_gives_the_same_counts(hashes: np.ndarray, known: bool) -> None:
    limit = limit_for(len(hashes)) if known else LARGEST
    whole = sketch(hashes, limit)
    parts = [sketch(piece, limit) for piece in np.array_split(RNG.permutation(hashes), 7)]
    merged = RowSketch.of(np.empty(0, dtype=np.uint64))
    for part in parts:
        merged = merged.merge(part)
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
