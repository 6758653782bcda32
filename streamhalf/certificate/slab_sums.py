"""From sums over the rows of slabs to their Hermite moments, and what rounding can amount to."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.minorants import hermite_from_powers
from streamhalf.certificate.slab_forms import NEXT_TO_NOTHING, SlabForms, fineness_of
from streamhalf.certificate.sphere import sphere
from streamhalf.kernels.hermite import wick_terms
from streamhalf.kernels.monomials import count_monomials, degree_offset
from streamhalf.reductions.slab_moments import SlabStatistics

Array = NDArray[np.float64]

UNIT = 2.0**-52
"""Twice the largest relative error of one float64 operation: room for products of such errors."""

SUM_STEPS = 32
"""Operations on a row's monomial, and on a minorant's coefficient, beside the sum over rows: up to
8 products for the monomial, a division by the rows and one by the unit, 8 for the coefficient."""

BASIS_STEPS = 1024
"""Operations from raw moments to a polynomial in u beside the sum over slabs: 764 pairings for
Hermite degree 8, at most 100 for the tables, the minorants' basis, weights and splits."""

SMALLEST_SCALE = 1e-25
"""Rows smaller than this, or larger than its inverse, have moments that float64 cannot hold."""

MOST_ROUNDING = 1e-3
"""Rows that their position may have moved by a larger share of their length say nothing."""

LARGEST_MOMENT, LARGEST_MARGIN = 1e150, 1e30
"""Slabs with larger ones, in units of the typical slab, take no part."""


def slab_forms(statistics: SlabStatistics, degree: int, unit: float | None = None) -> SlabForms:
    """Turn sums into Hermite moments up to an even `degree`.

    Lengths are in a `unit`, by default that of the typical slab; labels are not lengths, so forms
    of one search have one unit.
    """
    dim = statistics.rest
    unit = typical_unit(statistics) if unit is None else unit
    held = np.flatnonzero(statistics.counts)
    if not (SMALLEST_SCALE < unit < 1 / SMALLEST_SCALE and statistics.rounding < MOST_ROUNDING):
        held, unit = held[:0], 1.0
    raw = statistics.sums[held, : count_monomials(dim, degree)] / statistics.n_rows
    with np.errstate(over="ignore", invalid="ignore"):
        for m in range(1, degree + 1):
            raw[:, _part(dim, m)] /= unit**m
        # a slab whose moments overflow takes no part: 0 is a minorant too
        tame = (raw.max(axis=1) < LARGEST_MOMENT) & (raw.min(axis=1) > -LARGEST_MOMENT)
    reach = np.maximum(np.abs(statistics.low[held]), np.abs(statistics.high[held]))
    reach += abs(statistics.threshold)
    if statistics.across is not None:
        reach += np.abs(statistics.across[:, held]).max(axis=0)
    tame &= reach < LARGEST_MARGIN * unit
    held, raw, reach = held[tame], raw[tame], reach[tame]
    counts, labels = statistics.counts[held], statistics.labels[held].astype(np.float64)
    sizes = _sizes(raw, dim, degree)
    longest = reach / unit + (sizes[:, -1] * statistics.n_rows) ** (1 / degree)
    moved = _moved(longest, statistics.dim, statistics.rounding)
    q_low = q_high = -labels
    if statistics.across is not None:
        q_low, q_high = statistics.across[:, held] / unit + np.outer([-1, 1], moved)
    return SlabForms(
        degree,
        counts / statistics.n_rows,
        counts,
        z_low := statistics.low[held] / unit - moved,
        z_high := statistics.high[held] / unit + moved,
        q_low,
        q_high,
        statistics.strips[held],
        _hermite(raw, dim, degree),
        _slack(sizes, counts, moved),
        sphere(dim, degree),
        fineness_of(z_low, z_high),
    )


