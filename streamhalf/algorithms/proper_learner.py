"""Algorithm 1, the proper testable learner: test the moments, return the Chow direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from streamhalf.kernels.plane import Plane
from streamhalf.records import Judgement
from streamhalf.reductions.base import Bundle
from streamhalf.reductions.chow import Chow
from streamhalf.reductions.moments import MomentsResult
from streamhalf.testers.moments import MomentTester
from streamhalf.testers.panel import Panel


@dataclass(frozen=True, slots=True, eq=False)
class ProperOutcome:
    """What Algorithm 1 found.

    `plane` is orthogonal to the Chow vector; `strength` is the length of that, which is
    sqrt(2/pi) = 0.798 for noiseless labels of a halfspace on N(0, I) and shrinks with noise.
    """

    judgements: tuple[Judgement, ...]
    plane: Plane
    strength: float
    moments: MomentsResult


@dataclass(frozen=True, slots=True, eq=False)
class ProperLearner:
    """Algorithm 1 as a pass: a panel of testers, the moment tester among them."""

    panel: Panel

    def needs(self) -> Bundle:
        """Statistics of the testers and the Chow vector, in one read."""
        tester = self.panel.find(MomentTester)
        # a median of means over O(log(d / tau)) groups is within a constant of the best estimate
        # of every coordinate with probability 1 - tau; odd, so that the median is a group's mean
        groups = 2 * math.ceil(math.log(max(2, tester.dim) / tester.tau)) + 1
        return Bundle((self.panel.needs(), Chow(groups)))

    def conclude(self, result: tuple[Any, ...], *, n_seen: int) -> ProperOutcome:
        """Judge, and normalise the Chow vector."""
        tested, chow = result
        plane = Plane(chow.vector)
        moments = self.panel.result_of(MomentTester, tested)
        return ProperOutcome(
            judgements=self.panel.judge(tested, n_seen=n_seen),
            plane=plane.unit(),
            strength=plane.length,
            moments=self.panel.find(MomentTester).moments(moments),
        )
