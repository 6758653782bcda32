"""From monomial sketches to Hermite moments.

he_a(x) = prod_j he_{a_j}(x_j), normalised under N(0, I). Both changes of basis are linear, so they are applied once to
the finished sums and never to rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.monomials import count_monomials, degree_offset, monomial_ranks, monomial_tuples

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_MANY = 256  # from this size on all vectors cost several times what the values and one vector do
_BESIDE = 1e-9  # how far beside an eigenvalue the system is solved that its vector dominates


@cache
def partial_pairings(degree: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """All ways to pick disjoint pairs out of `degree` positions, the empty way included."""
    if degree < 2:
        return ((),)
    last = degree - 1
    found = list(partial_pairings(last))
    for partner in range(last):
        others = [i for i in range(last) if i != partner]
        found.extend(
            (*((others[a], others[b]) for a, b in pairing), (partner, last)) for pairing in partial_pairings(degree - 2)
        )
    return tuple(found)


def wick_terms(dim: int, degree: int) -> Iterator[tuple[Indices, Indices, Array]]:
    """Write every he_a with |a| = degree as a sum of monomials, one partial pairing at a time.

    Yields (positions among the monomials of this degree, ranks of the monomials they get, coefficients): the Hermite
    tensor is an alternating sum over partial pairings of equal variables (Wick's formula), and dividing by sqrt(a!)
    normalises it.
    """
    tuples = monomial_tuples(dim, degree)
    norms = np.sqrt(factorial_products(tuples))
    for pairing in partial_pairings(degree):
        used = set(itertools.chain.from_iterable(pairing))
        rest = [i for i in range(degree) if i not in used]
        equal = np.ones(len(tuples), dtype=bool)
        for a, b in pairing:
            equal &= tuples[:, a] == tuples[:, b]
        positions = np.flatnonzero(equal)
        ranks = monomial_ranks(tuples[positions][:, rest], dim)
        yield positions, ranks, (-1) ** len(pairing) / norms[positions]


def hermite_moments(moments: Array, dim: int, degree: int) -> Array:
    """Mean of every normalised Hermite polynomial of degree <= `degree` (entry 0 is 1); of each column of several."""
    result = np.zeros_like(moments)
    for m in range(degree + 1):
        start, stop = degree_offset(dim, m), count_monomials(dim, m)
        for positions, ranks, coefficients in wick_terms(dim, m):
            factors = coefficients.reshape(-1, *(1,) * (moments.ndim - 1))
            if len(ranks) and ranks[0] == start:  # no pair: every polynomial has its own monomial
                np.multiply(factors, moments[start:stop], out=result[start:stop])
            else:
                result[start + positions] += factors * moments[ranks]
    return result


def hermite_gram(gram: Array, dim: int, degree: int) -> Array:
    """Mean of H(x) H(x)^T from the mean Gram matrix of the monomials; I under N(0, I)."""
    rows = hermite_moments(gram, dim, degree)
    result = hermite_moments(np.ascontiguousarray(rows.T), dim, degree)
    return (result + result.T) / 2


def factorial_products(tuples: Indices) -> Array:
    """a! = prod_j a_j! of each rising tuple."""
    result, run = np.ones(len(tuples)), np.ones(len(tuples))
    for position in range(1, tuples.shape[1]):
        same = tuples[:, position] == tuples[:, position - 1]
        run = np.where(same, run + 1, 1)
        result *= run
    return result


def gaussian_monomial_mean(variables: tuple[int, ...]) -> float:
    """Mean of a monomial under N(0, I): the product of double factorials of even powers."""
    powers = [variables.count(j) for j in set(variables)]
    if any(power % 2 for power in powers):
        return 0.0
    return float(math.prod(math.prod(range(1, power, 2)) for power in powers))


def extreme_eigenpair(matrix: Array) -> tuple[float, Array]:
    """The eigenvalue of largest size of a symmetric matrix, and a vector of length 1 to it."""
    if len(matrix) < _MANY:
        values, vectors = np.linalg.eigh(matrix)
        i = int(np.argmax(np.abs(values)))
        return float(values[i]), vectors[:, i]
    values = np.linalg.eigvalsh(matrix)
    value = float(values[int(np.argmax(np.abs(values)))])
    # inverse iteration from outside of the spectrum; the start is nearly orthogonal to no vector
    beside = value + np.copysign(_BESIDE * max(1.0, abs(value)), value)
    start = np.random.default_rng(0).standard_normal(len(matrix))
    vector = np.linalg.solve(matrix - beside * np.eye(len(matrix)), start)
    return value, np.asarray(vector / np.linalg.norm(vector))
