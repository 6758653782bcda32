"""How much any halfspace near v can disagree with it: beta from slab statistics.

For w within the angle arctan(gamma) of v, sgn(w·x) differs from sgn(v·x) only where
u·s <= -t, with s = sgn(v·x) x_perp, t = abs(v·x)/gamma. Rows enter through r = y x, which changes
neither abs(v·x) nor, up to the slab's sign, s: the statistics of the lower bound serve here too.
A row with v·x = 0 has t = 0 and counts as a disagreement whatever w is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.slab_forms import SUM_ROUNDING, SlabForms, slab_forms
from streamhalf.errors import UsageError
from streamhalf.reductions.slab_moments import SlabStatistics

REFITS = 3
EIGEN_STEPS = 8


def wedge_bound(statistics: SlabStatistics, *, gamma: float) -> float:
    """Upper bound beta on P[sgn(v·x) != sgn(w·x)] over all w within arctan(gamma) of v.

    The smaller of two bounds: the sum over slabs of Cantelli's inequality in each slab's own
    worst direction, and one minus the lower bound on P[-u·s < t], for one u in all slabs.

    Parameters
    ----------
    statistics
        Of the rows, in slabs of v; the bound holds for any data.
    gamma
        Tangent of the angle, not negative.
    """
    if not gamma >= 0:
        raise UsageError(f"gamma must be at least 0, got {gamma}")
    if gamma == 0 or statistics.dim == 1 or statistics.n_rows == 0:
        return 0.0
    best = 1.0
    for degree in dict.fromkeys((2, statistics.degree)):
        form = slab_forms(statistics, degree).mirrored()
        tau = _thresholds(form, gamma)
        fit = form.refit(tau, form.start(), rounds=REFITS, steps=EIGEN_STEPS)
        best = min(best, 1.0 - fit.value, _slab_by_slab(form, gamma) if degree == 2 else 1.0)
    return max(0.0, best)


def _thresholds(form: SlabForms, gamma: float) -> NDArray[np.float64]:
    """Smallest t of each slab.

    Where v·x = 0 the sign of s is lost, so a slab that begins at 0 earns nothing.
    """
    with np.errstate(over="ignore"):
        return np.where(form.low > 0, form.low / gamma, -math.inf)


def _slab_by_slab(form: SlabForms, gamma: float) -> float:
    """Sum of p lambda / (lambda + (low/gamma - m)_+^2), m the length of the slab's mean of s."""
    linear, quadratic = form.table.slices[1], form.table.blocks[1]
    mean = np.linalg.norm(form.moments[:, linear], axis=1) / form.mass
    hermite = form.moments[:, quadratic.ranks] * quadratic.weights * math.sqrt(2)
    second = hermite / form.mass[:, None, None] + np.eye(form.table.dim)
    spread = form.sizes[:, 2] / form.mass
    top = np.linalg.eigvalsh(second)[:, -1] + SUM_ROUNDING * spread
    slack = mean + SUM_ROUNDING * np.sqrt(spread)
    reach = np.minimum(np.maximum(_thresholds(form, gamma) - slack, 0.0), 1e100)
    top = np.maximum(top, 0.0)
    share = np.divide(top, top + reach**2, out=np.ones_like(top), where=reach > 0)
    return 1.0 - float(form.mass.sum()) + float(form.mass @ share)
