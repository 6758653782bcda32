"""The eigenvalue of largest size and its vector, without all the others where there are many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MANY = 256  # from this size on all vectors cost several times what the values and one vector do
_BESIDE = 1e-9  # how far beside an eigenvalue the system is solved that its vector dominates


def extreme_eigenpair(matrix: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """The eigenvalue of largest size of a symmetric matrix, and a vector of length 1 to it."""
    if len(matrix) < _MANY:
        values, vectors = np.linalg.eigh(matrix)
        i = int(np.argmax(np.abs(values)))
        return float(values[i]), vectors[:, i]
    values = np.linalg.eigvalsh(matrix)
    value = float(values[int(np.argmax(np.abs(values)))])
    # inverse iteration from outside of the spectrum; the start is nearly orthogonal to no vector
    beside = value + np.copysign(_BESIDE * max(1.0, abs(value)), value)
    shifted = matrix - beside * np.eye(len(matrix))
    start = np.random.default_rng(0).standard_normal(len(matrix))
    vector = np.linalg.solve(shifted, start)
    return value, np.asarray(vector / np.linalg.norm(vector))
