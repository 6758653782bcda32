"""Small linear programs: which few columns hold a target in their cone.

The two-phase simplex method on tableaus of one shape, compiled. It decides nothing by itself: what
it finds is proved elsewhere, so plain floating point will do. Thousands of programs of some ten
equations and a hundred columns take tens of microseconds each, a hundredth of what a general
solver takes to begin.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.compiling import compiled

Array = NDArray[np.float64]

_PIVOT, _GAIN, _RESIDUAL = 1e-9, 1e-9, 1e-7
"""Smallest pivot and smallest gain that are no rounding, and what is left of a target that was met;
columns are of the order of 1."""

_NUDGE = 1e-9
"""Targets are moved by as much, or ties would make the method turn in circles."""

_TURNS, _MORE_TURNS = 6, 20
"""Turns for each equation, and in addition, after which a program is given up."""


@compiled
def feasible_basis(
    columns: Array,
    target: Array,
    costs: Array,
    spare: int,
    basis: NDArray[np.int64],
    weights: Array,
) -> tuple[bool, int]:
    """Write weights >= 0 with `weights @ columns = target`, of small costs, and their columns.

    Parameters
    ----------
    columns, target, costs
        (m, r), (r,) and (m,).
    spare
        Turns to save costs, once the target is met.
    basis, weights
        (r,): a column is -1 where none has a part in it.

    Returns
    -------
    met, operations
        Whether the target was met, and what that took.
    """
    width, size = columns.shape
    # equations, then reduced costs of artificial columns and of those given; values stand last
    table = np.empty((size + 2, width + 1))
    for i in range(size + 2):
        for j in range(width + 1):
            table[i, j] = 0.0
    for i in range(size):
        sign = -1.0 if target[i] < 0 else 1.0
        for j in range(width):
            table[i, j] = columns[j, i] * sign
        table[i, width] = target[i] * sign + _NUDGE * (1 + i / size)
        basis[i] = -1
        for j in range(width + 1):
            table[size, j] -= table[i, j]
    for j in range(width):
        table[size + 1, j] = costs[j]
    turns = 0
    while turns < _TURNS * size + _MORE_TURNS:
        met = -table[size, width] <= _RESIDUAL
        if met and spare <= 0:
            break
        phase, column, least = size + 1 if met else size, -1, -_GAIN
        for j in range(width):
            if table[phase, j] < least:
                column, least = j, table[phase, j]
        row, shortest = -1, math.inf
        for i in range(size if column >= 0 else 0):
            if table[i, column] > _PIVOT and table[i, width] / table[i, column] < shortest:
                row, shortest = i, table[i, width] / table[i, column]
        if row < 0:
            break
        spare -= met
        pivot = table[row, column]
        for j in range(width + 1):
            table[row, j] /= pivot
        for i in range(size + 2):
            slope = table[i, column]
            if i != row and slope != 0:
                for j in range(width + 1):
                    table[i, j] -= slope * table[row, j]
        basis[row] = column
        turns += 1
    for i in range(size):
        weights[i] = table[i, width]
    return -table[size, width] <= _RESIDUAL, (turns + 1) * (size + 2) * (width + 1)
