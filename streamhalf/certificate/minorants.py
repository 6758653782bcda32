"""Polynomials below the indicator 1{t < tau}, fitted to moments and certified; compiled.

A polynomial of degree 2n that meets 1 doubly at nodes left of tau, 0 at tau and 0 doubly at nodes right of it is below
the indicator everywhere, whatever the nodes (Markov). The nodes decide only how large its mean is: the best ones for a
law with given moments are the zeros of sum_j p_j(t) p_j(tau), p_j the law's orthonormal polynomials up to degree n.

Nothing is taken on trust: the largest excess over the indicator, bounded around the polynomial's own maxima, is
subtracted; a polynomial that does not fall at infinity, or whose maxima are not all seen to be enclosed, is dropped.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.compiling import compiled

Array = NDArray[np.float64]
LARGEST_TAU = 1e4  # thresholds are rounded down to this many standard deviations; a smaller tau stays valid
SMALLEST_TAU = -8.0  # below it a minorant has a mean of next to nothing and wild coefficients: 0 is used instead
NODE_REACH = 40.0  # nodes further than this from both 0 and tau are moved there: coefficients stay tame
NODE_GAP = 0.03  # nodes nearer than this to tau are moved away: a steep polynomial is all noise
GAUSSIAN_SHARE = 0.03  # share of a normal law mixed into the fitted moments, which keeps their Hankel matrix definite
SMALLEST_PIVOT = 1e-6  # of the Hankel matrix of a law in units of its second moment; below it, N(0, 1) is taken
NEXT_TO_NOTHING = 1e-5  # smallest quotient of the two leading coefficients: no node lies further out than its inverse
ROUNDING = 1e-14  # bound on the relative rounding of one evaluated term, with room
MAXIMUM_WIDTH = 1e-7  # A maximum is enclosed in an interval of this half-width, relative to its distance from 0
NEWTON_STEPS = 80  # most steps to a zero, from the right; nodes need not be exact


def normal_moments(degree: int) -> Array:
    """Moments 0, ..., degree of N(0, 1)."""
    return np.array([0.0 if m % 2 else float(math.prod(range(1, m, 2))) for m in range(degree + 1)])


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
    table.flags.writeable = False  # all callers share it
    return table


@compiled
def fit_minorants(laws: Array, trust: Array, normal: Array, tau: Array, mass: Array, minorants: Array) -> float:
    """Return what minorants of 1{t < tau}, fitted to the laws of slabs, are worth under these.

    The laws (slabs, k + 1) are raw moments, mixed with N(0, 1) as far as a slab is not trusted. They steer the choice
    and nothing else: the certified coefficients that are written to `minorants`, where these have rows, hold whatever
    they are.
    """
    count, worth = laws.shape[1], 0.0
    law, coefficients, scratch = np.empty(count), np.empty(count), np.empty((3, count))
    nodes, lower = np.empty(count // 2), np.empty((count // 2 + 1, count // 2 + 1))
    for i in range(len(laws)):
        for m in range(count):
            law[m] = trust[i] * laws[i, m] + (1 - trust[i]) * normal[m]
        scale = math.sqrt(max(law[2], 1e-12))
        if not tau[i] > SMALLEST_TAU * scale:
            for m in range(count if len(minorants) else 0):
                minorants[i, m] = 0.0
            continue
        threshold, power = min(tau[i] / scale, LARGEST_TAU), 1.0
        for m in range(count):
            law[m] = (1 - GAUSSIAN_SHARE) * law[m] * power + GAUSSIAN_SHARE * normal[m]
            power /= scale
        if not factor_hankel(law, lower):
            factor_hankel(normal, lower)
        extremal_nodes(lower, threshold, scratch[0], nodes)
        interpolate_step(nodes, threshold, scratch, coefficients)
        power = 1.0
        for m in range(count):
            worth += mass[i] * coefficients[m] * power * laws[i, m]
            power /= scale
        if len(minorants):
            excess = largest_excess(coefficients, nodes, threshold)
            power = 1.0 if excess < 1.0 else 0.0  # worse than nothing everywhere
            coefficients[0] -= max(excess, 0.0)
            for m in range(count):
                minorants[i, m] = coefficients[m] * power if power > 0 else 0.0
                power /= scale
    return worth


@compiled
def factor_hankel(moments: Array, lower: Array) -> bool:
    """Write a unit lower triangle and the pivots of the Hankel matrix; False if not definite."""
    size = len(lower)
    for i in range(size):
        for j in range(i + 1):
            value = moments[i + j]
            for m in range(j):
                value -= lower[i, m] * lower[j, m] * lower[m, m]
            lower[i, j] = value if i == j else value / lower[j, j]
        if not SMALLEST_PIVOT < lower[i, i] < math.inf:
            return False
    return True


@compiled
def extremal_nodes(lower: Array, tau: float, kernel: Array, nodes: Array) -> None:
    """The n nodes other than tau of the extremal law with an atom at tau, within reach and off it.

    They are the zeros of the kernel m(t)·H^-1 m(tau), m the monomials and H the Hankel matrix.
    """
    size, power = len(lower), 1.0
    for i in range(size):
        kernel[i] = power
        power *= tau
        for j in range(i):
            kernel[i] -= lower[i, j] * kernel[j]
    for i in range(size):
        kernel[i] /= lower[i, i]
    for i in range(size - 2, -1, -1):
        for j in range(i + 1, size):
            kernel[i] -= lower[j, i] * kernel[j]
    # where tau is a zero of p_n, one node lies at infinity: far is far enough
    least = NEXT_TO_NOTHING * abs(kernel[size - 2]) + 1e-290
    if abs(kernel[size - 1]) < least:
        kernel[size - 1] = math.copysign(least, kernel[size - 1])
    real_roots(kernel, nodes)
    for j in range(len(nodes)):
        if nodes[j] < tau:
            nodes[j] = min(max(nodes[j], min(tau, 0.0) - NODE_REACH), tau - NODE_GAP)
        else:
            nodes[j] = min(max(nodes[j], tau + NODE_GAP), max(tau, 0.0) + NODE_REACH)


@compiled
def real_roots(monic: Array, roots: Array) -> None:
    """Rising zeros of a polynomial, all of them real; overwrites its coefficients."""
    degree = len(roots)
    for m in range(degree):
        monic[m] /= monic[degree]
    monic[degree] = 1.0
    while degree > 2:
        # Newton from the right of all zeros (Laguerre and Samuelson), then divide the zero out
        mean = -monic[degree - 1] / degree
        spread = mean * mean - 2 * monic[degree - 2] / (degree * (degree - 1))
        root = mean + (degree - 1) * math.sqrt(max(spread, 0.0))
        for _ in range(NEWTON_STEPS):
            value, slope = 1.0, 0.0
            for m in range(degree - 1, -1, -1):
                slope = slope * root + value
                value = value * root + monic[m]
            if value <= 0.0 or slope <= 0.0 or value < 1e-15 * abs(root * slope):
                break
            root -= value / slope
        for m in range(degree - 1, 0, -1):
            monic[m] += root * monic[m + 1]
        for m in range(degree):
            monic[m] = monic[m + 1]
        degree -= 1
        roots[degree] = root
    if degree == 1:
        roots[0] = -monic[0]
        return
    half = monic[1] / -2
    far = half + math.copysign(math.sqrt(max(half * half - monic[0], 0.0)), half)
    near = monic[0] / (far if far != 0 else 1.0)
    roots[0], roots[1] = min(near, far), max(near, far)


@compiled
def interpolate_step(nodes: Array, tau: float, scratch: Array, coefficients: Array) -> None:
    """Coefficients of the polynomial that meets the step at tau, and doubly at the rising nodes."""
    points, differences, newton = scratch[0], scratch[1], scratch[2]
    count, place = len(coefficients), 0
    for j in range(len(nodes)):
        if place == 2 * j and tau <= nodes[j]:
            points[place] = tau
            place += 1
        points[place], points[place + 1] = nodes[j], nodes[j]
        place += 2
    if place < count:
        points[place] = tau
    for j in range(count):
        differences[j] = 1.0 if points[j] < tau else 0.0
    newton[0] = differences[0]
    for order in range(1, count):
        for j in range(count - order):
            width = points[j + order] - points[j]
            # equal points carry the derivative, which is 0 at every node
            rise = differences[j + 1] - differences[j]
            differences[j] = rise / width if width > 0 else 0.0
        newton[order] = differences[0]
    for m in range(count):
        coefficients[m] = 0.0
    for order in range(count - 1, -1, -1):
        for m in range(count - 1, 0, -1):
            coefficients[m] = coefficients[m - 1] - points[order] * coefficients[m]
        coefficients[0] = newton[order] - points[order] * coefficients[0]


@compiled
def evaluate(coefficients: Array, order: int, point: float) -> tuple[float, float]:
    """A derivative of a polynomial, with a bound on its rounding."""
    value, size = 0.0, 0.0
    for m in range(len(coefficients) - 1, order - 1, -1):
        factor = coefficients[m]
        for j in range(order):
            factor *= m - j
        value = value * point + factor
        size = size * abs(point) + abs(factor)
    return value, ROUNDING * size


@compiled
def largest_excess(coefficients: Array, nodes: Array, tau: float) -> float:
    """The largest excess over 1{t < tau}; infinity where it is not known.

    The nodes should be the polynomial's maxima. Where the slope is seen to change sign around each of n separate nodes
    these are all its maxima, because a polynomial of degree 2n that falls at infinity has no more. On either side of
    tau it is largest at one of them or at tau.
    """
    size, before, last = 0.0, -math.inf, len(nodes) - 1
    for m in range(len(coefficients)):
        size = max(size, abs(coefficients[m]))
    if not (coefficients[2 * len(nodes)] < -1e-200 * size and size < 1e100):
        return math.inf
    apart = 8 * MAXIMUM_WIDTH * (1 + max(abs(nodes[0]), abs(nodes[last])))
    value, rounding = evaluate(coefficients, 0, tau)
    excess = value + rounding
    for j in range(len(nodes)):
        node = nodes[j]
        if not (node - before > apart and abs(node - tau) > apart):
            return math.inf
        before, width = node, MAXIMUM_WIDTH * (1 + abs(node))
        left, slack_left = evaluate(coefficients, 1, node - width)
        right, slack_right = evaluate(coefficients, 1, node + width)
        if not (left > slack_left and right < -slack_right):
            return math.inf
        value, rounding = evaluate(coefficients, 0, node)
        # within `width` of the node the slope is no steeper than at the ends but for what its own
        # curvature, the third derivative, bends it: width^2 / 2 times that, here with room
        bend = evaluate(coefficients, 3, abs(node) + width)[1] / ROUNDING
        steepest = max(left + slack_left, slack_right - right) + width**2 * bend
        peak = value + rounding + 2 * width * steepest
        excess = max(excess, peak - 1.0 if node < tau else peak)
    return excess
