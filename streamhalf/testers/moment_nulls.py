"""Quantiles of the moment statistics for true N(0, I), calibrated by simulation."""

from __future__ import annotations

import math

from scipy.special import chdtri, eval_hermitenorm

from streamhalf.kernels.monomials import count_monomials
from streamhalf.testers.base import upper_normal_quantile


def largest_quantile(n_rows: int, count: int, tau: float, degree: int = 4) -> float:
    """Null quantile of the largest of `count` Hermite moments: Gaussian with a union bound.

    Moments of degree 4 have heavier tails than a Gaussian until about 10,000 rows; the factors
    below were calibrated by simulation for d = 1 to 20 and 40 rows upwards. A single row can
    outweigh the rest, the largest he_k(x) among n rows: for a small tau with few rows, and in
    moments of a higher degree, where it comes on top.
    """
    share = tau / (2 * max(1, count))
    z = upper_normal_quantile(share)
    small = 1.25 if n_rows < 10_000 else 1.0
    tiny = max(1.0, math.sqrt(math.sqrt(1_000 / max(1, n_rows))))
    bulk = small * tiny * z / math.sqrt(max(1, n_rows))
    largest = upper_normal_quantile(share / max(1, n_rows))
    norm = math.sqrt(math.factorial(degree))
    jump = float(eval_hermitenorm(degree, largest)) / norm / max(1, n_rows)
    return bulk + jump if degree > 4 else max(bulk, jump)


def second_moment_quantile(n_rows: int, dim: int, tau: float) -> float:
    """Null quantile of the operator norm of mean [1,x][1,x]^T - I (Gaussian matrices).

    The edge 2 s + s^2, s = sqrt((d+1)/n), and the fluctuation of a quadratic form, sqrt(2/n).
    """
    n = max(1, n_rows)
    edge = math.sqrt((dim + 1) / n)
    z = upper_normal_quantile(tau)
    return 2 * edge + edge**2 + z * math.sqrt(2 / n) + z**2 / n


def quadratics_quantile(n_rows: int, dim: int, tau: float) -> float:
    """Null quantile of the operator norm of mean H H^T - I, H of degree <= 2.

    2.7 sqrt(p/n) is the edge seen for p polynomials; 14 is the variance of he_2(x)^2, the most
    volatile direction, which must exceed the edge by itself to add to it: squares add up. With few
    rows or a small tau a single row decides, the longest of n: |H|² depends on |x|² alone.
    Calibrated by simulation for d = 1 to 40 and 1 row upwards.
    """
    n = max(1, n_rows)
    p = count_monomials(dim, 2)
    z = upper_normal_quantile(tau / 2)
    square = float(chdtri(dim, tau / n))
    longest = 1 + square + (square**2 - 2 * square + dim) / 2
    return math.hypot(1.2 * 2.8 * math.sqrt(p / n), 1.2 * z * math.sqrt(14 / n), 1.1 * longest / n)


def expected_quadratics(n_rows: int, dim: int) -> float:
    """What the operator norm of mean H H^T - I, H of degree <= 2, comes to under N(0, I), about."""
    return 2.7 * math.sqrt(count_monomials(dim, 2) / max(1, n_rows))


def excluded_deviation(statistic: float, n_rows: int, tau: float) -> float:
    """What the norm of E H H^T - I in the source of the rows is below, with confidence 1 - tau.

    Along the worst quadratic q of the source its mean square D + 1 is estimated without bias, and
    the statistic is at least as far from 0: D <= T + z sd. The variance of q² is 14 for a Gaussian,
    and Q D more where rows with q² about Q make the deviation; Q = 280 is five standard deviations
    out. A law that owes its deviation to still rarer and longer rows is not covered: no number of
    rows that misses them could. D is the root of (D - T)² = z² (14 + 280 D) / n.
    """
    z = upper_normal_quantile(tau)
    scale = 14 * z**2 / max(1, n_rows)
    return statistic + 10 * scale + math.sqrt(scale * (100 * scale + 1 + 20 * statistic))
