"""Algorithm 4, the testable localised update: from v and delta to a better v."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.proper_learner import ProperLearner
from streamhalf.kernels.localize import map_back
from streamhalf.records import Judgement
from streamhalf.reductions.localized import Localized, LocalizedPartial
from streamhalf.testers.acceptance import AcceptanceTester


@dataclass(frozen=True, slots=True, eq=False)
class UpdateOutcome:
    """What an update found.

    `step` is |v' - v|; `overlap` is w·v in the localised, whitened space, at most 0 where noise
    dominates at this scale.
    """

    judgements: tuple[Judgement, ...]
    vector: NDArray[np.float64]
    step: float
    overlap: float
    n_seen: int
    n_accepted: int


@dataclass(frozen=True, slots=True, eq=False)
class LocalizedUpdate:
    """Algorithm 4 at (v, delta) as a state machine of one pass."""

    learner: ProperLearner
    acceptance: AcceptanceTester
    v: NDArray[np.float64]
    seed: int
    stream: int

    @property
    def delta(self) -> float:
        """The scale."""
        return self.acceptance.delta

    def needs(self) -> Localized:
        """Algorithm 1's statistics over the accepted, whitened rows."""
        inner = self.learner.needs(len(self.v))
        return Localized(inner, self.v, self.delta, self.seed, self.stream)

    def conclude(self, result: LocalizedPartial) -> UpdateOutcome:
        """Judge acceptance and moments, and map the Chow direction back."""
        inner: Any = result.inner
        proper = self.learner.conclude(inner)
        vector = map_back(proper.vector, self.v, self.delta)
        accepted = self.acceptance.judge(result.n_seen, result.n_accepted)
        return UpdateOutcome(
            judgements=(accepted, *proper.judgements),
            vector=vector,
            step=float(np.linalg.norm(vector - self.v)),
            overlap=float(proper.vector @ self.v),
            n_seen=result.n_seen,
            n_accepted=result.n_accepted,
        )
