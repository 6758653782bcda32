"""Confidence bounds for an error rate that hold at every number of rows at once.

With S errors in n independent rows, the mixture M_n(p) = B(S + 1/2, n - S + 1/2) / B(1/2, 1/2) / (p^S (1 - p)^(n - S))
is a martingale at the true rate p, so that {p: M_n(p) < 1/tau} holds p for every n simultaneously with probability 1 -
tau (Ville's inequality). It is an interval about S / n: log M_n is convex in p.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, xlog1py, xlogy

_HALVINGS = 64  # of an interval of length one at most: its ends are then neighbouring numbers


def look_tau(tau: float, look: int) -> float:
    """What look 1, 2, ... may spend of a tau that all looks share, however many there are."""
    return tau * 6 / (math.pi * look) ** 2


def lower(errors: ArrayLike, n_rows: ArrayLike, tau: ArrayLike) -> NDArray[np.float64]:
    """Return the smallest rates that so many errors do not exclude; 0 where there are no rows.

    Parameters
    ----------
    errors, n_rows
        Counts so far, of one or more sequences of rows; they need not be whole numbers.
    tau
        Chance that the bound of a sequence is ever above its rate. A bound from either end, used alone or with the
        other one, fails with chance `tau` at most.
    """
    return _end(errors, n_rows, tau, 0.0)


def upper(errors: ArrayLike, n_rows: ArrayLike, tau: ArrayLike) -> NDArray[np.float64]:
    """Return the largest rates that so many errors do not exclude; 1 where there are no rows."""
    return _end(errors, n_rows, tau, 1.0)


def _end(errors: ArrayLike, n_rows: ArrayLike, tau: ArrayLike, outermost: float) -> NDArray[np.float64]:
    wrong, rows, chance = np.broadcast_arrays(np.asarray(errors, float), np.asarray(n_rows, float), tau)
    limit = betaln(wrong + 0.5, rows - wrong + 0.5) - betaln(0.5, 0.5) + np.log(chance)
    inside, outside = wrong / np.maximum(rows, 1), np.full_like(wrong, outermost)
    possible = _log_likelihood(wrong, rows, outside) > limit
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        kept = _log_likelihood(wrong, rows, middle) > limit
        inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
    return np.where(possible, outermost, outside)


def _log_likelihood(
    wrong: NDArray[np.float64], rows: NDArray[np.float64], p: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.asarray(xlogy(wrong, p) + xlog1py(rows - wrong, -p))
