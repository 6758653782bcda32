"""Polynomials below the indicator 1{t < tau}, fitted to moments and certified.

A polynomial of degree 2n that meets 1 doubly at nodes left of tau, 0 at tau and 0 doubly at nodes
right of it is below the indicator everywhere, whatever the nodes (Markov). The nodes decide only
how large its mean is: the best ones for a law with given moments are the other eigenvalues of
its Jacobi matrix, with the last diagonal entry set so that tau is one of them.

Nothing is taken on trust: the largest excess over the indicator, found at the polynomial's own
critical points, is subtracted, and a polynomial that does not fall at infinity is dropped.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LARGEST_TAU = 1e4
"""Thresholds are rounded down to this many standard deviations; a smaller tau stays valid."""

SMALLEST_TAU = -8.0
"""Below it a minorant has a mean of next to nothing and wild coefficients: 0 is used instead."""

NODE_REACH = 40.0
"""Nodes further than this from both 0 and tau are moved there: coefficients stay tame."""

NODE_GAP = 0.03
"""Nodes nearer than this to tau are moved away: a steep polynomial is all noise."""

GAUSSIAN_SHARE = 0.03
"""Share of a normal law mixed into the fitted moments, which keeps their Hankel matrix definite."""

ROUNDING = 1e-14
"""Bound on the relative rounding of one evaluated term, with room."""


def fit_minorants(moments: Array, tau: Array) -> Array:
    """Certified minorants of 1{t < tau}, the best for the given moments.

    Parameters
    ----------
    moments
        Raw moments 0, ..., k of one law per row, k even; they steer the choice and nothing else:
        the result is below the indicator whatever they are.
    tau
        Threshold of each row.

    Returns
    -------
    Coefficients of 1, t, ..., t^k, one row per threshold.
    """
    degree = moments.shape[1] - 1
    scale = np.sqrt(np.maximum(moments[:, 2], 1e-12))
    powers = scale[:, None] ** np.arange(degree + 1)
    scaled = np.minimum(tau / scale, LARGEST_TAU)
    active = scaled > SMALLEST_TAU
    result = np.zeros(moments.shape)
    if active.any():
        laws = tame_moments(moments[active] / powers[active])
        nodes = extremal_nodes(laws, scaled[active])
        coefficients = interpolate_step(nodes, scaled[active])
        result[active] = subtract_excess(coefficients, scaled[active])
    return np.asarray(result / powers)


@cache
def normal_moments(degree: int) -> Array:
    """Moments 0, ..., degree of N(0, 1)."""
    return np.array([0.0 if m % 2 else float(math.prod(range(1, m, 2))) for m in range(degree + 1)])


def tame_moments(moments: Array) -> Array:
    """Mix in a little of N(0, 1), and take it whole where the moments are of no law at all."""
    degree = moments.shape[1] - 1
    normal = normal_moments(degree)
    mixed = np.array((1 - GAUSSIAN_SHARE) * moments + GAUSSIAN_SHARE * normal)
    mixed[~np.isfinite(mixed).all(axis=1)] = normal
    spectrum = np.linalg.eigvalsh(hankel(mixed))
    definite = spectrum[:, 0] > np.maximum(1e-7, 1e-12 * spectrum[:, -1])
    mixed[~definite] = normal
    return mixed


def hankel(moments: Array) -> Array:
    """Hankel matrices (rows, n + 1, n + 1) of moments 0, ..., 2n."""
    half = (moments.shape[1] - 1) // 2
    index = np.arange(half + 1)
    return moments[:, index[:, None] + index]


def extremal_nodes(moments: Array, tau: Array) -> Array:
    """The n nodes other than tau of the extremal law with these moments and an atom at tau."""
    factor = np.swapaxes(np.linalg.cholesky(hankel(moments)), 1, 2)
    half = factor.shape[1] - 1
    diagonal = np.diagonal(factor, axis1=1, axis2=2)
    ratio = np.diagonal(factor, offset=1, axis1=1, axis2=2) / diagonal[:, :-1]
    alpha = np.diff(ratio, axis=1, prepend=0.0)
    beta = diagonal[:, 1:] / diagonal[:, :-1]
    before, current = np.zeros(len(tau)), np.ones(len(tau))
    for j in range(half):
        carry = beta[:, j - 1] * before if j else 0.0
        before, current = current, ((tau - alpha[:, j]) * current - carry) / beta[:, j]
    # where tau is a root of the last polynomial, one node lies at infinity
    current = np.where(np.abs(current) < 1e-12, np.copysign(1e-12, current), current)
    jacobi = np.zeros((len(tau), half + 1, half + 1))
    inner = np.arange(half)
    jacobi[:, inner, inner] = alpha
    jacobi[:, inner, inner + 1] = beta
    jacobi[:, inner + 1, inner] = beta
    jacobi[:, half, half] = tau - beta[:, half - 1] * before / current
    nodes = np.linalg.eigvalsh(jacobi)
    nearest = np.argmin(np.abs(nodes - tau[:, None]), axis=1)
    others = np.arange(half + 1) != nearest[:, None]
    return np.asarray(nodes[others].reshape(len(tau), half))


def interpolate_step(nodes: Array, tau: Array) -> Array:
    """Coefficients of the polynomial that meets the step at tau and doubly at the nodes."""
    centre = tau[:, None]
    furthest_left = np.minimum(centre, 0.0) - NODE_REACH
    furthest_right = np.maximum(centre, 0.0) + NODE_REACH
    left = np.clip(nodes, furthest_left, centre - NODE_GAP)
    right = np.clip(nodes, centre + NODE_GAP, furthest_right)
    moved = np.where(nodes < centre, left, right)
    points = np.sort(np.concatenate([moved, moved, centre], axis=1), axis=1)
    count = points.shape[1]
    differences = (points < centre).astype(np.float64)
    newton = [differences[:, 0]]
    for order in range(1, count):
        width = points[:, order:] - points[:, :-order]
        rise = differences[:, 1:] - differences[:, :-1]
        # equal points carry the derivative, which is 0 at every node
        differences = np.divide(rise, width, out=np.zeros_like(rise), where=width > 0)
        newton.append(differences[:, 0])
    result = np.zeros((len(tau), count))
    for order in reversed(range(count)):
        shifted = np.roll(result, 1, axis=1) - points[:, order : order + 1] * result
        shifted[:, 0] += newton[order]
        result = shifted
    return result


def evaluate(coefficients: Array, points: Array) -> tuple[Array, Array]:
    """Values at the points (rows, m), and a bound on the rounding in each of them."""
    value = np.zeros_like(points)
    size = np.zeros_like(points)
    for column in coefficients.T[::-1]:
        value = value * points + column[:, None]
        size = size * np.abs(points) + np.abs(column)[:, None]
    return value, ROUNDING * size


def critical_points(coefficients: Array) -> Array:
    """Real parts of the roots of the derivative; coefficients of degree >= 2, leading one not 0."""
    degree = coefficients.shape[1] - 1
    slope = coefficients[:, 1:] * np.arange(1, degree + 1)
    companion = np.zeros((len(slope), degree - 1, degree - 1))
    below = np.arange(degree - 2)
    companion[:, below + 1, below] = 1.0
    companion[:, :, -1] = -slope[:, :-1] / slope[:, -1:]
    roots = np.linalg.eigvals(companion)
    return np.asarray(roots.real, dtype=np.float64)


def subtract_excess(coefficients: Array, tau: Array) -> Array:
    """Lower each polynomial by its largest excess over 1{t < tau}; 0 where it rises at infinity."""
    result = np.zeros_like(coefficients)
    sound = np.isfinite(coefficients).all(axis=1) & (coefficients[:, -1] < -1e-290)
    if not sound.any():
        return result
    kept = coefficients[sound]
    threshold = tau[sound][:, None]
    points = np.concatenate([critical_points(kept), threshold], axis=1)
    value, rounding = evaluate(kept, points)
    step = (points < threshold).astype(np.float64)
    excess = (value - step + rounding).max(axis=1)
    lowered = kept.copy()
    lowered[:, 0] -= np.maximum(excess, 0.0)
    # a minorant worse than nothing everywhere is replaced by nothing
    lowered[~(excess < 1.0)] = 0.0
    result[sound] = lowered
    return result


@cache
def hermite_from_powers(degree: int) -> Array:
    """Matrix T with t^m = sum_j T[m, j] he_j(t), he_j normalised under N(0, 1)."""
    table = np.zeros((degree + 1, degree + 1))
    table[0, 0] = 1.0
    for m in range(degree):
        for j in range(m + 1):
            table[m + 1, j + 1] += math.sqrt(j + 1) * table[m, j]
            if j:
                table[m + 1, j - 1] += math.sqrt(j) * table[m, j]
    return table
