"""Lower bounds on a quadratic form over a product of spheres, certified by Cholesky factors.

For every shift nu_j of the parts of y, each of length 1, y·My is at least sum nu_j plus the number
of parts times the smallest eigenvalue of M - diag(nu). The best shifts are those of a y at which
the form is smallest, nu_j = y_j·(My)_j: inverse iteration finds it in a few steps. Only the last
eigenvalue is claimed, and only from below: the matrix less that number has a Cholesky factor.

Compiled, and free of the interpreter; factors are those of SciPy's LAPACK.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic
from numpy.typing import NDArray

from streamhalf.kernels.compiling import compiled

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic

ROUNDING = 2.0**-52
"""Twice the relative error of one operation."""

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

DESCENTS = 25
"""Steps down the gradient."""

_WIDENING = 4.0
_MOST_TRIES = 16
_UPPER = ord("U")


@cache
def lapack_addresses() -> tuple[int, int]:
    """Where dpotrf and dpotrs are in this process."""
    module = "scipy.linalg.cython_lapack"
    factor, solution = (get_cython_function_address(module, name) for name in ("dpotrf", "dpotrs"))
    return factor, solution


@_intrinsic
def _call(typing: Any, address: Any, pointers: Any) -> Any:
    """Call the C function at an address, which takes pointers and returns nothing."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        found = cgutils.unpack_tuple(builder, values[1])
        kind = ir.FunctionType(ir.VoidType(), [one.type for one in found])
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), found)
        return context.get_dummy_value()

    return types.void(address, pointers), generate


@compiled
def _numbers(size: int) -> NDArray[np.int32]:
    """Arguments of LAPACK: size, right-hand sides, triangle, and the outcome."""
    numbers = np.empty(4, dtype=np.int32)
    numbers[0], numbers[1], numbers[2], numbers[3] = size, 1, _UPPER, 0
    return numbers


@compiled
def _factor(matrix: Array, lapack: tuple[int, int]) -> bool:
    """Overwrite the lower triangle by the Cholesky factor; False if there is none."""
    numbers = _numbers(len(matrix))
    size = numbers.ctypes.data
    _call(lapack[0], (size + 8, size, matrix.ctypes.data, size, size + 12))
    return bool(numbers[3] == 0)


@compiled
def _solve(factor: Array, vector: Array, lapack: tuple[int, int]) -> bool:
    """Overwrite a vector by the solution for a factored matrix."""
    numbers = _numbers(len(factor))
    size, places = numbers.ctypes.data, (factor.ctypes.data, vector.ctypes.data)
    _call(lapack[1], (size + 8, size, size + 4, places[0], size, places[1], size, size + 12))
    return bool(numbers[3] == 0)


@compiled
def dot(left: Array, right: Array) -> float:
    """Inner product."""
    total = 0.0
    for i in range(len(left)):
        total += left[i] * right[i]
    return total


@compiled
def times(matrix: Array, vector: Array, result: Array) -> None:
    """Write a symmetric matrix times a vector."""
    for j in range(len(vector)):
        result[j] = 0.0
    for i in range(len(vector)):
        for j in range(len(vector)):
            result[j] += vector[i] * matrix[i, j]


@compiled
def bound_form(
    matrix: Array, owner: Indices, shift: Array, vector: Array, lowest: float, steps: int, lapack: tuple[int, int]
) -> tuple[float, float]:
    """Lower bound on y·My over all y with parts of length 1, and the eigenvalue that gave it.

    Shifts are looked for in so many `steps` from those given, which are overwritten by those that
    served, as the bottom vector is; the bound holds whatever they are.
    """
    count, size, scale, total = len(shift), len(matrix), 0.0, 0.0
    for i in range(size):
        for j in range(size):
            scale = max(scale, abs(matrix[i, j]))
    if scale == 0:
        return 0.0, lowest
    work, image, y = np.empty((size, size)), np.empty(size), np.empty(size)
    norms, now, trial = np.empty(count), shift.copy(), vector.copy()
    guess, best, most = lowest, lowest, -math.inf
    for _ in range(steps):
        slack = ROUGH * (scale + abs(guess))
        low = factor_below(matrix, owner, now, guess, slack, work, lapack)
        for i in range(size):  # the start may be an eigenvector that is not the bottom one
            trial[i] += math.cos(float(i) * i) * (ASIDE / math.sqrt(size))
        for _ in range(INVERSE_STEPS):
            _solve(work, trial, lapack)
            length = math.sqrt(dot(trial, trial))
            for i in range(size):
                trial[i] /= length
        times(matrix, trial, image)
        for part in range(count):
            norms[part] = 0.0
        for i in range(size):
            norms[owner[i]] += trial[i] * trial[i]
            image[i] -= now[owner[i]] * trial[i]
        quotient, residual = dot(trial, image), 0.0
        for i in range(size):
            residual += (image[i] - quotient * trial[i]) ** 2
        # a vector that is still on its way looks better than it is
        guess, total = quotient - math.sqrt(residual), 0.0
        for part in range(count):
            total += now[part]
        # ranked by what is proved: the quotient may belong to another eigenvalue
        if total + count * low > most:
            best, most = guess, total + count * low
            for part in range(count):
                shift[part] = now[part]
            for i in range(size):
                vector[i] = trial[i]
        # towards the shifts whose bottom vector has parts of one length, as far as the form there
        # would allow (Polyak's step)
        normalise_parts(trial, owner, norms, y)
        times(matrix, y, image)
        gap, steepness = max(dot(y, image) - total - count * guess, 0.0), 0.0
        for part in range(count):
            steepness += (1 - count * norms[part]) ** 2
        for part in range(count):
            step = HALFWAY * gap / max(steepness, SMALLEST_SLOPE)
            now[part] += step * (1 - count * norms[part])
    slack = FINE * scale + NEXT_TO * abs(best)
    low, total = factor_below(matrix, owner, shift, best, slack, work, lapack), 0.0
    for part in range(count):
        total += shift[part]
    return max(most, total + count * low), best


