"""Monomials of degree <= m in d variables: their numbers, values, products and sums over rows, and Hermite moments.

A monomial of degree m is a rising tuple of variable numbers, (2, 2, 6) for x3^2·x7. All monomials of one degree stand
in colexicographic order, degrees one after the other, so that

- the rank of a tuple has a closed form (`monomial_ranks`), and
- the monomials of degree m with largest variable j are the first monomials of degree m - 1 times x_j
  (`evaluate_monomials`): whole blocks of rows of the feature matrix, no gathers.

he_a(x) = prod_j he_{a_j}(x_j), normalised under N(0, I). Changes of basis are linear, so they are applied once to the
finished sums and never to rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf import kernels
from streamhalf.kernels.margins import frozen

Rows = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Indices = NDArray[np.int64]
SUB_BATCH_NBYTES = 4 << 20  # feature matrices are built and multiplied in pieces of about this size: cache, not memory
_AFFINE_ROWS = 4096
_MANY = 256  # from this size on all vectors cost several times what the values and one vector do
_BESIDE = 1e-9  # how far beside an eigenvalue the system is solved that its vector dominates


def count_monomials(dim: int, degree: int) -> int:
    """Count the monomials of degree <= `degree` in `dim` variables, the constant included."""
    return math.comb(dim + degree, degree)


def degree_offset(dim: int, degree: int) -> int:
    """Rank of the first monomial of exactly this degree."""
    return count_monomials(dim, degree - 1) if degree else 0


@cache
def monomial_tuples(dim: int, degree: int) -> Indices:
    """All rising tuples of exactly this degree, shape (count, degree), in rank order."""
    if degree == 0:
        return np.zeros((1, 0), dtype=np.int64)
    lower, pieces = monomial_tuples(dim, degree - 1), [np.zeros((0, degree), dtype=np.int64)]
    for j in range(dim):
        head = lower[: math.comb(j + degree - 1, degree - 1)]
        pieces.append(np.column_stack([head, np.full(len(head), j, dtype=np.int64)]))
    tuples = np.concatenate(pieces)
    tuples.setflags(write=False)
    return tuples


def monomial_ranks(tuples: Indices, dim: int) -> Indices:
    """Rank of each rising tuple (rows of `tuples`) among all monomials of all degrees."""
    n, degree = tuples.shape
    ranks = np.full(n, degree_offset(dim, degree), dtype=np.int64)
    for position in range(degree):
        shifted = tuples[:, position] + position
        term = np.ones(n, dtype=np.int64)
        for step in range(position + 1):
            term = term * (shifted - step) // (step + 1)
        ranks += term
    return ranks


def _padded_ranks(tuples: Indices, dim: int) -> Indices:
    """Ranks of rising tuples of variables 1, ..., d; lower degrees have zeros in front."""
    ranks = np.empty(len(tuples), dtype=np.int64)
    zeros = np.count_nonzero(tuples == 0, axis=1)
    for padding in np.unique(zeros):
        chosen = zeros == padding
        ranks[chosen] = monomial_ranks(tuples[chosen][:, padding:] - 1, dim)
    return ranks


def sub_batch_rows(n_features: int, itemsize: int) -> int:
    """Rows of a feature matrix that fit the sub-batch, at least 1,024 and at most 4,096."""
    return min(4096, max(1024, SUB_BATCH_NBYTES // max(1, n_features * itemsize)))


def evaluate_monomials(X: Rows, degree: int, out: Rows) -> None:
    """Fill `out` (monomials, rows) with every monomial of degree <= `degree` at the rows of X."""
    dim = X.shape[1]
    out[0] = 1
    if degree >= 1:
        out[1 : dim + 1] = X.T
    for m in range(2, degree + 1):
        source, target = degree_offset(dim, m - 1), degree_offset(dim, m)
        for j in range(dim):
            width = math.comb(j + m - 1, m - 1)
            np.multiply(out[source : source + width], out[1 + j], out=out[target : target + width])
            target += width


def monomial_gram(X: Rows, degree: int) -> Doubles:
    """Sum over rows of m(x) m(x)^T, m all monomials of degree <= `degree`.

    Products stay in the input's precision inside a sub-batch and are summed in float64. Where float32 overflows, the
    sum is taken again in float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = _affine_gram(X) if degree == 1 else _feature_gram(X, degree)
    if X.dtype == np.float32 and not np.isfinite(total).all():
        return monomial_gram(X.astype(np.float64), degree)
    return total


def _feature_gram(X: Rows, degree: int) -> Doubles:
    p = count_monomials(X.shape[1], degree)
    step = sub_batch_rows(p, X.itemsize)
    features, total = np.empty((p, min(step, len(X))), dtype=X.dtype), np.zeros((p, p))
    for start in range(0, len(X), step):
        piece = X[start : start + step]
        window = features[:, : len(piece)]
        evaluate_monomials(piece, degree, window)
        total += window @ window.T
    return total


