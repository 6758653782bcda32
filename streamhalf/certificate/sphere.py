"""Lower bounds on a polynomial over the unit sphere, from its packed Hermite coefficients.

p(u) = sum over monomials a of sqrt(m!/a!) u^a b_a, m the degree of a; with b_a = mean c_m he_a(s)
this is the mean of sum_m c_m he_m(u·s). As a quadratic form in y = (1, u, u⊗u, ...), whose parts
all have length 1, it is bounded from below by eigenvalues.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.dual import Parts, Shifts, bound_form
from streamhalf.kernels.hermite import factorial_products, gaussian_monomial_mean
from streamhalf.kernels.monomials import (
    count_monomials,
    degree_offset,
    monomial_ranks,
    monomial_tuples,
)

Array = NDArray[np.float64]

ROUNDING = 2.0**-52
"""Twice the relative error of one operation."""

CELLS = 4096
"""Pieces of [-1, 1] in each of which a polynomial is bounded by its values at the ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Where the coefficients of one degree stand in the matrix: (rows, columns), half if odd."""

    rows: slice
    columns: slice
    ranks: NDArray[np.int64]
    weights: Array


@dataclass(frozen=True, slots=True, eq=False)
class Sphere:
    """Index tables for polynomials of even degree `degree` on the unit sphere of R^dim."""

    dim: int
    degree: int
    slices: tuple[slice, ...]
    weights: Array
    parts: tuple[slice, ...]
    spheres: Parts
    blocks: tuple[Block, ...]
    lowered: NDArray[np.int64]
    last: NDArray[np.int64]
    raised: NDArray[np.int64]
    slopes: Array

    def powers(self, u: Array) -> Array:
        """u^a of every monomial a."""
        return self._powers(u, self.slices)

    def half_powers(self, u: Array) -> Array:
        """u^a of every monomial a of at most half the degree."""
        return self._powers(u, self.parts)

    def _powers(self, u: Array, slices: tuple[slice, ...]) -> Array:
        values = np.empty(slices[-1].stop)
        values[0] = 1.0
        for part in slices[1:]:
            values[part] = values[self.lowered[part]] * u[self.last[part]]
        return values

    def point(self, u: Array) -> Array:
        """sqrt(m!/a!) u^a of every monomial a: what pairs with b to give p(u)."""
        return self.powers(u) * self.weights

    def matrix(self, b: Array) -> Array:
        """The matrix of the quadratic form in y, without the constant b[0]."""
        size = self.parts[-1].stop
        result = np.zeros((size, size))
        for block in self.blocks:
            values = b[block.ranks] * block.weights
            result[block.rows, block.columns] = values
            if block.rows != block.columns:
                result[block.columns, block.rows] = values.T
        return result


@cache
def sphere(dim: int, degree: int) -> Sphere:
    """Return the tables, made once for each size."""
    starts = [degree_offset(dim, m) for m in range(degree + 1)] + [count_monomials(dim, degree)]
    slices = tuple(slice(a, b) for a, b in itertools.pairwise(starts))
    weights = np.concatenate(
        [
            np.sqrt(math.factorial(m) / factorial_products(monomial_tuples(dim, m)))
            for m in range(degree + 1)
        ]
    )
    parts = slices[: degree // 2 + 1]
    blocks = tuple(_block(dim, m, parts, weights) for m in range(1, degree + 1))
    tuples = [monomial_tuples(dim, m) for m in range(1, degree + 1)]
    lowered = np.concatenate([[0], *(monomial_ranks(item[:, :-1], dim) for item in tuples)])
    last = np.concatenate([[0], *(item[:, -1] for item in tuples)])
    raised = np.concatenate([_raised_ranks(dim, m) for m in range(degree)])
    raised_degree = np.repeat(
        np.arange(1, degree + 1), [len(monomial_tuples(dim, m)) for m in range(degree)]
    )
    below = weights[: len(raised), None]
    slopes = raised_degree[:, None] * below**2 / weights[raised]
    return Sphere(
        dim=dim,
        degree=degree,
        slices=slices,
        weights=weights,
        parts=parts,
        spheres=Parts.of(parts),
        blocks=blocks,
        lowered=lowered,
        last=last,
        raised=raised,
        slopes=np.asarray(slopes),
    )


@cache
def uniform_point(table: Sphere) -> Array:
    """The mean of `point` over the whole sphere."""
    values = np.zeros(len(table.weights))
    for m in range(0, table.degree + 1, 2):
        shrink = math.prod(table.dim + j for j in range(0, m, 2))
        values[table.slices[m]] = [
            gaussian_monomial_mean(tuple(row)) / shrink
            for row in monomial_tuples(table.dim, m).tolist()
        ]
    values *= table.weights
    values.setflags(write=False)
    return values


def _raised_ranks(dim: int, m: int) -> NDArray[np.int64]:
    """Rank of a + e_j for every monomial a of degree m and every variable j: (count, dim)."""
    tuples = monomial_tuples(dim, m)
    variables = np.tile(np.arange(dim), len(tuples))[:, None]
    joined = np.concatenate([np.repeat(tuples, dim, axis=0), variables], axis=1)
    return monomial_ranks(np.sort(joined, axis=1), dim).reshape(len(tuples), dim)


def _block(dim: int, m: int, parts: tuple[slice, ...], weights: Array) -> Block:
    """Place the symmetric tensor of degree m, flattened over its lower and upper half."""
    rows, columns = parts[m // 2], parts[m - m // 2]
    left, right = monomial_tuples(dim, m // 2), monomial_tuples(dim, m - m // 2)
    pairs = np.concatenate(
        [np.repeat(left, len(right), axis=0), np.tile(right, (len(left), 1))], axis=1
    )
    ranks = monomial_ranks(np.sort(pairs, axis=1), dim).reshape(len(left), len(right))
    values = np.outer(weights[rows], weights[columns]) / weights[ranks]
    return Block(rows, columns, ranks, values / 2 if m % 2 else values)


@dataclass(frozen=True, slots=True, eq=False)
class Guide:
    """What served to bound one polynomial, and may serve the next like it.

    The axis that it was split along, if any, the shifts that served the rest, and a unit vector at
    which the polynomial was small.
    """

    axis: Array | None
    shifts: Shifts | None
    worst: Array


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Lower bound on p over the sphere, and how it was found."""

    bound: float
    guide: Guide


