"""Steady, drifted or inconclusive: the distance of two samples against a tolerance and against chance.

A quantity is drifted where distance - chance > tolerance, steady where distance + chance <= tolerance: more rows never
turn one into the other while its distance stays where it is. Chance counts both samples. Look k spends
tau * 6 / (pi² k²), shared over all quantities, so that with probability 1 - tau no look ever says drifted of rows from
where the reference came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from streamhalf.kernels.binomial import binomial_lower, binomial_upper
from streamhalf.reductions.row_profile import EDGES, RowProfile, RowProfileResult
from streamhalf.results import Drift, DriftStatement, ErrorStretch, WatchReference, finite, replace

PER_SHARE = 2.5
"""Standard deviations that a mean moves by where a share of the rows of N(0, 1) changes: 1 / phi(0)."""

_STRETCH_ROWS = 200
"""At least about so many rows in a stretch that errors are counted in."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Two profiles of the same quantities, at one look.

    Parameters
    ----------
    profile
        The quantities and their order.
    reference, found
        Of the rows behind a result, and of new ones.
    tolerance
        Share of rows; `PER_SHARE` times as many standard deviations.
    tau
        Chance that this look may spend.
    n_candidates
        Halfspaces among which the rows of the reference chose: its error pays for that.
    """

    profile: RowProfile
    reference: WatchReference
    found: RowProfileResult
    tolerance: float
    tau: float
    n_candidates: int = 1

    @property
    def tail(self) -> float:
        """Probability of a false alarm of one quantity: stretches of rows have a part, too."""
        n_stretches = len(self.found.counts) if self.profile.reads_labels else 0
        return self.tau / (len(self.found.means) + self.n_candidates + n_stretches)

    def distances(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Distance, chance and unit of every quantity; the unit is its standard deviation."""
        one, other = self.reference, self.found
        n_old, n_new = one.n_rows, other.n_rows
        behind, spread = np.array(one.means[: len(other.means)]), np.array(one.deviations[: len(other.means)])
        new, dim = other.means.copy(), self.profile.plane.dim
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for values in (behind, new):  # spreads are about the mean of their own rows
                values[dim : 2 * dim] -= values[:dim] ** 2
            variance = np.maximum(spread**2, other.variances)
            unit = np.where(spread > 0, spread, np.sqrt(other.variances))
            away = np.abs(new - behind)
            # what neither sample ever saw move: equal but for rounding, or a constant that changed
            same = away <= 1e-9 * (np.abs(behind) + np.abs(new))
            unit = np.where(unit > 0, unit, np.where(same, 1.0, away))
            factors = np.array(one.factors[: len(other.means)])
            q = -stdtrit(max(1, min(n_old, n_new) - 1), self.tail / 2)
            chance = q * np.sqrt(variance * factors * (1 / max(1, n_old) + 1 / max(1, n_new)))
            surprise = n_new * math.log1p(n_old / max(1, n_new)) < -math.log(self.tail)
            chance = np.where((variance == 0) & ~same & surprise, math.inf, chance)
        if min(n_old, n_new) < 2:
            chance = np.full_like(chance, math.inf)
        distance = np.where(np.isnan(away), math.inf, away)
        return distance, np.where(np.isnan(chance), math.inf, chance), unit

    def statements(self, names: tuple[str, ...], classes: tuple[str, str]) -> tuple[DriftStatement, ...]:
        """One statement for each kind of quantity, of the member that says most."""
        return tuple(_leading(list(self.members(kind, names, classes))) for kind in self._kinds(len(names)))

    def columns(self, names: tuple[str, ...], most: int) -> tuple[DriftStatement, ...]:
        """Means and spreads of the features that are furthest away."""
        found = [one for kind in ("means", "spreads") for one in self.members(kind, names, ("", ""))]
        return tuple(sorted(found, key=lambda one: -one.distance + one.chance)[:most])

    def members(self, kind: str, names: tuple[str, ...], classes: tuple[str, str]) -> Iterator[DriftStatement]:
        """The statements of every quantity of a kind."""
        part, dim = self.profile.parts(len(names))[kind], len(names)
        distance, chance, unit = (one[part] for one in self.distances())
        behind, new = np.array(self.reference.means)[part], self.found.means[part]
        variance = np.maximum(np.array(self.reference.deviations)[part] ** 2, self.found.variances[part])
        spread, per = kind in ("means", "spreads", "moments"), 1.0
        if spread:
            per = PER_SHARE
            distance, chance, variance = distance / unit, chance / unit, variance / unit**2
        subjects = self._subjects(kind, names, classes)
        shown = self._shown(kind, behind, new, dim)
        for i, subject in enumerate(subjects):
            yield self._judge(
                kind,
                subject,
                (shown[0][i], shown[1][i]),
                (float(distance[i]), float(chance[i]), per * self.tolerance),
                self._rows_needed(float(distance[i]), per * self.tolerance, float(variance[i])),
            )

    def stretches(self) -> tuple[ErrorStretch, ...]:
        """Errors by contiguous stretches of the new rows, those beyond tolerance and chance marked."""
        if not self.profile.reads_labels:
            return ()
        place = self.profile.parts(self.profile.plane.dim)["errors"].start
        rows, found, old = self.profile.segments, self.found, self.reference
        errors = np.rint(found.segment_means[:, place] * found.counts).astype(np.int64)
        factor = old.factors[place]
        highest = binomial_upper(old.means[place] * old.n_rows / factor, old.n_rows / factor, self.tail)
        step = max(1, math.ceil(_STRETCH_ROWS * len(errors) / max(1, found.n_rows)))
        stretches = []
        for first in range(0, len(errors), step):
            held = slice(first, first + step)
            wrong, n_rows = int(errors[held].sum()), int(found.counts[held].sum())
            start, last = (int(found.segments[i]) for i in (first, min(first + step, len(errors)) - 1))
            least = binomial_lower(wrong / factor, n_rows / factor, self.tail)
            begin, end = (-(-i * rows.total_rows // rows.count) for i in (start, last + 1))
            drifted = least - highest > self.tolerance
            stretches.append(ErrorStretch(begin, end, n_rows, wrong / max(1, n_rows), drifted))
        return tuple(stretches)

    def _kinds(self, dim: int) -> list[str]:
        return [kind for kind, part in self.profile.parts(dim).items() if part.stop > part.start]

    def _subjects(self, kind: str, names: tuple[str, ...], classes: tuple[str, str]) -> list[str]:
        if kind in ("means", "spreads"):
            return list(names)
        if kind == "moments":
            pairs = zip(*np.triu_indices(len(names)), strict=True)
            return [f"{names[i]} × {names[j]}" for i, j in pairs]
        if kind == "slabs":
            between = (f"{low:g} to {high:g}" for low, high in pairwise(EDGES))
            return [f"below {EDGES[0]:g}", *between, f"above {EDGES[-1]:g}"]
        if kind == "acceptance":
            return [f"at scale {one.delta:.3g}" for one in self.profile.frames]
        return ["" if kind == "errors" else classes[1]]

    def _shown(
        self, kind: str, behind: NDArray[np.float64], new: NDArray[np.float64], dim: int
    ) -> tuple[list[float], list[float]]:
        """Both values in the unit that a reader knows: stored means and standard deviations, and shares."""
        if kind not in ("means", "spreads"):
            return behind.tolist(), new.tolist()
        centre, scale, found = self.profile.centre, self.profile.scale, []
        for values, means in ((behind, np.array(self.reference.means)), (new, self.found.means)):
            if kind == "means":
                found.append((centre + scale * values).tolist())
            else:
                with np.errstate(over="ignore", invalid="ignore"):
                    found.append((scale * np.sqrt(np.maximum(values - means[:dim] ** 2, 0.0))).tolist())
        return found[0], found[1]

    def _judge(
        self,
        kind: str,
        subject: str,
        values: tuple[float, float],
        measured: tuple[float, float, float],
        needed: int | None,
    ) -> DriftStatement:
        distance, chance, tolerance = measured
        outcome = Drift.INCONCLUSIVE
        if distance - chance > tolerance:
            outcome = Drift.DRIFTED
        elif distance + chance <= tolerance:
            outcome = Drift.STEADY
        return DriftStatement(
            kind,
            subject,
            outcome,
            finite(values[0]),
            finite(values[1]),
            finite(distance),
            finite(chance),
            tolerance,
            rows_needed=needed if outcome is Drift.INCONCLUSIVE else None,
        )

    def _rows_needed(self, distance: float, tolerance: float, variance: float) -> int | None:
        """New rows that would be conclusive at this distance; None where the reference has too few."""
        square, gap = float(stdtrit(1e6, self.tail / 2)) ** 2 * variance, abs(distance - tolerance)
        room = gap**2 / square - 1 / max(1, self.reference.n_rows) if square > 0 and math.isfinite(gap) else 0.0
        return math.ceil(1 / room) if room > 1e-15 else None


def _leading(members: list[DriftStatement]) -> DriftStatement:
    """The member that is furthest beyond its tolerance, or nearest to it."""
    drifted = [one for one in members if one.outcome is Drift.DRIFTED]
    found = max(drifted or members, key=lambda one: one.distance - one.chance if drifted else one.distance + one.chance)
    return replace(found, n_compared=len(members), n_drifted=len(drifted))
