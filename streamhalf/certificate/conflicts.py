"""Proofs that no halfspace is right on all rows of a set.

With a = y (x, 1) a halfspace u is right on a row only if u·a >= 0, and where y = -1 only if
u·a > 0 (sgn(0) = +1). So if weights > 0 make the sum of the a's 0, no u is right on all rows that
have a weight, provided that one of them has y = -1: the sum of u·a would be above 0. With the
constant coordinate there is one, as the labels must cancel; without it (halfspaces through the
origin) that is asked for. Weights that floating point found are only about right; here it is proved
that exact ones exist.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_UNIT = 2.0**-53
_TINY = 2.0**-900
"""More than what underflow can change in the sums below."""

_SMALLEST, _LARGEST = 2.0**-200, 2.0**200
"""Of weights; beyond, scaled numbers could be rounded to 0."""

_MOST_BITS = 64
"""Of the integers that quick exact proofs begin with."""


def are_conflicts(rows: Array, others: Array, weights: Array) -> NDArray[np.bool_]:
    """Return True where row (b, r) is minus a combination of its others (b, r, r), all weights above 0.

    `weights` (b, r) are the weights of the others, about. With A the others as columns, scaled by
    powers of two so that the weights sought are about 1, and C about its inverse: if the norm e of
    I - C A is below 1, A has an inverse, and the weights differ from g = -C row by at most
    e / (1 - e) times the largest |g|. All sums are taken with a bound on what they were rounded by.
    """
    usable = np.asarray(((weights > _SMALLEST) & (weights < _LARGEST)).all(axis=1))
    scales = np.exp2(np.round(np.log2(np.where(usable[:, None], weights, 1.0))))
    A = np.swapaxes(others * scales[:, :, None], 1, 2)
    size = A.shape[1]
    rounding = 2 * (size + 2) * _UNIT
    C = _inverses(A)
    with np.errstate(invalid="ignore", over="ignore"):
        product, reach = C @ A, np.abs(C) @ np.abs(A)
        away = np.abs(product - np.eye(size)) + rounding * reach + _UNIT
        e = (1 + rounding) * away.sum(axis=2).max(axis=1) + _TINY
        g = -np.einsum("bij,bj->bi", C, rows)
        slack = rounding * np.einsum("bij,bj->bi", np.abs(C), np.abs(rows)) + _TINY
        low, high = (g - slack).min(axis=1), (np.abs(g) + slack).max(axis=1)
        return np.asarray(usable & (e < 0.5) & (low > (1 + 8 * _UNIT) * high * e / (1 - e)))


def _inverses(A: Array) -> Array:
    """About the inverses of a stack of matrices; of one that has none, anything."""
    try:
        return np.asarray(np.linalg.inv(A), dtype=np.float64)
    except np.linalg.LinAlgError:
        found = np.zeros_like(A)
        for place, matrix in enumerate(A):
            try:
                found[place] = np.linalg.inv(matrix)
            except np.linalg.LinAlgError:
                continue
        return found


def exact_weights(rows: Array, most_bits: int = _MOST_BITS) -> tuple[int, ...] | None:
    """Integers >= 0, not all 0, whose combination of the rows (s, r) is 0; None if not found.

    Rows are those of a basis and one more, so that there is one such combination at most but for
    its scale. Exact, in integers; given up where those of the rows have more than `most_bits`.
    """
    matrix = _integers(rows.T, most_bits)
    return None if matrix is None else _one_sign(_kernel(matrix, len(rows)))


def _integers(coordinates: Array, most_bits: int) -> list[list[int]] | None:
    """Each coordinate times a power of two, as integers; those that say nothing new left out."""
    found: dict[tuple[int, ...], None] = {}
    for values in coordinates:
        if not values.any():
            continue
        ratios = [value.as_integer_ratio() for value in values.tolist()]
        shared = max(below for _, below in ratios)
        numbers = [above * (shared // below) for above, below in ratios]
        common = math.gcd(*numbers)
        numbers = [number // common for number in numbers]
        if max(map(abs, numbers)).bit_length() > most_bits:
            return None
        found[tuple(numbers)] = None
    return [list(numbers) for numbers in found]


def _kernel(matrix: list[list[int]], width: int) -> list[int]:
    """The vector that the matrix takes to 0, if there is just one but for its scale; else empty.

    Elimination without fractions (Bareiss): every division is exact.
    """
    pivots: list[int] = []
    previous = 1
    for column in range(width):
        top = len(pivots)
        row = next((i for i in range(top, len(matrix)) if matrix[i][column]), None)
        if row is None:
            continue
        matrix[top], matrix[row] = matrix[row], matrix[top]
        first = matrix[top]
        pivot = first[column]
        for i, line in enumerate(matrix):
            if i != top:
                factor = line[column]
                matrix[i] = [(pivot * a - factor * b) // previous for a, b in zip(line, first, strict=True)]
        previous = pivot
        pivots.append(column)
    free = [column for column in range(width) if column not in pivots]
    if len(free) != 1:
        return []
    kernel = [0] * width
    kernel[free[0]] = previous
    for line, column in zip(matrix, pivots, strict=False):
        kernel[column] = -line[free[0]]
    common = math.gcd(*kernel)
    return [number // common for number in kernel]


def _one_sign(numbers: list[int]) -> tuple[int, ...] | None:
    """The numbers as they are, or all negated, whichever has none below 0."""
    if not any(numbers):
        return None
    if min(numbers) >= 0:
        return tuple(numbers)
    return tuple(-number for number in numbers) if max(numbers) <= 0 else None
