"""Slab statistics as polynomials in the direction u: what every bound is made of."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.cells import Cell
from streamhalf.certificate.minorants import (
    Proposal,
    hermite_from_powers,
    normal_moments,
    propose_minorants,
)
from streamhalf.certificate.sphere import (
    Guide,
    Minimum,
    Sphere,
    minimum_over_sphere,
    sphere,
    uniform_point,
)
from streamhalf.kernels.hermite import wick_terms
from streamhalf.kernels.monomials import count_monomials, degree_offset
from streamhalf.reductions.slab_moments import SlabStatistics

Array = NDArray[np.float64]

UNIT = 2.0**-52
"""Twice the largest relative error of one float64 operation: room for products of such errors."""

SUM_STEPS = 32
"""Operations on a row's monomial, and on a minorant's coefficient, beside the sum over rows: up to
8 products for the monomial, a division by the rows and one by the unit, 8 for the coefficient."""

BASIS_STEPS = 1024
"""Operations from raw moments to a polynomial in u beside the sum over slabs: 764 pairings for
Hermite degree 8, at most 100 for the tables, the minorants' basis, weights and splits."""

SMALLEST_SCALE = 1e-25
"""Rows smaller than this, or larger than its inverse, have moments that float64 cannot hold."""

LARGEST_MOMENT, LARGEST_MARGIN = 1e150, 1e30
"""Slabs with larger ones, in units of the typical slab, take no part."""

NEXT_TO_NOTHING = 1e-100
"""Added to every size, in the same units: more than products that underflow can amount to."""

LINE_SEARCH = (0.0, 0.05, 0.12, 0.25, 0.45)
"""How far a refit may move the law of u towards the worst direction."""

PRIOR_ROWS = (0.0, 0.0, 2.0, 0.0, 1.0, 0.0, 12.0, 0.0, 30.0)
"""By degree: minorants are fitted to a slab's law as if so many rows of N(0, 1) were in the slab as
well. Those fitted to a handful of rows are steep, and sum to a polynomial that no bound does
justice; the higher the degree, the more rows make a law."""

LARGE = 128
"""Matrices with as many rows keep a core busy without the interpreter: bounds go to threads."""

MINORANT, OVERHEAD = 1e4, 1e6
"""Operations on the minorant of one slab, and on what no size matters to."""

SLABS_TO_A_CELL = 2
"""Slabs lose about half of what a cell loses by the spread of its own thresholds."""

STEPS, FEW_SLABS = 4, 100
"""Coarser slabs than these lose more than they save."""

FINEST = 0.06
"""Logarithm of the quotient of the ends of slabs that are always neighbours."""