def typical_unit(statistics: SlabStatistics) -> float:
    """Median over rows of their slab's root mean square: outliers must not set the unit."""
    dim = statistics.rest
    held = statistics.counts > 0
    raw = statistics.sums[held, : count_monomials(dim, 2)] / max(1, statistics.n_rows)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = _even_sizes(raw, dim, 2) / dim
        spread = np.sqrt(squares / raw[:, 0])
    order = np.argsort(spread)
    mass = np.cumsum(raw[order, 0])
    middle = int(np.searchsorted(mass, raw[:, 0].sum() / 2))
    chosen = spread[order[min(middle, len(order) - 1)]] if len(order) else 0.0
    return float(chosen) or float(np.sqrt(squares.sum())) or 1.0


def _moved(longest: Array, dim: int, rounding: float) -> Array:
    """How far rounding may move z and s of a row, for each slab.

    s is Q^T x, with Q off an orthonormal basis by at most (4 d + 24) u, u = 2^-53 (a Householder
    reflection), and dot products of d terms each off by at most d u |x|: together no more than
    (d^1.5 + 4 d + 24) u |x| <= (d + 8)^1.5 UNIT |x|; beside a second direction Q is the product of
    two such, and twice that is enough. z is one such dot product less the threshold t, q another.
    |x| is at most |z| + |t| + |q|, the reach, + |s|, and |s| at most the root of the slab's sum of
    |s|^degree: the `longest`. Rows that were put into a position are off by `rounding` |x| before.
    """
    return np.asarray((2 * (dim + 8) ** 1.5 * UNIT + rounding) * longest)


def _slack(sizes: Array, counts: NDArray[np.int64], moved: Array) -> Array:
    """Bound on the error of each slab's mean of (u·s)^m times mass, for every unit u.

    A sum of n products, in any order and any number of pieces, is off by at most n u times the
    sum of their absolute values (Higham, Accuracy and Stability of Numerical Algorithms, section
    4.2); with one operation more for every factor, so is a monomial's sum. Over all monomials of
    degree m that makes n u times the sum of (sum_j |u_j s_j|)^m <= |s|^m: the `sizes`. The change
    to the Hermite basis and all that follows is off by its number of operations times he_m with
    all terms taken positive. Rows `moved` by r change (u·s)^m by at most (|s| + r)^m - |s|^m.
    """
    degree = sizes.shape[1] - 1
    table = hermite_from_powers(degree)
    spread = sizes @ np.abs(np.linalg.inv(table)).T @ table.T
    slack = UNIT * ((counts[:, None] + SUM_STEPS) * sizes + (len(counts) + BASIS_STEPS) * spread)
    for m in range(1, degree + 1):
        for j in range(1, m + 1):
            slack[:, m] += math.comb(m, j) * moved**j * sizes[:, m - j]
    return np.asarray(slack)


def _part(dim: int, m: int) -> slice:
    """Where the monomials of degree m stand."""
    return slice(degree_offset(dim, m), count_monomials(dim, m))


def _hermite(raw: Array, dim: int, degree: int) -> Array:
    """Hermite moments of every slab from raw ones."""
    result = np.zeros_like(raw)
    for m in range(degree + 1):
        start = degree_offset(dim, m)
        for positions, ranks, coefficients in wick_terms(dim, m):
            result[:, start + positions] += coefficients * raw[:, ranks]
    return result


def _even_sizes(raw: Array, dim: int, m: int) -> Array:
    """Mean of |s|^m, m even, times mass: a sum over the squares of the monomials of degree m/2."""
    if m == 0:
        return np.asarray(raw[:, 0])
    table = sphere(dim, m)
    squares = np.diagonal(table.blocks[m - 1].ranks)
    weights = table.weights[table.parts[m // 2]] ** 2
    return np.asarray(raw[:, squares] @ weights)


def _sizes(raw: Array, dim: int, degree: int) -> Array:
    """Mean of |s|^m times mass for m = 0, ..., degree; odd ones by Cauchy and Schwarz."""
    result = np.zeros((len(raw), degree + 1))
    for m in range(0, degree + 1, 2):
        result[:, m] = np.maximum(_even_sizes(raw, dim, m), 0.0) + NEXT_TO_NOTHING
    for m in range(1, degree, 2):
        result[:, m] = np.sqrt(result[:, m - 1] * result[:, m + 1])
    return result