@compiled
def normalise_parts(vector: Array, owner: Indices, norms: Array, y: Array) -> None:
    """Write every part at length 1; a part that is all but 0 stays as it is."""
    largest = 0.0
    for part in range(len(norms)):
        largest = max(largest, norms[part])
    for i in range(len(vector)):
        norm = norms[owner[i]]
        y[i] = vector[i] / math.sqrt(norm) if norm > 1e-24 * largest else vector[i]


@compiled
def factor_below(
    matrix: Array, owner: Indices, shift: Array, guess: float, slack: float, work: Array, lapack: tuple[int, int]
) -> float:
    """A lower bound on the eigenvalues of matrix - diag(shift), and in `work` the factor.

    The bound is a little below `guess` if that is one. A factor that exists in floating point
    proves that the matrix it was made of is positive but for n + 1 roundings of its trace (Higham,
    Accuracy and Stability of Numerical Algorithms, theorem 10.3).
    """
    size, low, largest = len(matrix), guess - slack, 0.0
    for turn in range(_MOST_TRIES + 1):
        trace, widest = 0.0, 0.0
        if turn == _MOST_TRIES:  # Gershgorin: true of any matrix, and far enough below for a factor
            for part in range(len(shift)):
                largest = max(largest, abs(shift[part]))
            low = -largest - slack
            for i in range(size):
                largest = 0.0
                for j in range(size):
                    largest = max(largest, abs(matrix[i, j]))
                low -= 2 * largest
        for i in range(size):
            for j in range(size):
                work[i, j] = matrix[i, j]
            work[i, i] -= shift[owner[i]] + low
            trace += work[i, i]
            widest = max(widest, abs(shift[owner[i]] + low))
        if _factor(work, lapack):
            break
        slack *= _WIDENING
        low = guess - slack
    return low - 4 * (size + 1) * ROUNDING * (trace + 2 * size * widest)


@compiled
def descend(
    matrix: Array, weights: Array, lowered: Indices, last: Indices, raised: Indices, slopes: Array, u: Array
) -> None:
    """Move u on the sphere down the gradient of p = y·My."""
    size, dim, stride, value = len(matrix), len(u), 0.0, math.inf
    powers, y, image = np.empty(size), np.empty(size), np.empty(size)
    moved, slope = u.copy(), np.empty(dim)
    for turn in range(DESCENTS + 1):
        powers[0] = 1.0
        for a in range(1, size):
            powers[a] = powers[lowered[a]] * moved[last[a]]
        for a in range(size):
            y[a] = powers[a] * weights[a]
        times(matrix, y, image)
        lower, along, length = dot(y, image), 0.0, 0.0
        if lower < value:
            # the slope of y along the sphere is a polynomial of half the degree
            for j in range(dim):
                slope[j], u[j] = 0.0, moved[j]
            for a in range(len(raised)):
                for j in range(dim):
                    slope[j] += 2 * powers[a] * slopes[a, j] * image[raised[a, j]]
            value, stride = lower, stride * 1.5
            if turn == 0:
                stride = 1.0 / max(math.sqrt(dot(slope, slope)), 1e-12)
        else:
            stride /= 3
        along = dot(slope, u)
        for j in range(dim):
            moved[j] = u[j] - stride * (slope[j] - along * u[j])
            length += moved[j] * moved[j]
        for j in range(dim):
            moved[j] /= math.sqrt(length)
