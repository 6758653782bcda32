"""Slab statistics as polynomials in the direction u: what every bound is made of."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.minorants import (
    Proposal,
    hermite_from_powers,
    normal_moments,
    propose_minorants,
)
from streamhalf.certificate.sphere import (
    Sphere,
    minimum_over_sphere,
    sphere,
    uniform_point,
)
from streamhalf.kernels.hermite import wick_terms
from streamhalf.kernels.monomials import count_monomials, degree_offset
from streamhalf.reductions.slab_moments import SlabStatistics

Array = NDArray[np.float64]

SUM_ROUNDING = 2.0**-22
"""Relative rounding granted to every sum: four units in the last place of float32."""

BASIS_ROUNDING = 1e-14
"""Relative rounding granted to the change of basis, in float64 with room."""

SMALLEST_SCALE = 1e-25
"""Rows smaller than this, or larger than its inverse, have moments that float64 cannot hold."""

LINE_SEARCH = (0.0, 0.05, 0.12, 0.25, 0.4, 0.6)
"""How far a refit may move the law of u towards the worst direction."""

PRIOR_ROWS = (0.0, 0.0, 2.0, 0.0, 1.0, 0.0, 12.0, 0.0, 30.0)
"""By degree: minorants are fitted to a slab's law as if so many rows of N(0, 1) were in the slab as
well. Those fitted to a handful of rows are steep, and sum to a polynomial that no bound does
justice; the higher the degree, the more rows make a law."""

STALL = 1e-3
"""A round of refitting that gains less than this share of the bound is the last."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A valid lower bound for one vector of thresholds, and the law of u it was fitted to.

    `moments` are those of u·s in each slab under that law.
    """

    value: float
    law: Array
    moments: Array
    refits: int


@dataclass(frozen=True, slots=True, eq=False)
class SlabForms:
    """Non-empty slabs: mass, extremes of abs(z), Hermite moments times mass, in a common unit.

    `trust` is how far a slab's own law counts beside N(0, 1) where minorants are fitted.
    `sizes` are the masses times the mean of |s|^m and `hermite_sizes` the same for he_m with all
    its terms taken positive: what the rounding of the moments is proportional to.
    """

    degree: int
    mass: Array
    trust: Array
    low: Array
    high: Array
    negative: NDArray[np.bool_]
    moments: Array
    sizes: Array
    hermite_sizes: Array
    table: Sphere

    def laws(self, law: Array) -> Array:
        """Raw moments 0, ..., k of u·s in each slab, u drawn from the law with these moments."""
        slices = self.table.slices
        hermite = np.stack([self.moments[:, part] @ law[part] for part in slices], axis=1)
        return np.asarray(hermite @ hermite_from_powers(self.degree).T / self.mass[:, None])

    def pooled(self, coefficients: Array) -> Array:
        """Packed Hermite coefficients of the polynomial in u that the slabs' minorants sum to."""
        hermite = coefficients @ hermite_from_powers(self.degree)
        parts = [hermite[:, m] @ self.moments[:, part] for m, part in enumerate(self.table.slices)]
        return np.concatenate(parts)

    def propose(self, laws: Array, tau: Array) -> Proposal:
        """Minorants for laws of u·s: one for each slab, or several, all slabs at a time."""
        copies = len(laws) // len(self.mass) if len(self.mass) else 1
        trust = np.tile(self.trust, copies)[:, None]
        shrunk = trust * laws + (1 - trust) * normal_moments(self.degree)
        return propose_minorants(shrunk, np.tile(tau, copies))

    def start(self) -> Fit:
        """Nothing known: all directions alike."""
        law = uniform_point(self.table)
        return Fit(-math.inf, law, self.laws(law), 0)

    def measure(self, tau: Array, start: Fit, *, steps: int) -> Fit:
        """Bound the mass of {u·s < tau} for every unit u, with minorants fitted to the start's law.

        The bound holds whatever the law is.
        """
        value, _ = self.bound(self.propose(start.moments, tau).certified(), steps=steps)
        return dataclasses.replace(start, value=value)

    def bound(self, coefficients: Array, *, steps: int) -> tuple[float, Array]:
        """A better bound for given minorants, at more cost, and the worst u's point."""
        pooled = self.pooled(coefficients)
        found = minimum_over_sphere(self.table, pooled, steps=steps)
        return found.bound - self.allowance(coefficients), self.table.point(found.worst)

    def allowance(self, coefficients: Array) -> float:
        """What rounding of the sums, and of the change to the Hermite basis, can amount to."""
        size = np.abs(coefficients)
        hermite = size @ hermite_from_powers(self.degree)
        sums = SUM_ROUNDING * float((size * self.sizes).sum())
        return sums + BASIS_ROUNDING * float((hermite * self.hermite_sizes).sum())

    def refit(self, tau: Array, start: Fit, *, rounds: int, steps: int) -> Fit:
        """Improve a bound by fitting the minorants to the directions that defeat them.

        The bound is the value of a game between minorants and directions: the law of u moves
        towards the worst direction as long as that lowers what the best response earns
        (Frank-Wolfe with a line search). Every round gives a valid bound; the best is kept.
        """
        best = start
        law, here = start.law, start.moments
        minorants = self.propose(here, tau).certified()
        for turn in range(rounds):
            value, worst = self.bound(minorants, steps=steps)
            stalled = turn > 1 and value < best.value + STALL * abs(best.value)
            if value > best.value:
                best = Fit(value, law, here, start.refits + turn)
            if stalled or turn == rounds - 1:
                break
            there = self.laws(worst)
            share, minorants = self._step(here, there, tau)
            if share == 0:
                break
            law, here = law + share * (worst - law), here + share * (there - here)
        return best

    def _step(self, here: Array, there: Array, tau: Array) -> tuple[float, Array]:
        """How far from one law to the other the best minorants earn least, and those minorants."""
        count = len(here)
        laws = np.concatenate([here + share * (there - here) for share in LINE_SEARCH])
        proposal = self.propose(laws, tau)
        earned = proposal.means(laws).reshape(len(LINE_SEARCH), count) @ self.mass
        least = int(np.argmin(earned))
        chosen = proposal.rows(slice(least * count, (least + 1) * count))
        return LINE_SEARCH[least], chosen.certified()

    def mirrored(self) -> SlabForms:
        """The same slabs with s replaced by -sgn(z) s, for which w and v disagree at u·s >= t."""
        sign = np.where(self.negative, 1.0, -1.0)
        moments = self.moments.copy()
        for part in self.table.slices[1::2]:
            moments[:, part] *= sign[:, None]
        return dataclasses.replace(self, moments=moments)


