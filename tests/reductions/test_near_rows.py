"""Rows next to a plane, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.near_rows import NearRows
from streamhalf.reductions.row_sample import RowSample


@pytest.mark.parametrize("threshold", [0.0, -1.5])
def test_near_rows__are_those_within_reach(threshold: float) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((500, 3)), np.where(rng.random(500) < 0.5, 1, -1).astype(np.int8)
    block = Block(X, y, np.arange(100, 600))
    near = NearRows(
        RowSample(500, seed=1, stream=9), Plane(np.array([0.6, 0.0, 0.8]), threshold), 0.25
    )
    found = near.finalize(near.map(block)).block
    expected = np.abs(X @ [0.6, 0.0, 0.8] - threshold) < 0.25
    assert 0 < expected.sum() < 200
    np.testing.assert_array_equal(found.rows, block.rows[expected])
    np.testing.assert_array_equal(found.X, X[expected])
    np.testing.assert_array_equal(found.y, y[expected])
