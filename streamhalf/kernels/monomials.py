"""Monomials of degree <= m in d variables: how they are numbered, evaluated and multiplied.

A monomial of degree m is a rising tuple of variable numbers, (2, 2, 6) for x3^2·x7. All monomials of one degree stand
in colexicographic order, degrees one after the other, so that

- the rank of a tuple has a closed form (`monomial_ranks`), and
- the monomials of degree m with largest variable j are the first monomials of degree m - 1
  times x_j (`evaluate_monomials`): whole blocks of rows of the feature matrix, no gathers.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUB_BATCH_NBYTES = 4 << 20  # feature matrices are built and multiplied in pieces of about this size: cache, not memory
_AFFINE_ROWS = 4096


def count_monomials(dim: int, degree: int) -> int:
    """Count the monomials of degree <= `degree` in `dim` variables, the constant included."""
    return math.comb(dim + degree, degree)


def degree_offset(dim: int, degree: int) -> int:
    """Rank of the first monomial of exactly this degree."""
    return count_monomials(dim, degree - 1) if degree else 0


@cache
def monomial_tuples(dim: int, degree: int) -> NDArray[np.int64]:
    """All rising tuples of exactly this degree, shape (count, degree), in rank order."""
    if degree == 0:
        return np.zeros((1, 0), dtype=np.int64)
    lower = monomial_tuples(dim, degree - 1)
    pieces = []
    for j in range(dim):
        head = lower[: math.comb(j + degree - 1, degree - 1)]
        pieces.append(np.column_stack([head, np.full(len(head), j, dtype=np.int64)]))
    tuples = np.concatenate(pieces) if pieces else np.zeros((0, degree), dtype=np.int64)
    tuples.setflags(write=False)
    return tuples


def monomial_ranks(tuples: NDArray[np.int64], dim: int) -> NDArray[np.int64]:
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


def sub_batch_rows(n_features: int, itemsize: int) -> int:
    """Rows of a feature matrix that fit the sub-batch, at least 1,024 and at most 4,096."""
    rows = SUB_BATCH_NBYTES // max(1, n_features * itemsize)
    return int(min(4096, max(1024, rows)))


def evaluate_monomials(X: NDArray[np.floating[Any]], degree: int, out: NDArray[np.floating[Any]]) -> None:
    """Fill `out` (monomials, rows) with every monomial of degree <= `degree` at the rows of X."""
    if degree >= 1:
        out[1 : X.shape[1] + 1] = X.T
    extend_monomials(X.shape[1], degree, out)


def extend_monomials(dim: int, degree: int, out: NDArray[np.floating[Any]]) -> None:
    """Fill in 1 and the monomials of degree 2 and more, where `out` has the variables already."""
    out[0] = 1
    variables = out[1 : dim + 1]
    for m in range(2, degree + 1):
        source, target = degree_offset(dim, m - 1), degree_offset(dim, m)
        for j in range(dim):
            width = math.comb(j + m - 1, m - 1)
            np.multiply(out[source : source + width], variables[j], out=out[target : target + width])
            target += width


@cache
def gram_positions(dim: int, degree: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of the Gram matrix at which each monomial of degree <= `degree` stands.

    The lower half of a monomial's variables names the row, the upper half the column.
    """
    rows = np.empty(count_monomials(dim, degree), dtype=np.int64)
    columns = np.empty_like(rows)
    for m in range(degree + 1):
        tuples = monomial_tuples(dim, m)
        here = slice(degree_offset(dim, m), degree_offset(dim, m) + len(tuples))
        rows[here] = monomial_ranks(tuples[:, : m // 2], dim)
        columns[here] = monomial_ranks(tuples[:, m // 2 :], dim)
    return rows, columns


def monomial_gram(X: NDArray[np.floating[Any]], degree: int) -> NDArray[np.float64]:
    """Sum over rows of m(x) m(x)^T, m all monomials of degree <= `degree`.

    Products stay in the input's precision inside a sub-batch and are summed in float64. Where float32 overflows, the
    sum is taken again in float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = _affine_gram(X) if degree == 1 else _feature_gram(X, degree)
    if X.dtype == np.float32 and not np.isfinite(total).all():
        return monomial_gram(X.astype(np.float64), degree)
    return total


def _feature_gram(X: NDArray[np.floating[Any]], degree: int) -> NDArray[np.float64]:
    p = count_monomials(X.shape[1], degree)
    step = sub_batch_rows(p, X.itemsize)
    features = np.empty((p, min(step, len(X))), dtype=X.dtype)
    total = np.zeros((p, p))
    for start in range(0, len(X), step):
        piece = X[start : start + step]
        window = features[:, : len(piece)]
        evaluate_monomials(piece, degree, window)
        total += window @ window.T
    return total


def _affine_gram(X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
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
