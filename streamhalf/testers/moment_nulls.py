"""Quantiles of the moment statistics for true N(0, I), calibrated by simulation."""

from __future__ import annotations

import math

from scipy.special import eval_hermitenorm

from streamhalf.kernels.monomials import count_monomials
from streamhalf.testers.base import upper_normal_quantile


def largest_quantile(n_rows: int, count: int, tau: float, degree: int = 4) -> float:
    """Null quantile of the largest of `count` Hermite moments: Gaussian with a union bound.

    Moments of degree 4 have heavier tails than a Gaussian until about 10,000 rows; the factors
    below were calibrated by simulation for d = 1 to 20 and 40 rows upwards. In moments of a higher
    degree a single row can outweigh the rest: what the largest he_k(x) among n rows adds.
    """
    share = tau / (2 * max(1, count))
    z = upper_normal_quantile(share)
    small = 1.25 if n_rows < 10_000 else 1.0
    tiny = max(1.0, math.sqrt(math.sqrt(1_000 / max(1, n_rows))))
    jump = 0.0
    if degree > 4:
        largest = upper_normal_quantile(share / max(1, n_rows))
        norm = math.sqrt(math.factorial(degree))
        jump = float(eval_hermitenorm(degree, largest)) / norm / max(1, n_rows)
    return small * tiny * z / math.sqrt(max(1, n_rows)) + jump


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
    volatile direction; calibrated by simulation.
    """
    n = max(1, n_rows)
    p = count_monomials(dim, 2)
    z = upper_normal_quantile(tau)
    return 1.1 * (2.7 * math.sqrt(p / n) + z * math.sqrt(14 / n))
