"""Polynomials below the indicator 1{t < tau}, fitted to moments and certified.

A polynomial of degree 2n that meets 1 doubly at nodes left of tau, 0 at tau and 0 doubly at nodes
right of it is below the indicator everywhere, whatever the nodes (Markov). The nodes decide only
how large its mean is: the best ones for a law with given moments are the zeros of
sum_j p_j(t) p_j(tau), p_j the law's orthonormal polynomials up to degree n.

Nothing is taken on trust: the largest excess over the indicator, bounded around the polynomial's
own maxima, is subtracted; a polynomial that does not fall at infinity, or whose maxima are not all
seen to be enclosed, is dropped.

Inside this module arrays hold coefficients, nodes or moments along the first axis and rows along
the second, so that every operation runs over all rows at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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

SMALLEST_PIVOT = 1e-6
"""Of the Hankel matrix of a law in units of its second moment; below it, N(0, 1) is taken."""

NEXT_TO_NOTHING = 1e-5
"""Smallest quotient of the two leading coefficients: no node lies further out than its inverse."""

ROUNDING = 1e-14
"""Bound on the relative rounding of one evaluated term, with room."""

MAXIMUM_WIDTH = 1e-7
"""A maximum is enclosed in an interval of this half-width, relative to its distance from 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Polynomials that should be minorants, (k + 1, rows) in units of `scale`.

    Of the rows that are `active`, in their order; 0 is proposed for the others. `tau` is in the
    same units.
    """

    coefficients: Array
    nodes: Array
    tau: Array
    scale: Array
    active: NDArray[np.bool_]

    def rows(self, chosen: NDArray[np.bool_]) -> Proposal:
        """Some of the rows."""
        held = chosen[self.active]
        return Proposal(
            self.coefficients[:, held],
            self.nodes[:, held],
            self.tau[held],
            self.scale[held],
            self.active[chosen],
        )

    def means(self, moments: Array) -> Array:
        """Mean of each polynomial, as proposed, under its row of raw moments."""
        return np.asarray((self._unscaled(self.coefficients) * moments).sum(axis=1))

    def certified(self) -> Array:
        """Coefficients of 1, t, ..., t^k, one row each, below the indicator for sure."""
        return self._unscaled(subtract_excess(self.coefficients, self.nodes, self.tau))

    def _unscaled(self, coefficients: Array) -> Array:
        powers = np.arange(len(coefficients))[:, None]
        result = np.zeros((len(self.active), len(coefficients)))
        result[self.active] = (coefficients / self.scale**powers).T
        return result


def propose_minorants(moments: Array, tau: Array) -> Proposal:
    """Interpolate 1{t < tau} at the best nodes for the given moments.

    Parameters
    ----------
    moments
        Raw moments 0, ..., k of one law per row, k even; they steer the choice and nothing else:
        what is certified is below the indicator whatever they are.
    tau
        Threshold of each row.
    """
    scale = np.sqrt(np.maximum(moments[:, 2], 1e-12))
    active = tau > SMALLEST_TAU * scale
    scale = scale[active]
    scaled = np.minimum(tau[active] / scale, LARGEST_TAU)
    laws = moments[active].T / scale ** np.arange(moments.shape[1])[:, None]
    nodes = move_nodes(extremal_nodes(tame_moments(laws), scaled), scaled)
    return Proposal(interpolate_step(nodes, scaled), nodes, scaled, scale, active)


@cache
def normal_moments(degree: int) -> Array:
    """Moments 0, ..., degree of N(0, 1)."""
    return np.array([0.0 if m % 2 else float(math.prod(range(1, m, 2))) for m in range(degree + 1)])


def tame_moments(moments: Array) -> Array:
    """Mix in a little of N(0, 1), and take it whole where the moments are of no law at all."""
    normal = normal_moments(len(moments) - 1)[:, None]
    mixed = (1 - GAUSSIAN_SHARE) * moments + GAUSSIAN_SHARE * normal
    with np.errstate(all="ignore"):
        _, pivots = factor_hankel(mixed)
        definite = (pivots > SMALLEST_PIVOT).all(axis=0) & np.isfinite(mixed).all(axis=0)
    return np.where(definite, mixed, normal)


def factor_hankel(moments: Array) -> tuple[list[list[Array]], Array]:
    """Unit lower triangle (entry [i][j], j < i) and pivots of each row's Hankel matrix."""
    size = (len(moments) + 1) // 2
    lower: list[list[Array]] = []
    pivots: list[Array] = []
    for i in range(size):
        products: list[Array] = []
        for j in range(i):
            inner = sum((products[m] * lower[j][m] for m in range(j)), np.zeros(1))
            products.append(moments[i + j] - inner)
        lower.append([product / pivot for product, pivot in zip(products, pivots, strict=True)])
        taken = sum((a * b for a, b in zip(products, lower[i], strict=True)), np.zeros(1))
        pivots.append(moments[2 * i] - taken)
    return lower, np.array(pivots)


def extremal_nodes(moments: Array, tau: Array) -> Array:
    """The n nodes other than tau of the extremal law with these moments and an atom at tau.

    They are the zeros of the kernel m(t)·H^-1 m(tau), m the monomials and H the Hankel matrix.
    """
    lower, pivots = factor_hankel(moments)
    size = len(pivots)
    forward: list[Array] = []
    for i in range(size):
        known = sum((lower[i][j] * forward[j] for j in range(i)), np.zeros(1))
        forward.append(tau**i - known)
    kernel = [value / pivot for value, pivot in zip(forward, pivots, strict=True)]
    for i in reversed(range(size)):
        for j in range(i + 1, size):
            kernel[i] = kernel[i] - lower[j][i] * kernel[j]
    # where tau is a zero of p_n, one node lies at infinity: far is far enough
    least = NEXT_TO_NOTHING * np.abs(kernel[-2]) + 1e-290
    if (small := np.abs(kernel[-1]) < least).any():
        kernel[-1] = np.where(small, np.copysign(least, kernel[-1]), kernel[-1])
    return real_roots(np.array(kernel[:-1]) / kernel[-1])


