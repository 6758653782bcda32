"""Algorithm 4, the testable localised update: from a plane and a scale to a better plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamhalf.algorithms.proper_learner import ProperLearner
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.records import Judgement
from streamhalf.reductions.localized import Localized, LocalizedResult


@dataclass(frozen=True, slots=True, eq=False)
class UpdateOutcome:
    """What an update found.

    `step` is |v' - v|; `overlap` is w·v in the frame, at most 0 where noise dominates at this
    scale.
    """

    judgements: tuple[Judgement, ...]
    plane: Plane
    step: float
    overlap: float
    n_seen: int
    n_accepted: int


@dataclass(frozen=True, slots=True, eq=False)
class LocalizedUpdate:
    """Algorithm 4 in a frame, as a pass; `number` is how many updates there were before."""

    learner: ProperLearner
    frame: Frame
    seed: int
    number: int

    def needs(self) -> Localized:
        """Algorithm 1's statistics over the accepted rows, in the frame."""
        return Localized(self.learner.needs(), self.frame, self.seed, Stream.UPDATES + self.number)

    def conclude(self, result: LocalizedResult) -> UpdateOutcome:
        """Judge acceptance and moments, and map the Chow direction back."""
        proper = self.learner.conclude(result.inner, n_seen=result.n_seen)
        plane, before = self.frame.from_frame(proper.plane), self.frame.plane
        return UpdateOutcome(
            judgements=proper.judgements,
            plane=plane,
            step=float(np.linalg.norm(plane.normal - before.normal)),
            overlap=float(proper.plane.normal @ before.normal),
            n_seen=result.n_seen,
            n_accepted=result.n_accepted,
        )
