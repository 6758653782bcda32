from __future__ import annotations

import numpy as np
import pytest

from streamhalf.kernels.eigen import extreme_eigenpair


@pytest.mark.parametrize("size", [1, 30, 255, 256, 400])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_extreme_eigenpair__is_the_one_of_all(size: int, sign: float) -> None:
    drawn = np.random.default_rng(size).standard_normal((2 * size, size))
    matrix = sign * (drawn.T @ drawn / (2 * size) - np.eye(size))
    value, vector = extreme_eigenpair(matrix)
    values = np.linalg.eigvalsh(matrix)
    assert value == pytest.approx(values[np.argmax(np.abs(values))], rel=1e-12)
    assert np.linalg.norm(vector) == pytest.approx(1)
    np.testing.assert_allclose(matrix @ vector, value * vector, atol=1e-6)


def test_extreme_eigenpair__of_nothing_and_of_equal_values() -> None:
    for matrix in (np.zeros((300, 300)), 0.5 * np.eye(300)):
        value, vector = extreme_eigenpair(matrix)
        assert value == pytest.approx(matrix[0, 0])
        np.testing.assert_allclose(matrix @ vector, value * vector, atol=1e-9)
