"""Algorithm 1, the proper testable learner: test the moments, return the Chow direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.records import Judgement
from streamhalf.reductions.base import Bundle
from streamhalf.reductions.chow import Chow
from streamhalf.testers.moments import MomentTester


@dataclass(frozen=True, slots=True, eq=False)
class ProperOutcome:
    """What Algorithm 1 found.

    `vector` is the unit Chow direction; `strength` its length before normalising, which is
    sqrt(2/pi) = 0.798 for noiseless labels of a halfspace on N(0, I) and shrinks with noise.
    """

    judgements: tuple[Judgement, ...]
    vector: NDArray[np.float64]
    strength: float


@dataclass(frozen=True, slots=True)
class ProperLearner:
    """Algorithm 1 as a state machine of one pass."""

    tester: MomentTester

    def needs(self, dim: int) -> Bundle:
        """Moments for the test and the Chow vector, in one read."""
        # a median of means over O(log(d / tau)) groups is within a constant of the best estimate
        # of every coordinate with probability 1 - tau; odd, so that the median is a group's mean
        groups = 2 * math.ceil(math.log(max(2, dim) / self.tester.tau)) + 1
        return Bundle((self.tester.needs(), Chow(groups)))

    def conclude(self, result: tuple[Any, ...]) -> ProperOutcome:
        """Judge the moments and normalise the Chow vector."""
        moments, chow = result
        strength = float(np.linalg.norm(chow.vector))
        unit = chow.vector / strength if strength > 0 else np.eye(len(chow.vector))[0]
        return ProperOutcome(self.tester.judge(moments), unit, strength)