def slab_forms(statistics: SlabStatistics, degree: int) -> SlabForms:
    """Turn sums into Hermite moments up to an even `degree`, in units of the typical slab."""
    dim = statistics.dim - 1
    sums = statistics.sums[:, : count_monomials(dim, degree)]
    # a slab whose moments overflow takes no part: 0 is a minorant too
    keep = (statistics.counts > 0) & np.isfinite(sums).all(axis=1)
    raw = sums[keep] / statistics.n_rows
    scale = _typical_scale(_even_sizes(raw, dim, 2) / dim, raw[:, 0])
    if not SMALLEST_SCALE < scale < 1 / SMALLEST_SCALE:
        keep, raw, scale = np.zeros_like(keep), raw[:0], 1.0
    for m in range(1, degree + 1):
        raw[:, _part(dim, m)] /= scale**m
    sizes = _sizes(raw, dim, degree)
    return SlabForms(
        degree,
        statistics.counts[keep] / statistics.n_rows,
        statistics.counts[keep] / (statistics.counts[keep] + PRIOR_ROWS[degree]),
        statistics.low[keep] / scale,
        statistics.high[keep] / scale,
        np.flatnonzero(keep) < statistics.n_negative,
        _hermite(raw, dim, degree),
        sizes,
        sizes @ np.abs(np.linalg.inv(hermite_from_powers(degree))).T,
        sphere(dim, degree),
    )


def _typical_scale(squares: Array, mass: Array) -> float:
    """Median over rows of their slab's root mean square: outliers must not set the unit."""
    spread = np.sqrt(squares / mass)
    order = np.argsort(spread)
    middle = int(np.searchsorted(np.cumsum(mass[order]), mass.sum() / 2))
    chosen = spread[order[min(middle, len(order) - 1)]] if len(order) else 0.0
    return float(chosen) or float(np.sqrt(squares.sum())) or 1.0


def _part(dim: int, m: int) -> slice:
    """Where the monomials of degree m stand."""
    return slice(degree_offset(dim, m), count_monomials(dim, m))


def _hermite(raw: Array, dim: int, degree: int) -> Array:
    """Hermite moments of every slab from raw ones."""
    result = np.zeros_like(raw)
    for m in range(degree + 1):
        start = degree_offset(dim, m)
        for positions, ranks, coefficients in wick_terms(dim, m):
            result[:, start + positions] += coefficients * raw[:, ranks]
    return result


def _even_sizes(raw: Array, dim: int, m: int) -> Array:
    """Mean of |s|^m, m even, times mass: a sum over the squares of the monomials of degree m/2."""
    if m == 0:
        return np.asarray(raw[:, 0])
    table = sphere(dim, m)
    squares = np.diagonal(table.blocks[m - 1].ranks)
    weights = table.weights[table.parts[m // 2]] ** 2
    return np.asarray(raw[:, squares] @ weights)


def _sizes(raw: Array, dim: int, degree: int) -> Array:
    """Mean of |s|^m times mass for m = 0, ..., degree; odd ones by Cauchy and Schwarz."""
    result = np.zeros((len(raw), degree + 1))
    for m in range(0, degree + 1, 2):
        result[:, m] = np.maximum(_even_sizes(raw, dim, m), 0.0)
    for m in range(1, degree, 2):
        result[:, m] = np.sqrt(result[:, m - 1] * result[:, m + 1])
    return result
