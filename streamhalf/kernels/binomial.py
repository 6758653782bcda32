"""Confidence bounds for an error rate: of independent rows, and of independent segments of rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv


def binomial_upper(errors: float, n_rows: float, tau: float) -> float:
    """Largest rate that gives so few errors with probability at least tau (Clopper, Pearson)."""
    if errors >= n_rows:
        return 1.0
    return float(betaincinv(errors + 1, n_rows - errors, 1 - tau))


def binomial_lower(errors: float, n_rows: float, tau: float) -> float:
    """Smallest rate that gives so many errors with probability at least tau."""
    if errors <= 0:
        return 0.0
    return float(betaincinv(errors, n_rows - errors + 1, tau))


def segment_upper(errors: NDArray[np.int64], rows: NDArray[np.int64], tau: float) -> float:
    """Upper bound of the rate from independent segments, whatever the distribution of their means.

    It fails with probability tau at most. Errors within a segment may depend on each other in any way.

    Parameters
    ----------
    errors, rows
        Of each segment; rows are given, so that errors are expected at the rate times the rows.

    Notes
    -----
    A bet against a rate m, with stake f of what is owned (0 < f <= 1), multiplies it by 1 - f (e - m n) / (R (1 - m))
    >= 0 for a segment with e errors in n of at most R rows. At the true rate each factor has mean 1 (at most 1 over
    segments drawn without replacement), so the product, and its average over several stakes, is 1 / tau or more with
    probability tau at most (Waudby-Smith and Ramdas, 2024, with constant stakes: the order of segments does not
    matter). Every factor grows with m, so the rates that are not excluded end at one point. Stakes are powers of 1/2
    down to about what is best for means of the largest variance. A million segments of 200 rows take about a second.
    """
    largest = int(rows.max())
    pairs, counts = np.unique(errors + 1j * rows, return_counts=True)  # mostly few
    wrong, held = pairs.real, pairs.imag
    limit, rate = -math.log(tau), float(errors.sum() / rows.sum())
    n_stakes = 1 + max(0, math.ceil(-math.log2(2 * math.sqrt(limit / len(rows)))))

    def excess(m: float) -> float:
        """Log of what is owned, beyond that of 1 / tau."""
        gains = (m * held - wrong) / (largest * (1 - m))
        with np.errstate(divide="ignore"):
            owned = [float(np.log1p(np.maximum(gains * 2.0**-k, -1.0)) @ counts) for k in range(n_stakes)]
        return float(np.logaddexp.reduce(owned)) - math.log(n_stakes) - limit

    low, high = rate, 1 - 1e-12
    if rate >= high or excess(high) <= 0:
        return 1.0
    while high - low > 1e-12:  # by halves: scipy.optimize takes a tenth of a second to import
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return high
