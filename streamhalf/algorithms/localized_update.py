"""Algorithms 1 and 4, and refine: each finds a better plane from statistics of rows.

With a threshold: of N(0, I) rows that sgn(w·x - t) labels, the mean label is 1 - 2 Phi(t), and the
Chow vector 2 phi(t) w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from streamhalf.algorithms.baselines import least_squares
from streamhalf.algorithms.plan import REFINED
from streamhalf.data.block import Block
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.labels import Chow
from streamhalf.reductions.moments import MomentsResult
from streamhalf.reductions.row_view import Accepted, Bundle, MarginBand, RowView, Sample, Viewed
from streamhalf.reductions.rows import RowSample
from streamhalf.results import TestResult
from streamhalf.testers.base import TesterSet
from streamhalf.testers.moments import MomentTester

_CHANCE = 4.0  # Standard deviations within which a threshold may be chance
_REACH, _LEAST_REACH = 3.0, 1.5  # Scales within which refine takes rows (exp(-3²/2) is a hundredth), and the fewest
# Finest and coarsest scale that refine begins with, if memory allows: adversarial noise makes steps small, and
# updates go on to finer scales than they stand at
_WIDE, _COARSEST = 0.03, 0.5
# Rows, as weights count them, that an update of refine takes: a twentieth of the squared error of the frame is left
# to chance then, and held-out rows decide whether that was too much
_LEAST, _LEAST_PER_FEATURE = 200, 25
_FINEST = 1e-6  # Rows on the plane itself are next to it at any scale
_NO_WEIGHT = 2.0**-63
_REPEATS = 3  # Updates of refine at a scale: adversarial noise leaves a part of its turn in each


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A plane and how it was found: by a localised update at scale `delta`, or Chow (1).

    `step` is how far the plane moved, |(v' - v, t' - t)|; `overlap` is w·v in the frame, at most 0
    where noise dominates at this scale; `rate` is the share of N(0, I) rows that the update accepts.
    """

    plane: Plane
    delta: float
    step: float
    overlap: float
    n_seen: int
    n_accepted: int
    rate: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class ProperOutcome:
    """Result of Algorithm 1.

    `plane` is orthogonal to the Chow vector; `strength` is the length of that over what it is for
    noiseless labels of such a halfspace on N(0, I): 1, and less with noise. A threshold that is
    smaller than `resolution` may be chance.
    """

    test_results: tuple[TestResult, ...]
    plane: Plane
    strength: float
    resolution: float
    moments: MomentsResult


@dataclass(frozen=True, slots=True, eq=False)
class ProperLearner:
    """Algorithm 1 as a pass: tests the moments, and finds thresholds up to `most` on either side."""

    tester_set: TesterSet
    most: float = 0.0

    def needs(self) -> Bundle:
        tester = self.tester_set.find(MomentTester)
        # a median of means over O(log(d / tau)) groups is within a constant of the best estimate
        # of every coordinate with probability 1 - tau; odd, so that the median is a group's mean
        groups = 2 * math.ceil(math.log(max(2, tester.dim) / tester.tau)) + 1
        return Bundle((self.tester_set.needs(), Chow(groups)))

    def conclude(self, result: tuple[Any, ...], *, n_seen: int) -> ProperOutcome:
        """Judge, and normalise the Chow vector."""
        tested, chow = result
        # half a row of either label at least
        least = 0.5 / max(1, chow.n_rows)
        share = min(max((1 - chow.mean_label) / 2, least), 1 - least)
        threshold = min(max(float(ndtri(share)), -self.most), self.most)
        normal = Plane(chow.vector)
        moments = self.tester_set.result_of(MomentTester, tested)
        return ProperOutcome(
            test_results=self.tester_set.judge(tested, n_seen=n_seen),
            plane=Plane(normal.unit().normal, threshold),
            strength=normal.length / (math.sqrt(2 / math.pi) * math.exp(-(threshold**2) / 2)),
            resolution=_resolution(chow.n_rows),
            moments=self.tester_set.find(MomentTester).moments(moments),
        )


