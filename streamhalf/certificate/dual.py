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


def bound_form(matrix: Array, parts: Parts, start: Array, *, steps: int) -> tuple[float, Array]:
    """Lower bound on y·My over all y with parts of length 1, and a y at which it is small.

    Parameters
    ----------
    matrix
        M, symmetric.
    parts
        Of y.
    start
        Where the search for the smallest y begins.
    steps
        Of that search; the bound holds whatever they find.
    """
    count = len(parts.starts)
    scale = float(np.abs(matrix).max())
    if scale == 0:
        return 0.0, start
    y = parts.normalise(start)
    # y may be an eigenvector that is not the bottom one: the iteration must not start there
    aside = parts.normalise(np.cos(np.arange(len(y)) ** 2)) * ASIDE
    proved, best_y, chosen = -math.inf, y, (np.zeros(count), -scale)
    for _ in range(steps):
        image = matrix @ y
        shift = parts.dots(y, image)
        residual = image - shift[parts.owner] * y
        guess = -math.sqrt(float(residual @ residual) / count)
        factor, low = _factor_below(matrix, shift[parts.owner], guess, ROUGH * scale)
        vector = y + aside
        for _ in range(INVERSE_STEPS):
            vector = scipy.linalg.lapack.dpotrs(factor.T, vector, lower=0)[0]
            vector /= math.sqrt(float(vector @ vector))
        lowest = float(vector @ (matrix @ vector)) - float(shift @ parts.dots(vector, vector))
        y = parts.normalise(vector)
        # ranked by what is proved: the quotient may belong to another eigenvalue
        if (value := float(shift.sum()) + count * low) > proved:
            proved, best_y, chosen = value, y, (shift, lowest)
    shift, lowest = chosen
    _, low = _factor_below(matrix, shift[parts.owner], lowest, FINE * scale)
    return max(proved, float(shift.sum()) + count * low), best_y


def _factor_below(matrix: Array, shift: Array, guess: float, slack: float) -> tuple[Array, float]:
    """A lower bound on the eigenvalues of matrix - diag(shift), and the factor that proves it.

    The bound is a little below `guess` if that is one. A factor that exists in floating point
    proves that the matrix it was made of is positive but for n + 1 roundings of its trace (Higham,
    Accuracy and Stability of Numerical Algorithms, theorem 10.3).
    """
    size = len(matrix)
    slack += 1e-4 * abs(guess)
    for _ in range(_MOST_TRIES):
        low = guess - slack
        work = matrix.copy()
        work.ravel()[:: size + 1] -= shift + low
        trace = float(work.trace())
        try:
            # of NumPy, which lets other threads go on meanwhile
            factor = np.linalg.cholesky(work)
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
    return np.linalg.cholesky(work), low