def _affine_gram(X: Rows) -> Doubles:
    """The Gram matrix of [1, x], from rows as they lie in memory."""
    dim = X.shape[1]
    total = np.zeros((dim + 1, dim + 1))
    total[0, 0] = len(X)
    ones = np.ones(min(_AFFINE_ROWS, len(X)), dtype=X.dtype)
    for start in range(0, len(X), _AFFINE_ROWS):
        piece = X[start : start + _AFFINE_ROWS]
        total[0, 1:] += ones[: len(piece)] @ piece
        total[1:, 1:] += piece.T @ piece
    total[1:, 0] = total[0, 1:]
    return total


def sum_monomials(X: Rows, degree: int) -> Doubles:
    """Sum over rows of every monomial of even degree <= `degree`, in rank order: the monomial sketch.

    The Gram matrix of the monomials of half the degree holds all of them, the larger ones several times. Degree 4 has
    a loop of its own: with x_0 = 1, a monomial of degree <= 4 is x_i x_j x_k x_l with i <= j <= k <= l, so pairs (i, j)
    meet only those pairs (k, l) that begin where they end. That needs a third of the products. Products stay in the
    input's precision among a few rows; where float32 overflows, the sum is taken again in float64.
    """
    dim = X.shape[1]
    if degree != 4:
        rows, columns = _gram_positions(dim, degree)
        return monomial_gram(X, degree // 2)[rows, columns]
    ranks = _loop_ranks(dim)
    found, sums = np.zeros(len(ranks)), np.empty(len(ranks))
    with np.errstate(over="ignore", invalid="ignore"):
        kernels.loops.sum_quartics(frozen(X), found)
    sums[ranks] = found
    if X.dtype == np.float32 and not np.isfinite(sums).all():
        return sum_monomials(X.astype(np.float64), degree)
    return sums


@cache
def _gram_positions(dim: int, degree: int) -> tuple[Indices, Indices]:
    """Row and column of the Gram matrix at which each monomial of degree <= `degree` stands.

    The lower half of a monomial's variables names the row, the upper half the column.
    """
    tuples = [monomial_tuples(dim, m) for m in range(degree + 1)]
    rows = [monomial_ranks(one[:, : m // 2], dim) for m, one in enumerate(tuples)]
    columns = [monomial_ranks(one[:, m // 2 :], dim) for m, one in enumerate(tuples)]
    return np.concatenate(rows), np.concatenate(columns)


@lru_cache(maxsize=8)
def _loop_ranks(dim: int) -> Indices:
    """Ranks of the sums of the loop, in its order."""
    # pairs (k, l), k <= l, falling k first: those with k >= j come before all others
    partners = np.array([(k, m) for k in range(dim, -1, -1) for m in range(k, dim + 1)])
    last = dim + 1
    pairs = ((i, j, partners[: (last - j) * (last - j + 1) // 2]) for j in range(last) for i in range(j + 1))
    return _padded_ranks(np.concatenate([np.insert(met, [0, 0], (i, j), axis=1) for i, j, met in pairs]), dim)


def spread_gram(moments: Doubles, dim: int, degree: int) -> Doubles:
    """The Gram matrix of the monomials of degree <= `degree`, from moments up to twice that."""
    return moments[_product_ranks(dim, degree)]


@lru_cache(maxsize=8)
def _product_ranks(dim: int, degree: int) -> NDArray[np.int32]:
    """Rank of the product of any two monomials of degree <= `degree`: (p, p)."""
    tuples = np.concatenate([np.pad(monomial_tuples(dim, m) + 1, ((0, 0), (degree - m, 0))) for m in range(degree + 1)])
    ranks = np.empty((len(tuples), len(tuples)), dtype=np.int32)
    for row, factor in zip(ranks, tuples, strict=True):
        both = np.column_stack([np.broadcast_to(factor, tuples.shape), tuples])
        row[:] = _padded_ranks(np.sort(both, axis=1), dim)
    ranks.setflags(write=False)
    return ranks


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


def wick_terms(dim: int, degree: int) -> Iterator[tuple[Indices, Indices, Doubles]]:
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


def hermite_moments(moments: Doubles, dim: int, degree: int) -> Doubles:
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


def hermite_gram(gram: Doubles, dim: int, degree: int) -> Doubles:
    """Mean of H(x) H(x)^T from the mean Gram matrix of the monomials; I under N(0, I)."""
    rows = hermite_moments(gram, dim, degree)
    result = hermite_moments(np.ascontiguousarray(rows.T), dim, degree)
    return (result + result.T) / 2


def factorial_products(tuples: Indices) -> Doubles:
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


def extreme_eigenpair(matrix: Doubles) -> tuple[float, Doubles]:
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


def feature_spreads(matrix: Sequence[Sequence[float]], moments: Doubles | None) -> Doubles | None:
    """Standard deviations of stored features: of the matrix that whitens them, else from he₁ and he₂ of each.

    A radial transform knows them up to a common factor. None where neither is known.
    """
    with np.errstate(all="ignore"):  # documents may hold any number
        if matrix:
            try:
                root = np.linalg.pinv(np.array(matrix))  # root·rootᵀ is the covariance
            except np.linalg.LinAlgError:
                return None
            return np.asarray(np.linalg.norm(root, axis=1))
        if moments is None:
            return None
        means, squares = moments[:, 0], moments[:, 1]
        return np.asarray(np.sqrt(np.maximum(0.0, 1 + math.sqrt(2) * squares - means**2)))