STALL = 1e-3
"""A round of refitting that gains less than this share of the bound is the last."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A valid lower bound for one vector of thresholds, and the law of u it was fitted to.

    `moments` are those of u·s in each slab under that law, and `earned` is what its minorants are
    worth under it: no minorants fitted to the worst law give a larger bound.
    """

    value: float
    law: Array
    moments: Array
    refits: int
    earned: float = math.inf
    guide: Guide | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SlabForms:
    """Non-empty slabs: mass, ends of z and q, Hermite moments times mass, in a common unit.

    q is the second coordinate that rows are sliced by, 0 if there is none; slabs of one strip lie
    side by side along z. `slack` (n_slabs, degree + 1) is what rounding can add to the mean of
    (u·s)^m times mass, whatever u is.
    """

    degree: int
    mass: Array
    counts: NDArray[np.int64]
    z_low: Array
    z_high: Array
    q_low: Array
    q_high: Array
    strips: NDArray[np.int64]
    moments: Array
    slack: Array
    table: Sphere
    fineness: float

    @property
    def operations(self) -> float:
        """What one bound takes, about: minorants, their sum, a matrix and two of its factors."""
        slabs, size = self.moments.shape[0], self.table.parts[-1].stop
        return float(MINORANT * slabs + self.moments.size + float(size) ** 3 + OVERHEAD)

    def seen(self, fit: Fit) -> Fit:
        """A fit to other slabs of the same rows, with the moments of its law in these."""
        if len(fit.moments) == len(self.mass):
            return fit
        return dataclasses.replace(fit, moments=self.laws(fit.law[None])[0])

    def coarser(self) -> SlabForms:
        """The same with neighbouring slabs joined in pairs, within one side of 0 and one strip.

        All that a slab holds adds up, what rounding can amount to included.
        """
        middle = (self.z_low + self.z_high) / 2
        same = (middle[1:] > middle[:-1]) & (np.sign(middle[1:]) == np.sign(middle[:-1]))
        same &= self.strips[1:] == self.strips[:-1]
        # empty slabs are left out: those on either side of a gap are no neighbours
        reach = np.log(np.maximum(np.abs(self.z_low), np.abs(self.z_high)) + NEXT_TO_NOTHING)
        same &= np.abs(np.diff(reach)) <= 2 * max(self.fineness, FINEST)
        starts, at = [], 0
        while at < len(middle):
            starts.append(at)
            at += 2 if at < len(same) and same[at] else 1
        counts = np.add.reduceat(self.counts, starts)
        z_low = np.minimum.reduceat(self.z_low, starts)
        z_high = np.maximum.reduceat(self.z_high, starts)
        return dataclasses.replace(
            self,
            mass=np.add.reduceat(self.mass, starts),
            counts=counts,
            z_low=z_low,
            z_high=z_high,
            q_low=(q := np.minimum.reduceat(self.q_low, starts)),
            q_high=q if self.q_low is self.q_high else np.maximum.reduceat(self.q_high, starts),
            strips=self.strips[starts],
            moments=np.add.reduceat(self.moments, starts, axis=0),
            slack=np.add.reduceat(self.slack, starts, axis=0),
            fineness=_fineness(z_low, z_high),
        )

    @property
    def trust(self) -> Array:
        """How far each slab's own law counts beside N(0, 1) where minorants are fitted."""
        return np.asarray(self.counts / (self.counts + PRIOR_ROWS[self.degree]))

    def laws(self, laws: Array) -> Array:
        """Raw moments 0, ..., k of u·s in each slab, u drawn from each law with these moments."""
        parts = [laws[:, part] @ self.moments[:, part].T for part in self.table.slices]
        powers = np.stack(parts, axis=2) @ hermite_from_powers(self.degree).T
        return np.asarray(powers / self.mass[:, None])

    def pooled(self, coefficients: Array) -> Array:
        """Packed Hermite coefficients of the polynomials in u that the slabs' minorants sum to."""
        hermite = coefficients @ hermite_from_powers(self.degree)
        slices = enumerate(self.table.slices)
        parts = [hermite[:, :, m] @ self.moments[:, part] for m, part in slices]
        return np.concatenate(parts, axis=1)

    def propose(self, laws: Array, tau: Array) -> Proposal:
        """Minorants for laws of u·s, those of all slabs for each."""
        trust = self.trust[:, None]
        shrunk = trust * laws + (1 - trust) * normal_moments(self.degree)
        return propose_minorants(shrunk.reshape(-1, self.degree + 1), tau.ravel())

    def start(self) -> Fit:
        """Nothing known: all directions alike."""
        law = uniform_point(self.table)
        return Fit(-math.inf, law, self.laws(law[None])[0], 0)

    def measure(self, tau: Array, starts: Sequence[Fit], *, steps: int) -> list[Fit]:
        """Bound the mass of {u·s < tau} for every unit u, with minorants fitted to laws of u.

        One vector of thresholds and one bound for each start, which holds whatever its law is.
        """
        here = np.stack([start.moments for start in starts])
        proposal = self.propose(here, tau)
        values, guides = self.bounds(
            self._shaped(proposal.certified(), len(starts)),
            [start.guide for start in starts],
            steps=steps,
        )
        earned = self._earned(proposal, here)
        return [
            dataclasses.replace(start, value=value, earned=worth, guide=guide)
            for start, value, worth, guide in zip(
                starts, values, earned.tolist(), guides, strict=True
            )
        ]

    def bounds(
        self,
        coefficients: Array,
        guides: Sequence[Guide | None],
        *,
        steps: int,
        closely: bool = False,
    ) -> tuple[list[float], list[Guide]]:
        """The bounds that given minorants make."""

        def bound(pooled: Array, guide: Guide | None) -> Minimum:
            return minimum_over_sphere(self.table, pooled, guide, steps=steps, closely=closely)

        pooled = self.pooled(coefficients)
        if self.table.parts[-1].stop < LARGE:
            found = list(map(bound, pooled, guides))
        else:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = list(pool.map(bound, pooled, guides))
        slack = self.allowance(coefficients).tolist()
        values = [one.bound - less for one, less in zip(found, slack, strict=True)]
        return values, [one.guide for one in found]

    def allowance(self, coefficients: Array) -> Array:
        """What rounding, from the rows to each polynomial in u, can amount to."""
        return np.asarray(np.einsum("nsk,sk->n", np.abs(coefficients), self.slack))

    def refit(self, tau: Array, starts: Sequence[Fit], *, rounds: int, steps: int) -> list[Fit]:
        """Improve bounds by fitting the minorants to the directions that defeat them.

        A bound is the value of a game between minorants and directions: the law of u moves
        towards the worst direction as long as that lowers what the best response earns
        (Frank-Wolfe with a line search). Every round gives a valid bound; the best is kept.
        """
        best, going = list(starts), np.arange(len(starts))
        law = np.stack([start.law for start in starts])
        here = np.stack([start.moments for start in starts])
        earned = np.array([start.earned for start in starts])
        guides = [start.guide for start in starts]
        minorants = self._shaped(self.propose(here, tau).certified(), len(starts))
        for turn in range(rounds):
            values, found = self.bounds(
                minorants, [guides[i] for i in going], steps=steps, closely=True
            )
            stalled = []
            for i, value, guide in zip(going.tolist(), values, found, strict=True):
                guides[i] = guide
                stalled.append(turn > 1 and value < best[i].value + STALL * abs(best[i].value))
                if value > best[i].value:
                    refits = starts[i].refits + turn
                    best[i] = Fit(value, law[i].copy(), here[i].copy(), refits, earned[i], guide)
            going = going[~np.array(stalled)]
            if not len(going) or turn == rounds - 1:
                break
            worst = np.stack([self.table.point(guides[i].worst) for i in going])
            there = self.laws(worst)
            share, earned[going], minorants = self._step(here[going], there, tau[going])
            law[going] += share[:, None] * (worst - law[going])
            here[going] += share[:, None, None] * (there - here[going])
            moved = share > 0
            going, minorants = going[moved], minorants[moved]
            if not len(going):
                break
        return best

    def _step(self, here: Array, there: Array, tau: Array) -> tuple[Array, Array, Array]:
        """How far from one law to the other the best minorants earn least, that, and these."""
        shares, count = np.array(LINE_SEARCH), len(here)
        laws = here[None] + shares[:, None, None, None] * (there - here)
        laws = laws.reshape(len(shares) * count, *here.shape[1:])
        proposal = self.propose(laws, np.tile(tau, (len(shares), 1)))
        earned = self._earned(proposal, laws).reshape(len(shares), count)
        least = np.argmin(earned, axis=0)
        chosen = np.zeros((len(shares), count), dtype=np.bool_)
        chosen[least, np.arange(count)] = True
        ranks = np.argsort(np.flatnonzero(chosen) % count)
        certified = proposal.rows(np.repeat(chosen, here.shape[1])).certified()
        minorants = self._shaped(certified, count)[ranks]
        return shares[least], earned[least, np.arange(count)], minorants

    def _earned(self, proposal: Proposal, laws: Array) -> Array:
        """What minorants are worth under laws, all slabs together."""
        means = proposal.means(laws.reshape(-1, self.degree + 1))
        return np.asarray(means.reshape(len(laws), len(self.mass)) @ self.mass)

    def _shaped(self, coefficients: Array, count: int) -> Array:
        """One row for each slab of each law."""
        return coefficients.reshape(count, len(self.mass), self.degree + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """Forms of the same rows in finer and coarser slabs, the finest first."""

    forms: tuple[SlabForms, ...]

    def at(self, cell: Cell) -> SlabForms:
        """The coarsest slabs that are fine enough for a cell: thresholds vary in it anyway."""
        fine = cell.spread / SLABS_TO_A_CELL
        fitting = (form for form in reversed(self.forms) if form.fineness <= fine)
        return next(fitting, self.forms[0])


def ladder(statistics: SlabStatistics, degree: int, unit: float) -> Ladder:
    """Forms of a degree, with slabs joined in pairs again and again."""
    found = [slab_forms(statistics, degree, unit)]
    while len(found) < STEPS and len(found[-1].mass) > FEW_SLABS:
        found.append(found[-1].coarser())
    return Ladder(tuple(found))


def slab_forms(statistics: SlabStatistics, degree: int, unit: float | None = None) -> SlabForms:
    """Turn sums into Hermite moments up to an even `degree`.

    Lengths are in a `unit`, by default that of the typical slab; labels are not lengths, so forms
    of one search have one unit.
    """
    dim = statistics.rest
    unit = typical_unit(statistics) if unit is None else unit
    held = np.flatnonzero(statistics.counts)
    if not SMALLEST_SCALE < unit < 1 / SMALLEST_SCALE:
        held, unit = held[:0], 1.0
    raw = statistics.sums[held, : count_monomials(dim, degree)] / statistics.n_rows
    with np.errstate(over="ignore", invalid="ignore"):
        for m in range(1, degree + 1):
            raw[:, _part(dim, m)] /= unit**m
        # a slab whose moments overflow takes no part: 0 is a minorant too
        tame = (raw.max(axis=1) < LARGEST_MOMENT) & (raw.min(axis=1) > -LARGEST_MOMENT)
    reach = np.maximum(np.abs(statistics.low[held]), np.abs(statistics.high[held]))
    reach += abs(statistics.threshold)
    if statistics.across is not None:
        reach += np.abs(statistics.across[:, held]).max(axis=0)
    tame &= reach < LARGEST_MARGIN * unit
    held, raw, reach = held[tame], raw[tame], reach[tame]
    counts, labels = statistics.counts[held], statistics.labels[held].astype(np.float64)
    sizes = _sizes(raw, dim, degree)
    moved = _moved(sizes[:, -1] * statistics.n_rows, reach / unit, degree, statistics.dim)
    q_low = q_high = -labels
    if statistics.across is not None:
        q_low, q_high = statistics.across[:, held] / unit + np.outer([-1, 1], moved)
    return SlabForms(
        degree,
        counts / statistics.n_rows,
        counts,
        z_low := statistics.low[held] / unit - moved,
        z_high := statistics.high[held] / unit + moved,
        q_low,
        q_high,
        statistics.strips[held],
        _hermite(raw, dim, degree),
        _slack(sizes, counts, moved),
        sphere(dim, degree),
        _fineness(z_low, z_high),
    )


def _fineness(low: Array, high: Array) -> float:
    """Logarithm of the quotient of a slab's ends; a quarter of the slabs are wider."""
    held = low > 0
    return float(np.quantile(np.log(high[held] / low[held]), 0.75)) if held.any() else 0.0


def typical_unit(statistics: SlabStatistics) -> float:
    """Median over rows of their slab's root mean square: outliers must not set the unit."""
    dim = statistics.rest
    held = statistics.counts > 0
    raw = statistics.sums[held, : count_monomials(dim, 2)] / max(1, statistics.n_rows)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = _even_sizes(raw, dim, 2) / dim
        spread = np.sqrt(squares / raw[:, 0])
    order = np.argsort(spread)
    mass = np.cumsum(raw[order, 0])
    middle = int(np.searchsorted(mass, raw[:, 0].sum() / 2))
    chosen = spread[order[min(middle, len(order) - 1)]] if len(order) else 0.0
    return float(chosen) or float(np.sqrt(squares.sum())) or 1.0


def _moved(largest: Array, reach: Array, degree: int, dim: int) -> Array:
    """How far rounding may move z and s of a row, for each slab.

    s is Q^T x, with Q off an orthonormal basis by at most (4 d + 24) u, u = 2^-53 (a Householder
    reflection), and dot products of d terms each off by at most d u |x|: together no more than
    (d^1.5 + 4 d + 24) u |x| <= (d + 8)^1.5 UNIT |x|; beside a second direction Q is the product of
    two such, and twice that is enough. z is one such dot product less the threshold t, q another.
    |x| is at most |z| + |t| + |q|, the `reach`, + |s|, and |s| at most the `degree`-th root of the
    slab's sum of |s|^degree.
    """
    return np.asarray(2 * (dim + 8) ** 1.5 * UNIT * (reach + largest ** (1 / degree)))


def _slack(sizes: Array, counts: NDArray[np.int64], moved: Array) -> Array:
    """Bound on the error of each slab's mean of (u·s)^m times mass, for every unit u.

    A sum of n products, in any order and any number of pieces, is off by at most n u times the
    sum of their absolute values (Higham, Accuracy and Stability of Numerical Algorithms, section
    4.2); with one operation more for every factor, so is a monomial's sum. Over all monomials of
    degree m that makes n u times the sum of (sum_j |u_j s_j|)^m <= |s|^m: the `sizes`. The change
    to the Hermite basis and all that follows is off by its number of operations times he_m with
    all terms taken positive. Rows `moved` by r change (u·s)^m by at most (|s| + r)^m - |s|^m.
    """
    degree = sizes.shape[1] - 1
    table = hermite_from_powers(degree)
    spread = sizes @ np.abs(np.linalg.inv(table)).T @ table.T
    slack = UNIT * ((counts[:, None] + SUM_STEPS) * sizes + (len(counts) + BASIS_STEPS) * spread)
    for m in range(1, degree + 1):
        for j in range(1, m + 1):
            slack[:, m] += math.comb(m, j) * moved**j * sizes[:, m - j]
    return np.asarray(slack)


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
        result[:, m] = np.maximum(_even_sizes(raw, dim, m), 0.0) + NEXT_TO_NOTHING
    for m in range(1, degree, 2):
        result[:, m] = np.sqrt(result[:, m - 1] * result[:, m + 1])
    return result
