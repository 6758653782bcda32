"""Lower bounds on a polynomial over the unit sphere, from its packed Hermite coefficients.

p(u) = sum over monomials a of sqrt(m!/a!) u^a b_a, m the degree of a; with b_a = mean c_m he_a(s) this is the mean of
sum_m c_m he_m(u·s). As a quadratic form y·My in y = (1, u, u⊗u, ...), whose parts all have length 1, it is bounded from
below by eigenvalues: for every shift nu_j of the parts y·My is at least sum nu_j plus the number of parts times the
smallest eigenvalue of M - diag(nu). The best shifts are those of a y at which the form is smallest, nu_j = y_j·(My)_j.
Only the last eigenvalue is claimed, and only from below: the matrix less that number has a Cholesky factor.

The loops are compiled and free of the interpreter; factors are those of SciPy's LAPACK.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic
from numpy.typing import NDArray

from streamhalf.kernels.compiling import compiled
from streamhalf.kernels.monomials import (
    count_monomials,
    degree_offset,
    factorial_products,
    monomial_ranks,
    monomial_tuples,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
_intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic
ROUNDING = 2.0**-52  # twice the relative error of one operation
INVERSE_STEPS = 5  # solves with one factor: the bottom eigenvector to a few digits
ROUGH, FINE = 1e-2, 1e-7  # how far below a guess the smallest eigenvalue is first looked for, in units of the matrix
NEXT_TO = 5e-4  # the same in units of the guess: nearer ones fail too often to be worth a factor
# Share of Polyak's step that is taken, and the square of the slope below which it gets smaller
HALFWAY, SMALLEST_SLOPE = 0.5, 0.01
ASIDE = 0.1  # how far from the last y inverse iteration begins
DESCENTS = 25  # steps down the gradient
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
def _factor(matrix: Array, lapack: tuple[int, int]) -> bool:
    """Overwrite the lower triangle by the Cholesky factor; False if there is none."""
    numbers = np.array([len(matrix), 1, _UPPER, 0], dtype=np.int32)  # size, right-hand sides, triangle, outcome
    size = numbers.ctypes.data
    _call(lapack[0], (size + 8, size, matrix.ctypes.data, size, size + 12))
    return bool(numbers[3] == 0)


@compiled
def _solve(factor: Array, vector: Array, lapack: tuple[int, int]) -> None:
    """Overwrite a vector by the solution for a factored matrix."""
    numbers = np.array([len(factor), 1, _UPPER, 0], dtype=np.int32)
    size, places = numbers.ctypes.data, (factor.ctypes.data, vector.ctypes.data)
    _call(lapack[1], (size + 8, size, size + 4, places[0], size, places[1], size, size + 12))


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
    matrix: Array,
    owner: Indices,
    shift: Array,
    vector: Array,
    lowest: float,
    steps: int,
    useless: float,
    lapack: tuple[int, int],
) -> tuple[float, float]:
    """Lower bound on y·My over all y with parts of length 1, and the eigenvalue that gave it.

    Shifts are looked for in so many `steps` from those given, which are overwritten by those that served, as the bottom
    vector is; the bound holds whatever they are. The search ends at a y where the form is at most `useless`: no shifts
    give a larger bound.
    """
    count, size, scale, total = len(shift), len(matrix), 0.0, 0.0
    work, image, y = np.empty((size, size)), np.zeros(size), np.empty(size)
    for i in range(size):  # by column, so that the loop is vectorised
        for j in range(size):
            image[j] = max(image[j], abs(matrix[i, j]))
    for j in range(size):
        scale = max(scale, image[j])
    if scale == 0:
        return 0.0, lowest
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
        value, steepness = dot(y, image), 0.0
        if value <= useless:
            return most, best
        gap = max(value - total - count * guess, 0.0)
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

    The bound is a little below `guess` if that is one. A factor that exists in floating point proves that the matrix it
    was made of is positive but for n + 1 roundings of its trace (Higham, Accuracy and Stability of Numerical
    Algorithms, theorem 10.3).
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
            for j in range(i + 1):  # the triangle that is factored
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


@compiled
def evaluate_point(u: Array, weights: Array, lowered: Indices, last: Indices, values: Array) -> None:
    """Write the weighted monomials of u, as many as there is room for."""
    values[0] = 1.0
    for a in range(1, len(values)):
        values[a] = values[lowered[a]] * u[last[a]]
    for a in range(len(values)):
        values[a] *= weights[a]


@compiled
def gather_matrix(b: Array, ranks: Indices, shares: Array, matrix: Array) -> None:
    """Write the symmetric matrix whose entries are shares of those of b."""
    for i in range(len(ranks)):
        for j in range(len(ranks)):
            matrix[i, j] = b[ranks[i, j]] * shares[i, j]


CELLS = 4096  # pieces of [-1, 1] in each of which a polynomial is bounded by its values at the ends


class Sphere(NamedTuple):
    """Index tables for polynomials of even degree on the unit sphere of R^dim."""

    dim: int
    degree: int
    slices: tuple[slice, ...]  # the monomials of each degree; the first degree / 2 + 1 of them are the parts of y
    owner: Indices  # part of each entry of y
    ranks: Indices
    shares: Array
    weights: Array
    lowered: Indices
    last: Indices
    raised: Indices
    slopes: Array

    @property
    def size(self) -> int:
        """Rows of the matrix."""
        return len(self.ranks)

    def point(self, u: Array, count: int | None = None) -> Array:
        """sqrt(m!/a!) u^a of every monomial a, or the first of them: what pairs with b to give p(u)."""
        values = np.empty(len(self.weights) if count is None else count)
        evaluate_point(u, self.weights, self.lowered, self.last, values)
        return values

    def matrix(self, b: Array) -> Array:
        """The matrix of the quadratic form in y, without the constant b[0]."""
        found = np.empty(self.shares.shape)
        gather_matrix(b, self.ranks, self.shares, found)
        return found


@cache
def sphere(dim: int, degree: int) -> Sphere:
    """Return the tables, made once for each size."""
    slices = tuple(slice(degree_offset(dim, m), count_monomials(dim, m)) for m in range(degree + 1))
    tuples = [monomial_tuples(dim, m) for m in range(degree + 1)]
    weights = np.concatenate([np.sqrt(math.factorial(m) / factorial_products(one)) for m, one in enumerate(tuples)])
    half, size = degree // 2, count_monomials(dim, degree // 2)
    ranks, shares = np.zeros((size, size), dtype=np.int64), np.zeros((size, size))
    for i, j in itertools.product(range(half + 1), repeat=2):
        if abs(i - j) > 1 or i + j == 0:
            continue
        rows, columns = slices[i], slices[j]
        ranks[rows, columns] = _product_ranks(tuples[i], tuples[j], dim)
        shares[rows, columns] = np.outer(weights[rows], weights[columns])
        # the tensor of odd degree stands on both sides of the diagonal
        shares[rows, columns] /= weights[ranks[rows, columns]] * (2 if i != j else 1)
    lowered = np.concatenate([[0], *(monomial_ranks(one[:, :-1], dim) for one in tuples[1:])])
    last = np.concatenate([[0], *(one[:, -1] for one in tuples[1:])])
    raised = np.concatenate([_product_ranks(one, tuples[1], dim) for one in tuples[:half]])
    owner = np.repeat(np.arange(half + 1), [len(one) for one in tuples[: half + 1]])
    slopes = (owner[: len(raised), None] + 1) * weights[: len(raised), None] ** 2 / weights[raised]
    return Sphere(dim, degree, slices, owner, ranks, shares, weights, lowered, last, raised, slopes)


@cache
def uniform_point(dim: int, degree: int) -> Array:
    """The mean of `point` over the whole sphere."""
    table = sphere(dim, degree)
    values = np.zeros(len(table.weights))
    for m in range(0, degree + 1, 2):
        rows = monomial_tuples(dim, m)
        halves = rows[:, ::2]
        even = (halves == rows[:, 1::2]).all(axis=1)
        # of N(0, I): the product of (a_j - 1)!!, over the mean of |x|^m
        means = factorial_products(rows) / (2 ** (m // 2) * factorial_products(halves))
        values[table.slices[m]] = np.where(even, means, 0.0) / math.prod(dim + j for j in range(0, m, 2))
    values *= table.weights
    values.setflags(write=False)
    return values


def _product_ranks(left: Indices, right: Indices, dim: int) -> Indices:
    """Ranks of the products of all monomials of two degrees."""
    pairs = np.concatenate([np.repeat(left, len(right), axis=0), np.tile(right, (len(left), 1))], axis=1)
    return monomial_ranks(np.sort(pairs, axis=1), dim).reshape(len(left), len(right))


class Guide(NamedTuple):
    """Starting values from the bound of one polynomial, for the next one like it."""

    axis: Array | None  # along which it was split
    shifts: tuple[Array, Array, float] | None  # that served the rest, the bottom vector they left and its eigenvalue
    worst: Array  # a unit vector at which the polynomial was small


def minimum_over_sphere(
    table: Sphere, b: Array, guide: Guide | None = None, *, steps: int, closely: bool = False
) -> tuple[float, Guide]:
    """Bound p from below, in the way that served a polynomial like it if there is a guide.

    By the eigenvalues of p, or of what is left of it after a split into a polynomial in u·e, minimised exactly, and a
    rest, for an axis e along which p may be far from constant: without a guide that of the linear part. `closely` also
    looks for the direction at which p is small.
    """
    if table.dim == 1:  # two directions
        values = [float(b @ table.point(np.array([u]))) for u in (-1.0, 1.0)]
        rounding = ROUNDING * len(b) * float(np.abs(b).sum())
        return min(values) - rounding, Guide(None, None, np.array([-1.0 if values[0] < values[1] else 1.0]))
    linear = b[1 : table.dim + 1]
    length = math.sqrt(linear @ linear)
    axes: list[Array | None] = [linear / length] if length > 0 else []
    if guide is None:
        guide = Guide(None, None, bottom_direction(table, b))
    elif closely:
        worst = guide.worst.copy()
        descend(table.matrix(b), *table[6:], worst)
        axes = [*([] if guide.axis is None else [None]), worst, *axes]
        guide = guide._replace(worst=worst)
    else:
        axes = []
    best = _follow(table, b, guide, steps)
    for axis in axes:
        found = _follow(table, b, Guide(axis, None, guide.worst), steps, best[0])
        best = found if found[0] > best[0] else best
    return best


def _follow(table: Sphere, b: Array, guide: Guide, steps: int, useless: float = -math.inf) -> tuple[float, Guide]:
    """The bound of one split, or -infinity where it cannot exceed `useless`.

    Its shifts take a step more if there are none yet.
    """
    least, rest = float(b[0]), b
    if guide.axis is not None:
        along, rest = split_axis(table, b, guide.axis)
        least += univariate_minimum(along)
    matrix, shifts = table.matrix(rest), guide.shifts
    if shifts is None:
        y, count = table.point(bottom_direction(table, rest), table.size), table.degree // 2 + 1
        image, steps = matrix @ y, steps + 1
        shift = np.bincount(table.owner, y * image).astype(np.float64)
        if shift.sum() + least <= useless:  # the form at y
            return -math.inf, guide
        residual = image - shift[table.owner] * y
        vector, lowest = y / math.sqrt(count), -2 * math.sqrt(residual @ residual / count)
    else:
        shift, vector, lowest = shifts[0].copy(), shifts[1].copy(), shifts[2]
    bound, lowest = bound_form(matrix, table.owner, shift, vector, lowest, steps, useless - least, lapack_addresses())
    return least + bound, guide._replace(shifts=(shift, vector, lowest))


def bottom_direction(table: Sphere, b: Array) -> Array:
    """The u at which the quadratic part is smallest, on the side that the linear part likes."""
    part = table.slices[1]
    u = np.linalg.eigh(b[table.ranks[part, part]] * table.shares[part, part])[1][:, 0]
    return -u if b[part] @ u > 0 else u


def split_axis(table: Sphere, b: Array, axis: Array) -> tuple[Array, Array]:
    """Write p as a polynomial in u·axis without constant, and the packed rest.

    Where s is normal but for one direction e, its Hermite tensors are multiples of e⊗e⊗...: the split then leaves
    sampling noise alone to the eigenvalues.
    """
    point, rest, along = table.point(axis), b.copy(), np.zeros(table.degree + 1)
    for m, part in enumerate(table.slices[1:], 1):
        along[m] = b[part] @ point[part]
        rest[part] -= along[m] * point[part]
    return along, rest


def univariate_minimum(coefficients: Array) -> float:
    """Lower bound on a polynomial over [-1, 1], less than 1e-6 of its coefficients too low.

    Between two points at a distance h it falls below both of its values by at most h^2/8 times its largest second
    derivative. The last term is for rounding, and for an axis whose length is 1 to rounding only.
    """
    powers = np.arange(len(coefficients))
    sag = powers * (powers - 1) * (2 / CELLS) ** 2 / 8 + 1e-12
    values = _grid_powers(len(coefficients)) @ coefficients
    return float(values.min()) - float(sag @ np.abs(coefficients))


@cache
def _grid_powers(count: int) -> Array:
    """1, t, ..., t^(count - 1) at the ends of all cells."""
    return np.vander(np.linspace(-1.0, 1.0, CELLS + 1), count, increasing=True)
