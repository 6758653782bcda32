"""Thresholds of planted halfspaces: above which value of v·x a law has a given share of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from streamhalf.synthetic.kinds import Marginal
from streamhalf.synthetic.marginals import EQUICORRELATION, LOW_RANK_SHARE, SHIFT

SHARE_TOLERANCE = 0.05
"""By how much of the smaller class a share may miss the one asked for."""

_CLOSE = 1e-5
"""Values of v·x nearer than this may be one value of a discrete law, summed in another order."""


def normal_threshold(marginal: Marginal, v: NDArray[np.float64], positive: float) -> float | None:
    """Return the quantile of v·x where the law is normal, else nothing.

    fsum, because a BLAS sum's bits differ between machines.
    """
    length, total = math.fsum(v * v), math.fsum(v)
    if marginal is Marginal.GAUSSIAN:
        mean, variance = 0.0, length
    elif marginal is Marginal.SHIFTED:
        mean, variance = SHIFT * total, length
    elif marginal is Marginal.CORRELATED:
        mean, variance = 0.0, (1 - EQUICORRELATION) * length + EQUICORRELATION * total**2
    elif marginal is Marginal.LOW_RANK:
        angles = np.arange(len(v))
        factors = math.fsum(v * np.cos(angles)) ** 2 + math.fsum(v * np.sin(angles)) ** 2
        mean, variance = 0.0, (1 - LOW_RANK_SHARE) * length + LOW_RANK_SHARE * factors
    else:
        return None
    return mean - math.sqrt(variance) * float(ndtri(positive))


def sample_threshold(margins: NDArray[np.floating[Any]], positive: float) -> tuple[float, float]:
    """Return the threshold between two values of a sample whose share above is nearest, and it.

    Between two values, because a row on the plane would be on either side by its rounding.
    """
    ordered = np.sort(margins.astype(np.float64))
    n = len(ordered)
    at = ordered[n - min(max(round(positive * n), 1), n)]
    below, above = np.searchsorted(ordered, [at - _CLOSE, at + _CLOSE])
    sides = [ordered[i] for i in (below - 1, above) if 0 <= i < n]
    middles = [(at + float(side)) / 2 for side in sides]
    shares = [1 - float(np.searchsorted(ordered, middle)) / n for middle in middles]
    return min(zip(middles, shares, strict=True), key=lambda one: abs(one[1] - positive))
