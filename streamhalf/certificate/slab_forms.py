"""Slab statistics as polynomials in the direction u, and the bounds made of them.

Sums over the rows of slabs become Hermite moments, with a bound on what rounding can amount to. A bound takes minorants
of each slab's indicator (minorants.py), their sum as a polynomial in u, and its minimum over the sphere (sphere.py).
Work on one cell is compiled and free of the interpreter; cells of a batch are shared by threads, with the same results
for any number of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from streamhalf.certificate.cells import Cell, smallest_thresholds
from streamhalf.certificate.minorants import fit_minorants, hermite_from_powers, normal_moments
from streamhalf.certificate.sphere import Guide, Sphere, minimum_over_sphere, sphere, uniform_point
from streamhalf.kernels.monomials import count_monomials, degree_offset, wick_terms
from streamhalf.reductions.slab_moments import SlabStatistics

Array = NDArray[np.float64]
Each: TypeAlias = Callable[..., Iterator[Any]]  # `map`, or that of a pool of threads
NEXT_TO_NOTHING = 1e-100  # added to every size, in the same units: more than products that underflow can amount to
LINE_SEARCH = (0.05, 0.12, 0.25, 0.45)  # how far a refit may move the law of u towards the worst direction
# By degree: minorants are fitted to a slab's law as if so many rows of N(0, 1) were in the slab as well. Those fitted
# to a handful of rows are steep, and sum to a polynomial that no bound does justice; the higher the degree, the more
# rows make a law.
PRIOR_ROWS = (0.0, 0.0, 2.0, 0.0, 1.0, 0.0, 12.0, 0.0, 30.0)
MINORANT, OVERHEAD = 1e4, 1e6  # operations on the minorant of one slab, and on what no size matters to
SLABS_TO_A_CELL = 2  # slabs lose about half of what a cell loses by the spread of its own thresholds
STEPS, FEW_SLABS = 4, 100  # coarser slabs than these lose more than they save
FINEST = 0.06  # logarithm of the quotient of the ends of slabs that are always neighbours
STALL = 1e-3  # A round of refitting that gains less than this share of the bound is the last
TILE = 1 << 19  # numbers of the moments in one product, which one thread makes
UNIT = 2.0**-52  # twice the largest relative error of one float64 operation: room for products of such errors
# Operations on a row's monomial, and on a minorant's coefficient, beside the sum over rows: up to 8 products for the
# monomial, a division by the rows and one by the unit, 8 for the coefficient
SUM_STEPS = 32
# Operations from raw moments to a polynomial in u beside the sum over slabs: 764 pairings for Hermite degree 8, at
# most 100 for the tables, the minorants' basis, weights and splits
BASIS_STEPS = 1024
SMALLEST_SCALE = 1e-25  # rows smaller than this, or larger than its inverse, have moments that float64 cannot hold
MOST_ROUNDING = 1e-3  # rows that their position may have moved by a larger share of their length say nothing
LARGEST_MOMENT, LARGEST_MARGIN = 1e150, 1e30  # slabs with larger ones, in units of the typical slab, take no part


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A valid lower bound for one vector of thresholds, and the law of u it was fitted to."""

    value: float
    law: Array
    moments: Array  # of u·s in each slab under that law
    refits: int
    earned: float = (
        math.inf
    )  # worth of its minorants under it: no minorants fitted to the worst law give a larger bound
    guide: Guide | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SlabForms:
    """Non-empty slabs: mass, ends of z and of q (0 if there is none), Hermite moments times mass, in a common unit."""

    degree: int
    mass: Array
    counts: NDArray[np.int64]
    z_low: Array
    z_high: Array
    q_low: Array
    q_high: Array
    strips: NDArray[np.int64]  # slabs of one strip lie side by side along z
    moments: Array
    slack: Array  # (n_slabs, degree + 1): what rounding can add to the mean of (u·s)^m times mass, whatever u is
    table: Sphere
    fineness: float

    @property
    def operations(self) -> float:
        """Operations of one bound, about: minorants, their sum, a matrix and two of its factors."""
        slabs, size = len(self.mass), float(self.table.size)
        return float(MINORANT * slabs + self.moments.size + size**3 + OVERHEAD)

    def seen(self, fits: Sequence[Fit], each: Each = map) -> list[Fit]:
        """Fits to slabs of the same rows, with the moments of their laws in these."""
        new = [len(fit.moments) != len(self.mass) for fit in fits]
        laws = {id(fit.law): fit.law for fit, is_new in zip(fits, new, strict=True) if is_new}
        if not laws:
            return list(fits)
        found = dict(zip(laws, self.laws(np.stack(list(laws.values())), each), strict=True))
        return [
            dataclasses.replace(fit, moments=found[id(fit.law)]) if is_new else fit
            for fit, is_new in zip(fits, new, strict=True)
        ]

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
        first = np.array(starts, dtype=np.int64)
        paired = np.flatnonzero(np.diff([*starts, len(middle)]) == 2)

        def joined(values: NDArray[Any], join: Callable[..., Any] = np.add) -> NDArray[Any]:
            found = values[first]
            found[paired] = join(found[paired], values[first[paired] + 1])
            return found

        z_low, z_high = joined(self.z_low, np.minimum), joined(self.z_high, np.maximum)
        return dataclasses.replace(
            self,
            mass=joined(self.mass),
            counts=joined(self.counts),
            z_low=z_low,
            z_high=z_high,
            q_low=joined(self.q_low, np.minimum),
            q_high=joined(self.q_high, np.maximum),
            strips=self.strips[first],
            moments=joined(self.moments),
            slack=joined(self.slack),
            fineness=fineness_of(z_low, z_high),
        )

    def thresholds(self, cells: Sequence[Cell]) -> Array:
        """Smallest thresholds of the slabs over each cell."""
        tau = np.empty((len(cells), len(self.mass)))
        for cell, row in zip(cells, tau, strict=True):
            smallest_thresholds(cell, self.z_low, self.z_high, self.q_low, self.q_high, row)
        return tau

    def start(self) -> Fit:
        """Nothing known: all directions alike."""
        return Fit(-math.inf, uniform_point(self.table.dim, self.degree), np.empty((0, 0)), 0)

    def laws(self, laws: Array, each: Each = map) -> Array:
        """Raw moments 0, ..., k of u·s in each slab, u drawn from each law with these moments."""
        found = np.empty((len(laws), len(self.mass), self.degree + 1))
        step = max(1, TILE // self.moments.shape[1])

        def some(first: int) -> None:
            rows = slice(first, first + step)
            for m, part in enumerate(self.table.slices):
                found[:, rows, m] = laws[:, part] @ self.moments[rows, part].T

        list(each(some, range(0, len(self.mass), step)))
        return np.asarray(found @ hermite_from_powers(self.degree).T / self.mass[:, None])

    def pooled(self, minorants: Array, each: Each = map) -> Array:
        """Packed Hermite coefficients of the polynomials in u that the slabs' minorants sum to."""
        hermite = minorants @ hermite_from_powers(self.degree)
        found = np.empty((len(minorants), self.moments.shape[1]))
        step = max(1, TILE // max(1, len(self.mass)))
        parts = [
            (m, slice(first, min(first + step, part.stop)))
            for m, part in enumerate(self.table.slices)
            for first in range(part.start, part.stop, step)
        ]

        def some(m: int, part: slice) -> None:
            found[:, part] = hermite[:, :, m] @ self.moments[:, part]

        list(each(some, *zip(*parts, strict=True)))
        return found

    def fit(self, laws: Array, tau: Array, minorants: Array | None = None) -> float:
        """Return the total value of minorants fitted to a law of u·s in each slab, under that law.

        Certified ones are written to `minorants`.
        """
        room = np.empty((0, 0)) if minorants is None else minorants
        trust = self.counts / (self.counts + PRIOR_ROWS[self.degree])
        normal = normal_moments(self.degree)
        return float(fit_minorants(laws, trust, normal, tau, self.mass, room))

    def bounds(
        self, minorants: Array, guides: Sequence[Guide | None], each: Each, *, steps: int, closely: bool = False
    ) -> tuple[list[float], list[Guide]]:
        """The bounds that certified minorants make, rounding allowed for."""

        def bound(pooled: Array, guide: Guide | None) -> tuple[float, Guide]:
            return minimum_over_sphere(self.table, pooled, guide, steps=steps, closely=closely)

        found = list(each(bound, self.pooled(minorants, each), guides))
        slack = self.allowance(minorants).tolist()
        values = [value - less for (value, _), less in zip(found, slack, strict=True)]
        return values, [guide for _, guide in found]

    def allowance(self, minorants: Array) -> Array:
        """Return a bound on rounding, from the rows to each polynomial in u."""
        return np.asarray(np.einsum("nsk,sk->n", np.abs(minorants), self.slack))

    def measure(self, tau: Array, starts: Sequence[Fit], each: Each = map, *, steps: int) -> list[Fit]:
        """Bound the mass of {u·s < tau} for every unit u, with minorants fitted to laws of u.

        One vector of thresholds and one bound for each start, which holds whatever its law is.
        """
        starts = self.seen(starts, each)
        minorants = np.empty((len(starts), len(self.mass), self.degree + 1))
        earned = list(each(self.fit, [start.moments for start in starts], tau, minorants))
        guides = [start.guide for start in starts]
        values, found = self.bounds(minorants, guides, each, steps=steps)
        return [
            dataclasses.replace(start, value=value, earned=worth, guide=guide)
            for start, value, worth, guide in zip(starts, values, earned, found, strict=True)
        ]

    def refit(self, tau: Array, starts: Sequence[Fit], each: Each = map, *, rounds: int, steps: int) -> list[Fit]:
        """Improve bounds by fitting the minorants to the directions that defeat them.

        A bound is the value of a game between minorants and directions: the law of u moves towards the worst direction
        as long as that lowers what the best response earns (Frank-Wolfe with a line search). Every round gives a valid
        bound; the best is kept.
        """
        starts = self.seen(starts, each)
        best = list(starts)
        now = [dataclasses.replace(start, value=-math.inf) for start in starts]
        minorants = np.empty((len(starts), len(self.mass), self.degree + 1))
        earned = list(each(self.fit, [one.moments for one in now], tau, minorants))
        going = list(range(len(starts)))
        for turn in range(rounds):
            values, guides = self.bounds(
                minorants[going], [now[i].guide for i in going], each, steps=steps, closely=True
            )
            left = []
            for i, value, guide in zip(going, values, guides, strict=True):
                now[i] = dataclasses.replace(
                    now[i], value=value, refits=starts[i].refits + turn, earned=earned[i], guide=guide
                )
                if turn <= 1 or value >= best[i].value + STALL * abs(best[i].value):
                    left.append(i)
                best[i] = max(best[i], now[i], key=lambda one: one.value)
            going = left
            if not going or turn == rounds - 1:
                break
            worst = np.stack([self.table.point(one.worst) for i in going if (one := now[i].guide)])
            there = self.laws(worst, each)
            moves = each(self._step, [now[i].moments for i in going], there, tau[going], minorants[going])
            for i, law, (share, worth, moments, fitted) in zip(going.copy(), worst, list(moves), strict=True):
                if worth >= earned[i]:
                    going.remove(i)
                    continue
                earned[i], minorants[i] = worth, fitted
                moved = now[i].law + share * (law - now[i].law)
                now[i] = dataclasses.replace(now[i], law=moved, moments=moments)
        return best

    def _step(self, here: Array, there: Array, tau: Array, room: Array) -> tuple[float, float, Array, Array]:
        """How far to go from one law to the other until the best minorants earn least.

        With what they earn there, the law's moments and the minorants. What they earn is the largest of linear
        functions of the law, hence convex: of four steps three are tried.
        """
        laws = [here + share * (there - here) for share in LINE_SEARCH]
        inner = [self.fit(law, tau) for law in laws[1:3]]
        if inner[0] <= inner[1]:
            least = 1 if inner[0] < self.fit(laws[0], tau) else 0
        else:
            least = 2 if inner[1] <= self.fit(laws[3], tau) else 3
        return LINE_SEARCH[least], self.fit(laws[least], tau, room), laws[least], room


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """Forms of the same rows in finer and coarser slabs, the finest first."""

    forms: tuple[SlabForms, ...]

    @classmethod
    def of(cls, finest: SlabForms) -> Ladder:
        """Slabs joined in pairs, again and again."""
        found = [finest]
        while len(found) < STEPS and len(found[-1].mass) > FEW_SLABS:
            found.append(found[-1].coarser())
        return cls(tuple(found))

    def at(self, cell: Cell) -> SlabForms:
        """The coarsest slabs that are fine enough for a cell: thresholds vary in it anyway."""
        fine = cell.spread / SLABS_TO_A_CELL
        fitting = (form for form in reversed(self.forms) if form.fineness <= fine)
        return next(fitting, self.forms[0])


def fineness_of(low: Array, high: Array) -> float:
    """Logarithm of the quotient of a slab's ends; a quarter of the slabs are wider."""
    held = low > 0
    return float(np.quantile(np.log(high[held] / low[held]), 0.75)) if held.any() else 0.0


def slab_forms(statistics: SlabStatistics, degree: int, unit: float | None = None) -> SlabForms:
    """Turn sums into Hermite moments up to an even `degree`.

    Lengths are in a `unit`, by default that of the typical slab; labels are not lengths, so forms of one search have
    one unit.
    """
    dim = statistics.rest
    unit = typical_unit(statistics) if unit is None else unit
    held = np.flatnonzero(statistics.counts)
    if not (SMALLEST_SCALE < unit < 1 / SMALLEST_SCALE and statistics.rounding < MOST_ROUNDING):
        held, unit = held[:0], 1.0
    raw = statistics.sums[held, : count_monomials(dim, degree)] / statistics.n_rows
    with np.errstate(over="ignore", invalid="ignore"):
        for m in range(1, degree + 1):
            raw[:, degree_offset(dim, m) : count_monomials(dim, m)] /= unit**m
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
    longest = reach / unit + (sizes[:, -1] * statistics.n_rows) ** (1 / degree)
    moved = _moved(longest, statistics.dim, statistics.rounding)
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
        np.ascontiguousarray((_hermite_table(dim, degree) @ raw.T).T),
        _slack(sizes, counts, moved),
        sphere(dim, degree),
        fineness_of(z_low, z_high),
    )


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


def _moved(longest: Array, dim: int, rounding: float) -> Array:
    """How far rounding may move z and s of a row, for each slab.

    s is Q^T x, with Q off an orthonormal basis by at most (4 d + 24) u, u = 2^-53 (a Householder reflection), and dot
    products of d terms each off by at most d u |x|: together no more than (d^1.5 + 4 d + 24) u |x| <= (d + 8)^1.5 UNIT
    |x|; beside a second direction Q is the product of two such, and twice that is enough. z is one such dot product
    less the threshold t, q another. |x| is at most |z| + |t| + |q|, the reach, + |s|, and |s| at most the root of the
    slab's sum of |s|^degree: the `longest`. Rows that were put into a position are off by `rounding` |x| before.
    """
    return np.asarray((2 * (dim + 8) ** 1.5 * UNIT + rounding) * longest)


def _slack(sizes: Array, counts: NDArray[np.int64], moved: Array) -> Array:
    """Bound on the error of each slab's mean of (u·s)^m times mass, for every unit u.

    A sum of n products, in any order and any number of pieces, is off by at most n u times the sum of their absolute
    values (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2); with one operation more for every
    factor, so is a monomial's sum. Over all monomials of degree m that makes n u times the sum of (sum_j |u_j s_j|)^m
    <= |s|^m: the `sizes`. The change to the Hermite basis and all that follows is off by its number of operations times
    he_m with all terms taken positive. Rows `moved` by r change (u·s)^m by at most (|s| + r)^m - |s|^m.
    """
    degree = sizes.shape[1] - 1
    table = hermite_from_powers(degree)
    spread = sizes @ np.abs(np.linalg.inv(table)).T @ table.T
    slack = UNIT * ((counts[:, None] + SUM_STEPS) * sizes + (len(counts) + BASIS_STEPS) * spread)
    for m in range(1, degree + 1):
        for j in range(1, m + 1):
            slack[:, m] += math.comb(m, j) * moved**j * sizes[:, m - j]
    return np.asarray(slack)


@cache
def _hermite_table(dim: int, degree: int) -> scipy.sparse.csr_array:
    """The matrix that takes raw moments to Hermite moments."""
    entries = []
    for m in range(degree + 1):
        for places, ranks, coefficients in wick_terms(dim, m):
            entries.append((coefficients, degree_offset(dim, m) + places, ranks))
    values, rows, columns = (np.concatenate(one) for one in zip(*entries, strict=True))
    size = count_monomials(dim, degree)
    return scipy.sparse.csr_array((values, (rows, columns)), shape=(size, size))


def _even_sizes(raw: Array, dim: int, m: int) -> Array:
    """Mean of |s|^m, m even, times mass: a sum over the squares of the monomials of degree m/2."""
    if m == 0:
        return np.asarray(raw[:, 0])
    table = sphere(dim, m)
    part = table.slices[m // 2]
    squares = np.diagonal(table.ranks)[part]
    return np.asarray(raw[:, squares] @ table.weights[part] ** 2)


def _sizes(raw: Array, dim: int, degree: int) -> Array:
    """Mean of |s|^m times mass for m = 0, ..., degree; odd ones by Cauchy and Schwarz."""
    result = np.zeros((len(raw), degree + 1))
    for m in range(0, degree + 1, 2):
        result[:, m] = np.maximum(_even_sizes(raw, dim, m), 0.0) + NEXT_TO_NOTHING
    for m in range(1, degree, 2):
        result[:, m] = np.sqrt(result[:, m - 1] * result[:, m + 1])
    return result
