"""Algorithm 1, the proper testable learner: test the moments, return the Chow direction.

With a threshold: of N(0, I) rows that sgn(w·x - t) labels, the mean label is 1 - 2 Phi(t), and the
Chow vector 2 phi(t) w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtri

from streamhalf.kernels.plane import Plane
from streamhalf.reductions.labels import Chow
from streamhalf.reductions.moments import MomentsResult
from streamhalf.reductions.row_view import Bundle
from streamhalf.results import TestResult
from streamhalf.testers.base import TesterSet
from streamhalf.testers.moments import MomentTester

_CHANCE = 4.0
"""Standard deviations within which a threshold may be chance."""


def resolution(n_rows: float) -> float:
    """Thresholds of so many rows that are smaller may be chance."""
    # the standard deviation of a mean label, over the density at 0
    return _CHANCE * math.sqrt(math.pi / 2 / max(1.0, n_rows))


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
    """Algorithm 1 as a pass: a tester_set of testers, the moment tester among them.

    `most` is the largest threshold that it finds, on either side; 0 for halfspaces through the
    origin of the rows.
    """

    tester_set: TesterSet
    most: float = 0.0

    def needs(self) -> Bundle:
        """Statistics of the testers and the Chow vector, in one read."""
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
            resolution=resolution(chow.n_rows),
            moments=self.tester_set.find(MomentTester).moments(moments),
        )
