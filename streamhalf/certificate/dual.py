"""Lower bounds on a quadratic form over a product of spheres, certified by Cholesky factors.

For every shift nu_j of the parts of y, each of length 1, y·My is at least sum nu_j plus the number
of parts times the smallest eigenvalue of M - diag(nu). The best shifts are those of a y at which
the form is smallest, nu_j = y_j·(My)_j: inverse iteration finds it in a few steps. Only the last
eigenvalue is claimed, and only from below: the matrix less that number has a Cholesky factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg.lapack
from numpy.typing import NDArray

Array = NDArray[np.float64]

INVERSE_STEPS = 5
"""Solves with one factor: the bottom eigenvector to a few digits."""

ROUGH, FINE = 1e-2, 1e-7
"""How far below a guess the smallest eigenvalue is first looked for, in units of the matrix."""

NEXT_TO = 5e-4
"""The same in units of the guess: nearer ones fail too often to be worth a factor."""

HALFWAY, SMALLEST_SLOPE = 0.5, 0.01
"""Share of Polyak's step that is taken, and the square of the slope below which it gets smaller."""

ASIDE = 0.1
"""How far from the last y inverse iteration begins."""

_UNIT = float(np.finfo(np.float64).eps)
_WIDENING = 4.0
_MOST_TRIES = 16


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Where the parts of y begin, and to which part each entry belongs."""

    starts: NDArray[np.int64]
    owner: NDArray[np.int64]

    @classmethod
    def of(cls, parts: tuple[slice, ...]) -> Parts:
        """From the parts' slices."""
        sizes = [part.stop - part.start for part in parts]
        return cls(
            np.array([part.start for part in parts]), np.repeat(np.arange(len(parts)), sizes)
        )

    def dots(self, left: Array, right: Array) -> Array:
        """Inner product of every part."""
        return np.asarray(np.add.reduceat(left * right, self.starts))

    def normalise(self, y: Array) -> Array:
        """Every part at length 1; a part that is all but 0 stays as it is."""
        length = np.sqrt(self.dots(y, y))
        length[length <= 1e-12 * length.max()] = 1.0
        return np.asarray(y / length[self.owner])


@dataclass(frozen=True, slots=True, eq=False)
class Shifts:
    """Shifts that served one form, the bottom vector that they left and its eigenvalue."""

    shift: Array
    vector: Array
    lowest: float

    @classmethod
    def of(cls, matrix: Array, parts: Parts, y: Array) -> Shifts:
        """Those of a y at which the form is small, about."""
        y = parts.normalise(y)
        image = matrix @ y
        shift = parts.dots(y, image)
        residual = image - shift[parts.owner] * y
        lowest = -2 * math.sqrt(float(residual @ residual) / len(shift))
        return cls(shift, y / math.sqrt(len(shift)), lowest)


def bound_form(matrix: Array, parts: Parts, start: Shifts, *, steps: int) -> tuple[float, Shifts]:
    """Lower bound on y·My over all y with parts of length 1, and the shifts that gave it.

    Parameters
    ----------
    matrix
        M, symmetric.
    parts
        Of y.
    start
        Where the search for the best shifts begins.
    steps
        Of that search; the bound holds whatever they find.
    """
    count = len(parts.starts)
    scale = float(np.abs(matrix).max())
    if scale == 0:
        return 0.0, start
    # the start may be an eigenvector that is not the bottom one
    aside = np.cos(np.arange(len(matrix)) ** 2.0) * (ASIDE / math.sqrt(len(matrix)))
    best, most, now = start, -math.inf, start
    for _ in range(steps):
        slack = ROUGH * (scale + abs(now.lowest))
        factor, low = _factor_below(matrix, now.shift[parts.owner], now.lowest, slack)
        vector = now.vector + aside
        for _ in range(INVERSE_STEPS):
            vector = scipy.linalg.lapack.dpotrs(factor.T, vector, lower=0)[0]
            vector /= math.sqrt(float(vector @ vector))
        norms = parts.dots(vector, vector)
        image = matrix @ vector - now.shift[parts.owner] * vector
        quotient = float(vector @ image)
        residual = image - quotient * vector
        # a vector that is still on its way looks better than it is
        lowest = quotient - math.sqrt(float(residual @ residual))
        value = float(now.shift.sum()) + count * lowest
        # ranked by what is proved: the quotient may belong to another eigenvalue
        if (proved := float(now.shift.sum()) + count * low) > most:
            best, most = Shifts(now.shift, vector, lowest), proved
        # towards the shifts whose bottom vector has parts of one length, as far as the form there
        # would allow (Polyak's step)
        y = parts.normalise(vector)
        slope = 1 - count * norms
        gap = max(float(y @ (matrix @ y)) - value, 0.0)
        step = HALFWAY * gap / max(float(slope @ slope), SMALLEST_SLOPE)
        now = Shifts(now.shift + step * slope, vector, lowest)
    slack = FINE * scale + NEXT_TO * abs(best.lowest)
    _, low = _factor_below(matrix, best.shift[parts.owner], best.lowest, slack)
    return max(most, float(best.shift.sum()) + count * low), best


def _factor_below(matrix: Array, shift: Array, guess: float, slack: float) -> tuple[Array, float]:
    """A lower bound on the eigenvalues of matrix - diag(shift), and the factor that proves it.

    The bound is a little below `guess` if that is one. A factor that exists in floating point
    proves that the matrix it was made of is positive but for n + 1 roundings of its trace (Higham,
    Accuracy and Stability of Numerical Algorithms, theorem 10.3).
    """
    size = len(matrix)
    for _ in range(_MOST_TRIES):
        low = guess - slack
        work = matrix.copy()
        work.ravel()[:: size + 1] -= shift + low
        trace = float(work.trace())
        try:
            # of NumPy, which lets other threads go on meanwhile
            factor: Array = np.asarray(np.linalg.cholesky(work), dtype=np.float64)
        except np.linalg.LinAlgError:
            slack *= _WIDENING
        else:
            return factor, low - 4 * (size + 1) * _UNIT * (
                trace + 2 * size * float(np.abs(shift + low).max())
            )
    # Gershgorin: true of any matrix, and far enough below for a factor
    low = -2 * size * float(np.abs(matrix).max()) - float(shift.max()) - slack
    work = matrix.copy()
    work.ravel()[:: size + 1] -= shift + low
    return np.asarray(np.linalg.cholesky(work), dtype=np.float64), low
