"""Lower bounds on a polynomial over the unit sphere, from its packed Hermite coefficients.

p(u) = sum over monomials a of sqrt(m!/a!) u^a b_a, m the degree of a; with b_a = mean c_m he_a(s)
this is the mean of sum_m c_m he_m(u·s). As a quadratic form in y = (1, u, u⊗u, ...), whose parts
all have length 1, it is bounded from below by eigenvalues.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from streamhalf.kernels.hermite import factorial_products, gaussian_monomial_mean
from streamhalf.kernels.monomials import (
    count_monomials,
    degree_offset,
    monomial_ranks,
    monomial_tuples,
)

Array = NDArray[np.float64]


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
    blocks: tuple[Block, ...]
    lowered: NDArray[np.int64]
    last: NDArray[np.int64]
    raised: NDArray[np.int64]
    raised_degree: NDArray[np.int64]
    slopes: Array

    def powers(self, u: Array) -> Array:
        """u^a of every monomial a."""
        values = np.empty(len(self.weights))
        values[0] = 1.0
        for part in self.slices[1:]:
            values[part] = values[self.lowered[part]] * u[self.last[part]]
        return values

    def point(self, u: Array) -> Array:
        """sqrt(m!/a!) u^a of every monomial a: what pairs with b to give p(u)."""
        return self.powers(u) * self.weights

    def uniform(self) -> Array:
        """The mean of `point` over the whole sphere."""
        values = np.zeros(len(self.weights))
        for m in range(0, self.degree + 1, 2):
            shrink = math.prod(self.dim + j for j in range(0, m, 2))
            values[self.slices[m]] = [
                gaussian_monomial_mean(tuple(row)) / shrink
                for row in monomial_tuples(self.dim, m).tolist()
            ]
        return values * self.weights

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
        blocks=blocks,
        lowered=lowered,
        last=last,
        raised=raised,
        raised_degree=raised_degree,
        slopes=np.asarray(slopes),
    )


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


def bottom(matrix: Array) -> tuple[float, Array]:
    """Smallest eigenvalue and its eigenvector."""
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(0, 0), check_finite=False)
    return float(values[0]), np.asarray(vectors[:, 0])


def minimum_over_sphere(table: Sphere, b: Array, *, steps: int) -> tuple[float, Array]:
    """Lower bound on p over the sphere, and a unit vector at which p is small.

    The best of the eigenvalue bound and of splits of p into a polynomial in u·e, minimised
    exactly, and a rest, for the axes e along which p may be far from constant.
    """
    plain = eigenvalue_bound(table, b)
    start = plain.vector[table.parts[1]] * (1.0 if plain.vector[0] >= 0 else -1.0)
    worst = descend(table, b, start)
    choices = [(0.0, plain)]
    for axis in _axes(table, b, worst):
        along, rest = split_axis(table, b, axis)
        choices.append((univariate_minimum(along), eigenvalue_bound(table, rest)))
    along_axis, best = max(choices, key=lambda choice: choice[0] + choice[1].value)
    return along_axis + best.improved(steps), worst


@dataclass(frozen=True, slots=True, eq=False)
class EigenvalueBound:
    """Lower bound on p by eigenvalues.

    For every shift nu_j of the parts of y the form is at least sum nu_j plus the number of parts
    times the smallest eigenvalue of the shifted matrix.
    """

    value: float
    vector: Array
    constant: float
    matrix: Array
    shift: Array
    owner: NDArray[np.int64]

    def moved(self, shift: Array) -> EigenvalueBound:
        """The bound with other shifts."""
        shifted = self.matrix.copy()
        shifted[np.diag_indices_from(shifted)] -= shift[self.owner]
        low, vector = bottom(shifted)
        value = self.constant + float(shift.sum()) + len(shift) * low
        return dataclasses.replace(self, value=value, vector=vector, shift=shift)

    def improved(self, steps: int) -> float:
        """The best value on a path of subgradient steps in the shifts."""
        best = self
        length = max(abs(self.value - self.constant), float(np.abs(self.shift).max())) / 4
        for _ in range(steps):
            slope = 1 - len(self.shift) * np.bincount(self.owner, weights=best.vector**2)
            found = best.moved(best.shift + length * slope)
            if found.value > best.value:
                best = found
            else:
                length /= 2
        return best.value


def eigenvalue_bound(table: Sphere, b: Array) -> EigenvalueBound:
    """Bound p with the shifts of the term-by-term bound, which it therefore never falls below."""
    matrix = table.matrix(b)
    parts = table.parts
    owner = np.repeat(np.arange(len(parts)), [part.stop - part.start for part in parts])
    unshifted = EigenvalueBound(
        -math.inf, np.zeros(len(matrix)), float(b[0]), matrix, np.zeros(len(parts)), owner
    )
    return unshifted.moved(_term_by_term(matrix, parts))


def _axes(table: Sphere, b: Array, worst: Array) -> tuple[Array, ...]:
    """Directions that p may single out: its worst one, and that of its linear part."""
    linear = b[table.parts[1]]
    length = float(np.linalg.norm(linear))
    return (worst, linear / length) if length > 0 else (worst,)


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
    """Minimum over [-1, 1] of a polynomial, lowered by what rounding and dropped terms can do."""
    size = np.abs(coefficients)
    # a leading term of next to nothing would spoil the roots of the others
    degree = int(np.flatnonzero(size >= 1e-10 * size.max())[-1])
    kept = coefficients[: degree + 1]
    roots = np.polynomial.polynomial.polyroots(np.polynomial.polynomial.polyder(kept))
    points = np.concatenate([np.clip(roots.real, -1.0, 1.0), [-1.0, 1.0]])
    values = np.polynomial.polynomial.polyval(points, kept)
    dropped = float(size[degree + 1 :].sum())
    return float(values.min()) - dropped - 1e-12 * float(size.sum())


def _term_by_term(matrix: Array, parts: tuple[slice, ...]) -> Array:
    """Shifts whose sum is the sum of the terms' own bounds: eigenvalues minus operator norms."""
    lows = np.array([bottom(matrix[part, part])[0] for part in parts])
    for j in range(len(parts) - 1):
        norm = float(np.linalg.norm(matrix[parts[j], parts[j + 1]], 2))
        lows[j : j + 2] -= norm
    return lows


def descend(table: Sphere, b: Array, start: Array, *, steps: int = 25) -> Array:
    """Follow the gradient of p on the sphere downwards from `start`."""
    length = float(np.linalg.norm(start))
    u = start / length if length > 1e-9 else np.eye(table.dim)[0]
    slopes = table.slopes * b[table.raised]

    def value_and_gradient(point: Array) -> tuple[float, Array]:
        powers = table.powers(point)[: len(slopes)]
        pieces = powers[:, None] * slopes
        # Euler: a form of degree m is its gradient along u, over m
        return float((pieces @ point / table.raised_degree).sum()), pieces.sum(axis=0)

    value, gradient = value_and_gradient(u)
    stride = 1.0 / max(float(np.linalg.norm(gradient)), 1e-12)
    for _ in range(steps):
        moved = u - stride * (gradient - (gradient @ u) * u)
        moved /= np.linalg.norm(moved)
        lower, slope = value_and_gradient(moved)
        if lower < value:
            u, value, gradient, stride = moved, lower, slope, stride * 1.5
        else:
            stride /= 3
    return np.asarray(u)
