"""Confidence bounds for an error rate: of rows, at every number of rows at once, and of segments of rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, betaln, xlog1py, xlogy

Array = NDArray[np.float64]
_HALVINGS = 64  # of an interval of length one at most: its ends are then neighbouring numbers


def binomial_upper(errors: float, n_rows: float, tau: float) -> float:
    """Largest rate that gives so few errors with probability at least tau (Clopper, Pearson)."""
    return 1.0 if errors >= n_rows else float(betaincinv(errors + 1, n_rows - errors, 1 - tau))


def binomial_lower(errors: float, n_rows: float, tau: float) -> float:
    """Smallest rate that gives so many errors with probability at least tau."""
    return 0.0 if errors <= 0 else float(betaincinv(errors, n_rows - errors + 1, tau))


def segment_upper(errors: NDArray[np.int64], rows: NDArray[np.int64], tau: float) -> float:
    """Upper bound of the rate from errors and rows of independent segments; it fails with probability tau at most.

    Errors within a segment may depend on each other in any way, and means of segments may have any distribution. Rows
    are given, so that errors are expected at the rate times the rows. A million segments of 200 rows take a second.

    Notes
    -----
    A bet against a rate m, with stake f of what is owned (0 < f <= 1), multiplies it by
    1 - f (e - m n) / (R (1 - m)) >= 0 for a segment with e errors in n of at most R rows. At the true rate each factor
    has mean 1 (at most 1 over segments drawn without replacement), so the product, and its average over several stakes,
    is 1 / tau or more with probability tau at most (Waudby-Smith and Ramdas, 2024, with constant stakes: the order of
    segments does not matter). Every factor grows with m, so the rates that are not excluded end at one point. Stakes
    are powers of 1/2 down to about what is best for means of the largest variance.
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


def look_tau(tau: float, look: int) -> float:
    """The part that look 1, 2, ... may spend of a tau that all looks share, however many there are."""
    return tau * 6 / (math.pi * look) ** 2


def anytime_lower(errors: ArrayLike, n_rows: ArrayLike, tau: ArrayLike) -> Array:
    """Smallest rates that so many errors do not exclude at any number of rows; 0 where there are no rows.

    The bound of a sequence of rows is ever above its rate with chance tau at most; errors need not be whole numbers.

    Notes
    -----
    With S errors in n independent rows, the mixture
    M_n(p) = B(S + 1/2, n - S + 1/2) / B(1/2, 1/2) / (p^S (1 - p)^(n - S)) is a martingale at the true rate p, so that
    {p: M_n(p) < 1/tau} holds p for every n simultaneously with probability 1 - tau (Ville's inequality). It is an
    interval about S / n: log M_n is convex in p.
    """
    return _anytime_end(errors, n_rows, tau, 0.0)


def anytime_upper(errors: ArrayLike, n_rows: ArrayLike, tau: ArrayLike) -> Array:
    """Largest rates that so many errors do not exclude; both ends together fail with chance tau at most too."""
    return _anytime_end(errors, n_rows, tau, 1.0)


def _anytime_end(errors: ArrayLike, n_rows: ArrayLike, tau: ArrayLike, outermost: float) -> Array:
    wrong, rows, chance = np.broadcast_arrays(np.asarray(errors, float), np.asarray(n_rows, float), tau)
    limit = betaln(wrong + 0.5, rows - wrong + 0.5) - betaln(0.5, 0.5) + np.log(chance)

    def is_possible(p: Array) -> NDArray[np.bool_]:
        return np.asarray(xlogy(wrong, p) + xlog1py(rows - wrong, -p) > limit)

    inside, outside = wrong / np.maximum(rows, 1), np.full_like(wrong, outermost)
    possible = is_possible(outside)
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        kept = is_possible(middle)
        inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
    return np.where(possible, outermost, outside)
