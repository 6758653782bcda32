from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.errors import PlaneErrors
from streamhalf.testing import make_block

N_ROWS = 40_000
BLOCK = make_block(N_ROWS, 3, seed=2, dtype="float32")
PLANES = (
    Plane(np.array([1.0, 0.0, 0.0])),
    Plane(np.array([1.0, 2.0, -1.0]), 0.7),
    Plane(np.array([0.0, 0.0, 1e-3]), -1.0),
)
ERRORS = PlaneErrors(PLANES, N_ROWS)


def test_plane_errors__are_those_of_each_plane() -> None:
    found = ERRORS.map(BLOCK)
    assert found.n_rows == N_ROWS
    assert found.errors.tolist() == [plane.errors(BLOCK.X, BLOCK.y) for plane in PLANES]
    positive = BLOCK.y > 0
    assert found.positives == np.count_nonzero(positive)
    assert found.positive_errors.tolist() == [plane.errors(BLOCK.X[positive], BLOCK.y[positive]) for plane in PLANES]


def test_plane_errors__in_pairs() -> None:
    found = ERRORS.map(BLOCK)
    wrong = np.array([plane.signs(BLOCK.X) != BLOCK.y for plane in PLANES])
    for i, left in enumerate(wrong):
        for j, right in enumerate(wrong):
            assert found.shared[i, j] == np.count_nonzero(left & right)
            assert found.disagreements(i, j) == np.count_nonzero(left != right)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_plane_errors__a_threshold_may_cancel_most_of_a_row(dtype: str) -> None:
    # in float32 a sum of 1e6 tells no quarters apart
    X = np.tile(np.array([[1e6, 0.0]], dtype=dtype), (9, 1))
    X[:, 1] = np.linspace(-1, 1, 9)
    y = np.where(X[:, 1] >= 0, 1, -1).astype(np.int8)
    plane = Plane(np.array([1.0, 0.01]), 1e6)
    found = PlaneErrors((plane,), 9).map(Block(X, y, np.arange(9)))
    assert found.errors.tolist() == [0]
