"""Lower bounds on a polynomial over the unit sphere, from its packed Hermite coefficients.

p(u) = sum over monomials a of sqrt(m!/a!) u^a b_a, m the degree of a; with b_a = mean c_m he_a(s)
this is the mean of sum_m c_m he_m(u·s). As a quadratic form y·My in y = (1, u, u⊗u, ...), whose
parts all have length 1, it is bounded from below by eigenvalues: for every shift nu_j of the parts
y·My is at least sum nu_j plus the number of parts times the smallest eigenvalue of M - diag(nu).
The best shifts are those of a y at which the form is smallest, nu_j = y_j·(My)_j. Only the last
eigenvalue is claimed, and only from below: the matrix less that number has a Cholesky factor.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.form_bound import ROUNDING, bound_form, descend, lapack_addresses
from streamhalf.kernels.hermite import factorial_products, gaussian_monomial_mean
from streamhalf.kernels.monomials import count_monomials, degree_offset, monomial_ranks, monomial_tuples

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

CELLS = 4096
"""Pieces of [-1, 1] in each of which a polynomial is bounded by its values at the ends."""


class Sphere(NamedTuple):
    """Index tables for polynomials of even degree on the unit sphere of R^dim.

    `slices` are the monomials of each degree; the first degree / 2 + 1 of them are the parts of y,
    of which `owner` tells for each entry of y.
    """

    dim: int
    degree: int
    slices: tuple[slice, ...]
    owner: Indices
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

    def point(self, u: Array) -> Array:
        """sqrt(m!/a!) u^a of every monomial a: what pairs with b to give p(u)."""
        values = np.ones(len(self.weights))
        for part in self.slices[1:]:
            values[part] = values[self.lowered[part]] * u[self.last[part]]
        return values * self.weights

    def matrix(self, b: Array) -> Array:
        """The matrix of the quadratic form in y, without the constant b[0]."""
        return np.asarray(b[self.ranks] * self.shares)


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
        pairs = np.concatenate(
            [np.repeat(tuples[i], len(tuples[j]), axis=0), np.tile(tuples[j], (len(tuples[i]), 1))], axis=1
        )
        found = monomial_ranks(np.sort(pairs, axis=1), dim)
        ranks[rows, columns] = found.reshape(len(tuples[i]), len(tuples[j]))
        shares[rows, columns] = np.outer(weights[rows], weights[columns])
        # the tensor of odd degree stands on both sides of the diagonal
        shares[rows, columns] /= weights[ranks[rows, columns]] * (2 if i != j else 1)
    lowered = np.concatenate([[0], *(monomial_ranks(one[:, :-1], dim) for one in tuples[1:])])
    last = np.concatenate([[0], *(one[:, -1] for one in tuples[1:])])
    raised = np.concatenate([_raised_ranks(one, dim) for one in tuples[:half]])
    owner = np.repeat(np.arange(half + 1), [len(one) for one in tuples[: half + 1]])
    slopes = (owner[: len(raised), None] + 1) * weights[: len(raised), None] ** 2 / weights[raised]
    return Sphere(dim, degree, slices, owner, ranks, shares, weights, lowered, last, raised, slopes)


@cache
def uniform_point(dim: int, degree: int) -> Array:
    """The mean of `point` over the whole sphere."""
    table = sphere(dim, degree)
    values = np.zeros(len(table.weights))
    for m in range(0, degree + 1, 2):
        shrink = math.prod(dim + j for j in range(0, m, 2))
        values[table.slices[m]] = [
            gaussian_monomial_mean(tuple(row)) / shrink for row in monomial_tuples(dim, m).tolist()
        ]
    values *= table.weights
    values.setflags(write=False)
    return values


def _raised_ranks(tuples: Indices, dim: int) -> Indices:
    """Rank of a + e_j for every monomial a of one degree and every variable j: (count, dim)."""
    variables = np.tile(np.arange(dim), len(tuples))[:, None]
    joined = np.concatenate([np.repeat(tuples, dim, axis=0), variables], axis=1)
    return monomial_ranks(np.sort(joined, axis=1), dim).reshape(len(tuples), dim)


class Guide(NamedTuple):
    """Starting values from the bound of one polynomial, for the next one like it.

    The axis that it was split along, if any; the shifts that served the rest, the bottom vector
    that they left and its eigenvalue; and a unit vector at which the polynomial was small.
    """

    axis: Array | None
    shifts: tuple[Array, Array, float] | None
    worst: Array


def minimum_over_sphere(
    table: Sphere, b: Array, guide: Guide | None = None, *, steps: int, closely: bool = False
) -> tuple[float, Guide]:
    """Bound p from below, in the way that served a polynomial like it if there is a guide.

    By the eigenvalues of p, or of what is left of it after a split into a polynomial in u·e,
    minimised exactly, and a rest, for an axis e along which p may be far from constant: without a
    guide that of the linear part. `closely` also looks for the direction at which p is small.
    """
    if table.dim == 1:
        return _smaller_of_two(table, b)
    linear = b[1 : table.dim + 1]
    length = math.sqrt(linear @ linear)
    axes: list[Array | None] = [linear / length] if length > 0 else []
    if guide is None:
        guide = Guide(None, None, bottom_direction(table, b))
    elif closely:
        worst = guide.worst.copy()
        descend(table.matrix(b), *table[6:], worst)
        guide = guide._replace(worst=worst)
        plain: list[Array | None] = [] if guide.axis is None else [None]
        axes = [*plain, worst, *axes]
    else:
        axes = []
    guides = [guide, *(Guide(axis, None, guide.worst) for axis in axes)]
    return max((_follow(table, b, one, steps) for one in guides), key=lambda one: one[0])


def _smaller_of_two(table: Sphere, b: Array) -> tuple[float, Guide]:
    """On a line there are two directions."""
    values = [float(b @ table.point(np.array([u]))) for u in (-1.0, 1.0)]
    worst = np.array([-1.0 if values[0] < values[1] else 1.0])
    rounding = ROUNDING * len(b) * float(np.abs(b).sum())
    return min(values) - rounding, Guide(None, None, worst)


def _follow(table: Sphere, b: Array, guide: Guide, steps: int) -> tuple[float, Guide]:
    """The bound of one split; its shifts take a few steps if there are none yet."""
    least, rest = float(b[0]), b
    if guide.axis is not None:
        along, rest = split_axis(table, b, guide.axis)
        least += univariate_minimum(along)
    matrix = table.matrix(rest)
    if guide.shifts is None:
        y = table.point(bottom_direction(table, rest))[: table.size]
        shift, vector, lowest = first_shifts(table, matrix, y)
        steps += 1
    else:
        shift, vector, lowest = guide.shifts[0].copy(), guide.shifts[1].copy(), guide.shifts[2]
    bound, lowest = bound_form(matrix, table.owner, shift, vector, lowest, steps, lapack_addresses())
    return least + bound, guide._replace(shifts=(shift, vector, lowest))


def first_shifts(table: Sphere, matrix: Array, y: Array) -> tuple[Array, Array, float]:
    """Shifts, bottom vector and its eigenvalue from a y at which the form is small, about."""
    image, count = matrix @ y, table.degree // 2 + 1
    shift = np.bincount(table.owner, y * image).astype(np.float64)
    residual = image - shift[table.owner] * y
    return shift, y / math.sqrt(count), -2 * math.sqrt(residual @ residual / count)


def bottom_direction(table: Sphere, b: Array) -> Array:
    """The u at which the quadratic part is smallest, on the side that the linear part likes."""
    part = table.slices[1]
    u = np.linalg.eigh(b[table.ranks[part, part]] * table.shares[part, part])[1][:, 0]
    return -u if b[part] @ u > 0 else u


def split_axis(table: Sphere, b: Array, axis: Array) -> tuple[Array, Array]:
    """Write p as a polynomial in u·axis without constant, and the packed rest.

    Where s is normal but for one direction e, its Hermite tensors are multiples of e⊗e⊗...:
    the split then leaves sampling noise alone to the eigenvalues.
    """
    point, rest, along = table.point(axis), b.copy(), np.zeros(table.degree + 1)
    for m, part in enumerate(table.slices[1:], 1):
        along[m] = b[part] @ point[part]
        rest[part] -= along[m] * point[part]
    return along, rest


def univariate_minimum(coefficients: Array) -> float:
    """Lower bound on a polynomial over [-1, 1], less than 1e-6 of its coefficients too low.

    Between two points at a distance h it falls below both of its values by at most h^2/8 times
    its largest second derivative. The last term is for rounding, and for an axis whose length is
    1 to rounding only.
    """
    powers = np.arange(len(coefficients))
    sag = powers * (powers - 1) * (2 / CELLS) ** 2 / 8 + 1e-12
    values = _grid_powers(len(coefficients)) @ coefficients
    return float(values.min()) - float(sag @ np.abs(coefficients))


@cache
def _grid_powers(count: int) -> Array:
    """1, t, ..., t^(count - 1) at the ends of all cells."""
    return np.vander(np.linspace(-1.0, 1.0, CELLS + 1), count, increasing=True)
