from __future__ import annotations

import numpy as np
import pytest

from streamhalf.kernels.margins import margins
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.plane_slabs import count_planes_slabs
from streamhalf.kernels.slabs import number_slabs

PLANES = (
    Plane(np.array([0.6, 0.8, 0.0])),
    Plane(np.array([0.0, 0.6, -0.8]), 0.25),
    Plane(np.array([1.0, 0.0, 0.0]), -3.0),
)


def one_by_one(X: np.ndarray, width: float, half_count: int) -> list[list[int]]:
    slabs = [
        number_slabs(margins(X, plane.normal) - X.dtype.type(plane.threshold), width, half_count)
        for plane in PLANES
    ]
    return [np.bincount(slab, minlength=2 * half_count + 2).tolist() for slab in slabs]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("width", "half_count"), [(0.5, 4), (0.01, 300), (1e-6, 50)])
def test_count_planes_slabs__equals_rows_one_by_one(
    dtype: str, width: float, half_count: int
) -> None:
    X = np.random.default_rng(4).standard_normal((20_000, 3)).astype(dtype)
    X[::7] = np.round(X[::7] / width) * width  # next to edges
    found = count_planes_slabs(PLANES, X, width, half_count)
    assert found.sum(axis=1).tolist() == [20_000] * 3
    assert found.tolist() == one_by_one(X, width, half_count)


def test_count_planes_slabs__rows_that_are_too_large_lie_in_the_tails() -> None:
    X = np.array([[3e38, 3e38, 0], [-3e38, 0, 0], [0, 0, 0]], dtype=np.float32)
    assert count_planes_slabs(PLANES[:1], X, 0.01, 2).tolist() == [[1, 0, 0, 1, 0, 1]]


def test_count_planes_slabs__of_no_rows_are_none() -> None:
    assert not count_planes_slabs(PLANES, np.empty((0, 3), np.float32), 0.1, 3).any()
