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
    uniform_point,
)

Array = NDArray[np.float64]

NEXT_TO_NOTHING = 1e-100
"""Added to every size, in the same units: more than products that underflow can amount to."""

LINE_SEARCH = (0.05, 0.12, 0.25, 0.45)
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
            fineness=fineness_of(z_low, z_high),
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
        guides = [start.guide for start in starts]
        proposal = self.propose(here, tau)
        earned = self._earned(proposal, here)
        minorants = self._shaped(proposal.certified(), len(starts))
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
            share, worth, minorants = self._step(here[going], there, tau[going])
            moved = worth < earned[going]
            going, share, minorants = going[moved], share[moved], minorants[moved]
            if not len(going):
                break
            earned[going] = worth[moved]
            law[going] += share[:, None] * (worst[moved] - law[going])
            here[going] += share[:, None, None] * (there[moved] - here[going])
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
