"""The three outcomes of every tester, and the quantiles they are judged by.

T is the statistic, tol what soundness needs, q the quantile of T for true N(0, I) at this number
of rows. Only T > max(tol, q) says "not Gaussian"; tol < T <= q says "too few rows".
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtri

from streamhalf.records import Outcome


def judge(statistic: float, *, limit: float, null_quantile: float) -> Outcome:
    """Compare T with tol and q."""
    if statistic <= limit:
        return Outcome.PASSED
    if statistic > max(limit, null_quantile) or math.isnan(statistic):
        return Outcome.REJECTED
    return Outcome.INCONCLUSIVE


def upper_normal_quantile(tail: float) -> float:
    """z with P[N(0,1) > z] = tail."""
    return float(-ndtri(tail))


def rows_until(quantile: Callable[[int], float], limit: float) -> int:
    """Smallest number of rows whose null quantile (it falls with rows) is within the limit."""
    high = 1
    while quantile(high) > limit:
        high *= 2
        if high > 1 << 60:
            raise ValueError("no number of rows is enough")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if quantile(middle) > limit else (low, middle)
    return high