def real_roots(monic: Array) -> Array:
    """Zeros of t^n + ... with the lower coefficients given, rising; all of them are real."""
    if len(monic) == 1:
        return -monic
    if len(monic) == 2:
        half = monic[1] / -2
        far = half + np.copysign(np.sqrt(np.maximum(half * half - monic[0], 0.0)), half)
        near = monic[0] / np.where(far == 0, 1.0, far)
        return np.stack([near, far])
    if len(monic) == 3:
        shift = monic[2] / 3
        spread = np.sqrt(np.maximum(shift * shift - monic[1] / 3, 1e-300))
        skew = (shift**3 + (monic[0] - shift * monic[1]) / 2) / spread**3
        angle = np.arccos(np.clip(skew, -1.0, 1.0)) / 3
        turns = angle + np.array([[0.0], [2.0], [4.0]]) * (math.pi / 3)
        return np.asarray(-2 * spread * np.cos(turns) - shift)
    return companion_roots(monic)


def companion_roots(monic: Array) -> Array:
    """Real parts of all zeros of t^n + ..., with the lower coefficients given, rising."""
    size, count = monic.shape
    companion = np.zeros((count, size, size))
    below = np.arange(size - 1)
    companion[:, below + 1, below] = 1.0
    companion[:, :, -1] = -monic.T
    return np.ascontiguousarray(np.linalg.eigvals(companion).real.T)


def move_nodes(nodes: Array, tau: Array) -> Array:
    """Keep nodes within reach and off tau, on their side of it."""
    left = np.clip(nodes, np.minimum(tau, 0.0) - NODE_REACH, tau - NODE_GAP)
    right = np.clip(nodes, tau + NODE_GAP, np.maximum(tau, 0.0) + NODE_REACH)
    return np.where(nodes < tau, left, right)


def interpolate_step(nodes: Array, tau: Array) -> Array:
    """Coefficients (k + 1, rows) of the polynomials that meet the step at tau, doubly at nodes."""
    points = np.sort(np.concatenate([nodes, nodes, tau[None]]), axis=0)
    count = len(points)
    differences = (points < tau).astype(np.float64)
    newton = [differences[0]]
    for order in range(1, count):
        width = points[order:] - points[:-order]
        rise = differences[1:] - differences[:-1]
        # equal points carry the derivative, which is 0 at every node
        differences = np.where(width > 0, rise / np.where(width > 0, width, 1.0), 0.0)
        newton.append(differences[0])
    result = np.zeros_like(points)
    for order in reversed(range(count)):
        result[1:] = result[:-1] - points[order] * result[1:]
        result[0] = newton[order] - points[order] * result[0]
    return result


def evaluate(coefficients: Array, points: Array) -> tuple[Array, Array]:
    """Values at the points (m, rows), and a bound on the rounding in each of them."""
    value = np.zeros_like(points)
    size = np.zeros_like(points)
    distance = np.abs(points)
    for column, magnitude in zip(coefficients[::-1], np.abs(coefficients[::-1]), strict=True):
        value = value * points + column
        size = size * distance + magnitude
    return value, ROUNDING * size


def subtract_excess(coefficients: Array, nodes: Array, tau: Array) -> Array:
    """Lower each polynomial by its largest excess over 1{t < tau}; 0 where that is not known.

    The nodes should be its maxima. Where the slope is seen to change sign around each of n
    separate nodes these are all its maxima, because a polynomial of degree 2n that falls at
    infinity has no more. On either side of tau it is largest at one of them or at tau.
    """
    with np.errstate(all="ignore"):
        size = np.abs(coefficients).max(axis=0)
        sound = (coefficients[-1] < -1e-200 * size) & (size < 1e100)
        peaks, at_maxima = _peaks(coefficients, nodes, tau)
        value, rounding = evaluate(coefficients, tau[None])
        excess = np.maximum((peaks - (nodes < tau)).max(axis=0), (value + rounding)[0])
    # a minorant worse than nothing everywhere is replaced by nothing
    lowered = coefficients.copy()
    lowered[0] -= np.maximum(excess, 0.0)
    return np.where(sound & at_maxima & (excess < 1.0), lowered, 0.0)


def _peaks(coefficients: Array, nodes: Array, tau: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Upper bound on the polynomial next to each node, and whether the nodes are all its maxima."""
    width = MAXIMUM_WIDTH * (1 + np.abs(nodes))
    powers = np.arange(len(coefficients))[:, None]
    slope = (coefficients * powers)[1:]
    ends = np.concatenate([nodes - width, nodes + width])
    rise, rounding = evaluate(slope, ends)
    left, right = np.split(rise, 2)
    slack_left, slack_right = np.split(rounding, 2)
    falls = (left > slack_left) & (right < -slack_right)
    order = np.sort(np.concatenate([nodes, tau[None]]), axis=0)
    apart = np.diff(order, axis=0) > 8 * width.max(axis=0)
    value, slack = evaluate(coefficients, nodes)
    # within `width` of the node the slope is no steeper than at the ends but for what its own
    # curvature, the third derivative, bends it: width^2 / 2 times that, here with room
    third = np.abs(coefficients * powers * (powers - 1) * (powers - 2))[3:]
    bend, _ = evaluate(third, np.abs(nodes) + width)
    steepest = np.maximum(left + slack_left, slack_right - right) + width**2 * bend
    return value + slack + 2 * width * steepest, falls.all(axis=0) & apart.all(axis=0)


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
