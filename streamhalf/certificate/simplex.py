"""Many small linear programs at once: which few columns hold a target in their cone.

The two-phase simplex method on a stack of tableaus of one shape. It decides nothing by itself:
what it finds is proved elsewhere, so plain floating point will do. Sums aside, whose rounding may
differ from machine to machine, it takes the same turns everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_PIVOT, _GAIN, _RESIDUAL = 1e-9, 1e-9, 1e-7
"""Smallest pivot and smallest gain that are no rounding, and what is left of a target that was met;
columns are of the order of 1."""

_NUDGE = 1e-9
"""Targets are moved by as much, or ties would make the method turn in circles."""

_TURN_OPERATIONS = 30_000
"""What a turn of all programs takes besides its arithmetic, in operations on an array."""

_TURNS, _MORE_TURNS = 6, 20
"""Turns for each equation, and in addition, after which a program is given up."""


@dataclass(frozen=True, slots=True, eq=False)
class Bases:
    """What was found for each of b programs.

    Whether the target was met (b,); the columns of the basis (b, r), -1 where one has no part in
    it; their weights (b, r), about; and the operations that it took.
    """

    found: NDArray[np.bool_]
    columns: NDArray[np.int64]
    weights: Array
    operations: int


@dataclass(slots=True, eq=False)
class _Tableaus:
    """Tableaus (b, r + 2, m + 1) under way: equations, two rows of reduced costs; last: values."""

    table: Array
    basis: NDArray[np.int64]
    number: NDArray[np.int64]
    spare: NDArray[np.int64]

    @classmethod
    def of(cls, columns: Array, targets: Array, costs: Array, spare: int) -> _Tableaus:
        """With a basis of artificial columns, whose sum is to be brought to 0 first."""
        n, size, width = columns.shape
        table = np.empty((n, size + 2, width + 1))
        signs = np.where(targets < 0, -1.0, 1.0)
        np.multiply(columns, signs[:, :, None], out=table[:, :size, :width])
        table[:, :size, width] = targets * signs + _NUDGE * (1 + np.arange(size) / size)
        table[:, size] = -table[:, :size].sum(axis=1)
        table[:, size + 1, :width], table[:, size + 1, width] = costs, 0.0
        return cls(table, np.full((n, size), -1), np.arange(n), np.full(n, spare))

    @property
    def size(self) -> int:
        """Equations of a program."""
        return int(self.table.shape[1]) - 2

    @property
    def met(self) -> NDArray[np.bool_]:
        """Whether nothing is left of the targets."""
        return np.asarray(-self.table[:, self.size, -1] <= _RESIDUAL)

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Go on with these alone."""
        self.table, self.basis = self.table[chosen], self.basis[chosen]
        self.number, self.spare = self.number[chosen], self.spare[chosen]

    def entering(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The column that promises most in each, and whether there is none, or no turn left."""
        met = self.met
        costs = np.where(
            met[:, None], self.table[:, self.size + 1, :-1], self.table[:, self.size, :-1]
        )
        column = costs.argmin(axis=1)
        none = costs[np.arange(len(column)), column] > -_GAIN
        return column, np.asarray(none | (met & (self.spare <= 0)))

    def leaving(self, column: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The equation whose column leaves the basis, and whether there is none."""
        places = np.arange(len(column))
        slopes = self.table[places, : self.size, column]
        values = self.table[:, : self.size, -1]
        steps = np.full_like(slopes, np.inf)
        np.divide(values, slopes, out=steps, where=slopes > _PIVOT)
        row = steps.argmin(axis=1)
        return row, np.asarray(np.isinf(steps[places, row]))

    def turn(self, row: NDArray[np.int64], column: NDArray[np.int64]) -> None:
        """Exchange one column of each basis."""
        places = np.arange(len(row))
        self.spare = self.spare - self.met
        slopes = self.table[places, :, column]
        pivots = self.table[places, row] / slopes[places, row][:, None]
        slopes[places, row] = 0.0
        self.table -= slopes[:, :, None] * pivots[:, None, :]
        self.table[places, row] = pivots
        self.basis[places, row] = column


def feasible_bases(columns: Array, targets: Array, costs: Array, *, spare: int) -> Bases:
    """Weights >= 0 with `columns @ weights = target`, of small costs, for each program.

    Parameters
    ----------
    columns, targets, costs
        Of b programs: (b, r, m), (b, r) and (b, m).
    spare
        Turns to save costs, once a target is met.
    """
    n, size, _ = columns.shape
    work = _Tableaus.of(columns, targets, costs, spare)
    found = np.zeros(n, dtype=np.bool_)
    basis, weights = np.full((n, size), -1), np.zeros((n, size))
    operations = 0
    for _ in range(_TURNS * size + _MORE_TURNS):
        column, done = work.entering()
        row, stuck = work.leaving(column)
        ended = done | stuck
        if ended.any():
            names = work.number[ended]
            found[names], basis[names] = work.met[ended], work.basis[ended]
            weights[names] = work.table[ended, :size, -1]
            work.keep(~ended)
            row, column = row[~ended], column[~ended]
        if not len(row):
            break
        work.turn(row, column)
        operations += work.table.size + _TURN_OPERATIONS
    return Bases(found, basis, weights, operations)
