"""Algorithm 4, the testable localised update: from a plane and a scale to a better plane."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from streamhalf.algorithms.proper_learner import ProperLearner
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.row_view import Accepted, RowView, Sample, Viewed
from streamhalf.results import TestResult


@dataclass(frozen=True, slots=True, eq=False)
class UpdateOutcome:
    """Result of an update.

    `step` is how far the plane moved, |(v' - v, t' - t)|; `overlap` is w·v in the frame, at most 0
    where noise dominates at this scale; `strength` is that of the Chow vector there.
    """

    test_results: tuple[TestResult, ...]
    plane: Plane
    step: float
    overlap: float
    strength: float
    n_seen: int
    n_accepted: int

    @property
    def noise(self) -> float:
        """Share of wrong labels among the accepted rows, as if they were flipped at random."""
        return max(0.0, 1 - self.strength) / 2


def or_through_origin(plane: Plane, resolution: float) -> Plane:
    """The plane, moved to the origin if it may be through it: there more can be promised."""
    return plane if abs(plane.threshold) > resolution else Plane(plane.normal)


@dataclass(frozen=True, slots=True, eq=False)
class LocalizedUpdate:
    """Algorithm 4 in a frame, as a pass; `number` is how many updates there were before."""

    learner: ProperLearner
    frame: Frame
    seed: int
    number: int

    def needs(self) -> Viewed:
        """Algorithm 1's statistics over the accepted rows, in the frame."""
        sample = Sample(self.seed, Stream.UPDATES + self.number)
        return Viewed(self.learner.needs(), RowView(sample, accept=self.frame))

    def conclude(self, result: Accepted) -> UpdateOutcome:
        """Judge acceptance and moments, and map the Chow direction back."""
        proper = self.learner.conclude(result.inner, n_seen=result.n_seen)
        plane, before = self.frame.from_frame(proper.plane), self.frame.plane
        through = self.frame.from_frame(Plane(proper.plane.normal))
        aside = self.frame.from_frame(Plane(proper.plane.normal, proper.resolution))
        plane = or_through_origin(plane, aside.threshold - through.threshold)
        return UpdateOutcome(
            test_results=proper.test_results,
            plane=plane,
            step=math.hypot(float(np.linalg.norm(plane.normal - before.normal)), plane.threshold - before.threshold),
            overlap=float(proper.plane.normal @ before.normal),
            strength=proper.strength,
            n_seen=result.n_seen,
            n_accepted=result.n_accepted,
        )
