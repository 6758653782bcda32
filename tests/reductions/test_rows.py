from __future__ import annotations

import numpy as np

from streamhalf.reductions.rows import RowSample
from streamhalf.testing import assert_identical, make_block

BLOCK = make_block(1000, 2, seed=3)


def test_row_sample__of_fewer_rows_is_all_of_them() -> None:
    sample = RowSample(5000, seed=1, stream=9)
    found = sample.finalize(sample.map(BLOCK))
    assert found.n_rows == 1000
    assert_identical(found.block, BLOCK)


def test_row_sample__keeps_labels_and_numbers_with_their_rows() -> None:
    sample = RowSample(100, seed=1, stream=9)
    drawn = sample.finalize(sample.map(BLOCK)).block
    assert drawn.n_rows == 100
    assert (np.diff(drawn.rows) > 0).all()
    at = np.searchsorted(BLOCK.rows, drawn.rows)
    np.testing.assert_array_equal(drawn.rows, BLOCK.rows[at])
    np.testing.assert_array_equal(drawn.X, BLOCK.X[at])
    np.testing.assert_array_equal(drawn.y, BLOCK.y[at])
    assert set(drawn.y.tolist()) == {-1, 1}


def test_row_sample__is_fair() -> None:
    # each of 1,000 rows is in 40 of 400 samples on average, a binomial of standard deviation 6: one
    # of them is off by 40 with probability below 1e-6
    rows = [RowSample(100, seed=seed, stream=9).map(BLOCK).block.X[:, 0] for seed in range(400)]
    found = np.searchsorted(np.sort(BLOCK.X[:, 0]), np.concatenate(rows))
    counts = np.bincount(found, minlength=1000)
    assert counts.sum() == 40_000
    assert np.abs(counts - 40).max() < 40