@dataclass(frozen=True, slots=True, eq=False)
class LocalizedUpdate:
    """Algorithm 4 in a frame, as a pass; `number` is how many updates there were before."""

    learner: ProperLearner
    frame: Frame
    seed: int
    number: int

    def needs(self) -> Viewed:
        sample = Sample(self.seed, Stream.UPDATES + self.number)
        return Viewed(self.learner.needs(), RowView(sample, accept=self.frame))

    def conclude(self, result: Accepted) -> tuple[Candidate, ProperOutcome]:
        """Judge acceptance and moments, and map the Chow direction back; the outcome is in the frame."""
        proper = self.learner.conclude(result.inner, n_seen=result.n_seen)
        plane, before = self.frame.from_frame(proper.plane), self.frame.plane
        through = self.frame.from_frame(Plane(proper.plane.normal))
        aside = self.frame.from_frame(Plane(proper.plane.normal, proper.resolution))
        plane = or_through_origin(plane, aside.threshold - through.threshold)
        step = math.hypot(float(np.linalg.norm(plane.normal - before.normal)), plane.threshold - before.threshold)
        overlap = float(proper.plane.normal @ before.normal)
        n_seen, n_accepted = result.n_seen, result.n_accepted
        return Candidate(plane, self.frame.delta, step, overlap, n_seen, n_accepted, self.frame.rate), proper


def or_through_origin(plane: Plane, resolution: float) -> Plane:
    """The plane, moved to the origin if it may be through it: there more can be promised."""
    return plane if abs(plane.threshold) > resolution else Plane(plane.normal)


def _resolution(n_rows: float) -> float:
    """Thresholds of so many rows that are smaller may be chance."""
    # the standard deviation of a mean label, over the density at 0
    return _CHANCE * math.sqrt(math.pi / 2 / max(1.0, n_rows))


@dataclass(frozen=True, slots=True, eq=False)
class Refine:
    """Finer scales than are tested, with all of `n_rows` rows that lie next to a candidate.

    Disjoint shares are what tests need, not what an estimate needs. One pass gathers the rows;
    updates by least squares at ever finer scales follow in memory, of `size` rows at most. What they
    find are candidates like others: held-out rows choose. `centred` for planes through the origin.
    """

    start: Candidate
    n_rows: int
    size: int
    seed: int
    centred: bool

    @property
    def reach(self) -> float:
        """Distance of the plane within which rows are kept: so many as fit in memory."""
        density = math.exp(-(self.start.plane.threshold**2) / 2) * math.sqrt(2 / math.pi)
        room = self.size / (self.n_rows * density)
        scale = min(max(self.start.delta, _WIDE), _COARSEST)
        return min(_REACH * scale, max(_LEAST_REACH * self.start.delta, room))

    def needs(self) -> Viewed:
        sample = RowSample(self.size, self.seed, Stream.REFINE_SAMPLE)
        return Viewed(sample, RowView(accept=MarginBand(self.start.plane, self.reach)))

    def conclude(self, result: Any) -> tuple[Candidate, ...]:
        """The planes of the finest scales that the rows allow."""
        found: list[Candidate] = []
        last, delta = self.start, self.reach / _REACH
        while delta > _FINEST:
            for _ in range(_REPEATS):
                update = self._update(result.block, last.plane, delta)
                if update is None:
                    return tuple(found[-REFINED:])
                last = replace(update, n_seen=self.n_rows)
            found.append(last)
            delta /= 2
        return tuple(found[-REFINED:])

    def _update(self, block: Block, plane: Plane, delta: float) -> Candidate | None:
        """Least squares in the frame, rows weighted by the chance with which it accepts them."""
        frame = Frame(plane, delta)
        along = frame.coordinates(block.X)
        weights = frame.acceptance(along)
        near = np.flatnonzero(weights > _NO_WEIGHT)
        weights = weights[near]
        weight = float(weights.sum())
        if weight < _LEAST + _LEAST_PER_FEATURE * block.dim:
            return None
        local = frame.to_frame(block.X[near], along[near]).astype(np.float64)
        w, offset = least_squares(local, block.y[near].astype(np.float64), weights)
        overlap = float(w @ plane.normal)
        if overlap <= 0:
            return None
        # a plane through the origin stays there for chance
        by_chance = plane.threshold == 0 and abs(offset) < _resolution(weight)
        moved = frame.from_frame(Plane(w, 0.0 if self.centred or by_chance else -offset))
        step = float(np.linalg.norm(moved.normal - plane.normal))
        aside = math.hypot(step, moved.threshold - plane.threshold)
        return Candidate(moved, delta, aside, overlap, 0, round(weight), frame.rate)