@dataclass(frozen=True, slots=True, eq=False)
class Sampling:
    """p as a polynomial in one direction with a known minimum, and a rest with its matrix."""

    minimum: float
    matrix: Array


def minimum_over_sphere(
    table: Sphere, b: Array, guide: Guide | None = None, *, steps: int, closely: bool = False
) -> Minimum:
    """Bound p from below, in the way that served a polynomial like it if there is a guide.

    By the eigenvalues of p, or of what is left of it after a split into a polynomial in u·e,
    minimised exactly, and a rest, for an axis e along which p may be far from constant: without a
    guide that of the linear part. `closely` also looks for the direction at which p is small.
    """
    if table.dim == 1:
        return _smaller_of_two(table, b)
    axes: tuple[Array | None, ...]
    if guide is None:
        guide = Guide(None, None, _start(table, b)[table.parts[1]])
        axes = _axes(table, b)
    elif closely:
        guide = replace(guide, worst=descend(table, b, guide.worst))
        plain = () if guide.axis is None else (None,)
        axes = (*plain, guide.worst, *_axes(table, b))
    else:
        axes = ()
    found = _follow(table, b, guide, steps)
    for axis in axes:
        other = _follow(table, b, Guide(axis, None, guide.worst), steps)
        found = max(found, other, key=lambda one: one.bound)
    return found


def _smaller_of_two(table: Sphere, b: Array) -> Minimum:
    """On a line there are two directions."""
    values = [float(b @ table.point(np.array([u]))) for u in (-1.0, 1.0)]
    worst = np.array([-1.0 if values[0] < values[1] else 1.0])
    rounding = ROUNDING * len(b) * float(np.abs(b).sum())
    return Minimum(min(values) - rounding, Guide(None, None, worst))


def _follow(table: Sphere, b: Array, guide: Guide, steps: int) -> Minimum:
    """The bound of one split; its shifts take a few steps if there are none yet."""
    split, rest = _split(table, b, guide.axis)
    shifts = guide.shifts
    if shifts is None:
        shifts, steps = Shifts.of(split.matrix, table.spheres, _start(table, rest)), steps + 1
    bound, shifts = bound_form(split.matrix, table.spheres, shifts, steps=steps)
    return Minimum(split.minimum + bound, replace(guide, shifts=shifts))


def _split(table: Sphere, b: Array, axis: Array | None) -> tuple[Sampling, Array]:
    """The split along an axis, and the coefficients that its matrix is made of."""
    if axis is None:
        return Sampling(float(b[0]), table.matrix(b)), b
    along, rest = split_axis(table, b, axis)
    return Sampling(float(b[0]) + univariate_minimum(along), table.matrix(rest)), rest


def _start(table: Sphere, b: Array) -> Array:
    """The point at which the quadratic part is smallest, on the side that the linear part likes."""
    block = table.blocks[1]
    u = np.linalg.eigh(b[block.ranks] * block.weights)[1][:, 0]
    return table.point(-u if b[table.parts[1]] @ u > 0 else u)[: table.parts[-1].stop]


def _axes(table: Sphere, b: Array) -> tuple[Array, ...]:
    """The direction that the linear part of p singles out, if it has one."""
    linear = b[table.parts[1]]
    length = float(np.linalg.norm(linear))
    return (linear / length,) if length > 0 else ()


def split_axis(table: Sphere, b: Array, axis: Array) -> tuple[Array, Array]:
    """Write p as a polynomial in u·axis without constant, and the packed rest.

    Where s is normal but for one direction e, its Hermite tensors are multiples of e⊗e⊗...:
    the split then leaves sampling noise alone to the eigenvalues.
    """
    point = table.point(axis)
    along = np.array([0.0] + [float(b[part] @ point[part]) for part in table.slices[1:]])
    rest = b.copy()
    for value, part in zip(along[1:], table.slices[1:], strict=True):
        rest[part] -= value * point[part]
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


def descend(table: Sphere, b: Array, start: Array, *, steps: int = 25) -> Array:
    """Follow the gradient of p on the sphere downwards from `start`."""
    length = math.sqrt(float(start @ start))
    u = start / length if length > 1e-9 else np.eye(table.dim)[0]
    matrix = table.matrix(b)
    inner = table.parts[-1].start
    raised, slopes = table.raised[:inner], table.slopes[:inner]

    def value_and_gradient(point: Array) -> tuple[float, Array]:
        powers = table.half_powers(point)
        y = powers * table.weights[: len(powers)]
        image = matrix @ y
        # p = y·My, and the slope of y along the sphere is a polynomial of half the degree
        return float(y @ image), 2 * (powers[:inner] @ (slopes * image[raised]))

    value, gradient = value_and_gradient(u)
    stride = 1.0 / max(math.sqrt(float(gradient @ gradient)), 1e-12)
    for _ in range(steps):
        moved = u - stride * (gradient - (gradient @ u) * u)
        moved /= math.sqrt(float(moved @ moved))
        lower, slope = value_and_gradient(moved)
        if lower < value:
            u, value, gradient, stride = moved, lower, slope, stride * 1.5
        else:
            stride /= 3
    return np.asarray(u)
