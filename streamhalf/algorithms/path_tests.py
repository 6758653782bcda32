"""Every step of the path, tested on rows that are fresh for all of them, in the final pass.

A step is a frame (the plane and scale of a localised update), or none (all rows, before the first
update). What these tests say decides; those that an update makes of its own rows only warn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from streamhalf import results
from streamhalf.algorithms.plan_promises import supported
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import RowView, Sample, Viewed
from streamhalf.results import Outcome, PromiseRecord, Role, Stage, TestResult
from streamhalf.testers.constants import SlabSlack, have_no_gap
from streamhalf.testers.moment_nulls import excluded_deviation
from streamhalf.testers.moments import MomentTester
from streamhalf.testers.slab_mass import SlabMassTester
from streamhalf.testers.tester_set import TesterSet


@dataclass(frozen=True, slots=True, eq=False)
class StepOutcome:
    """What the tests of a step said, and the largest deviation of quadratics that they exclude.

    That is None where quadratics were not tested, or not in every direction, or about a plane
    with a threshold, for which nobody knows what follows from it.
    """

    delta: float
    test_results: tuple[TestResult, ...]
    deviation: float | None

    @property
    def passed(self) -> bool:
        """Whether every required test did, and no other rejected."""
        return all(
            one.outcome is Outcome.PASSED
            if one.role is Role.REQUIRED
            else one.outcome is not Outcome.REJECTED
            for one in self.test_results
        )


@dataclass(frozen=True, slots=True, eq=False)
class StepTest:
    """The tests of one step.

    Parameters
    ----------
    number
        Of the step: 0 is the first pass, 1 the first update.
    frame
        Of the update, None of the first pass.
    candidate
        Number of the frame's plane among the candidates.
    tester_set
        The testers of the step.
    top
        Share of the held-out rows that is looked at: those with the smallest numbers.
    seed
        Of the run.
    """

    number: int
    frame: Frame | None
    candidate: int | None
    tester_set: TesterSet
    top: float
    seed: int

    def needs(self) -> Reduction[Any, Any]:
        """What the testers need, of the rows that the step accepts."""
        needs = self.tester_set.needs()
        if self.frame is None:
            return needs
        sample = Sample(self.seed, Stream.STEPS + self.number)
        return Viewed(needs, RowView(sample, accept=self.frame))

    def conclude(self, result: Any) -> StepOutcome:
        """Judge the step."""
        found = result if self.frame is None else result.inner
        tester = self.tester_set.find(MomentTester)
        moments = tester.moments(self.tester_set.result_of(MomentTester, found))
        n_seen = moments.n_rows if self.frame is None else result.n_seen
        delta = 1.0 if self.frame is None else self.frame.delta
        test_results = tuple(
            results.replace(
                one, pass_name="final", stage=Stage.FINAL, candidate=self.candidate, scale=delta
            )
            for one in self.tester_set.judge(found, n_seen=n_seen)
        )
        centred = self.frame is None or self.frame.plane.threshold == 0
        deviation = _excluded(test_results, tester.tau) if centred else None
        return StepOutcome(delta, test_results, deviation)


def _excluded(test_results: tuple[TestResult, ...], tau: float) -> float | None:
    """The largest deviation of quadratics that is left, if they were tested in all directions."""
    for one in test_results:
        if one.tester == "quadratics" and one.outcome is not Outcome.NOT_JUDGED:
            sketched = one.directions is not None
            return None if sketched else excluded_deviation(one.statistic, one.n_rows, tau)
    return None


def slab_slack(test_results: Iterable[TestResult]) -> SlabSlack:
    """What the slab tests of all candidates leave open: the largest statistic + null quantile."""
    found = [
        one
        for one in test_results
        if one.tester == SlabMassTester.name and one.role is Role.REQUIRED and one.scale is not None
    ]
    return SlabSlack(
        max((one.scale or 0.0 for one in found), default=math.inf),
        max((one.statistic + one.null_quantile for one in found), default=math.inf),
    )


def promises(
    steps: Iterable[StepOutcome], test_results: Iterable[TestResult] = ()
) -> tuple[PromiseRecord, ...]:
    """What the steps support, from the coarsest scale of an update to the finest that passed.

    A promise at a scale rests on every step at that scale and above, and its constant on the slab
    tests among the test_results too. It has none where quadratics were not tested in every direction
    and at every scale; where they were, and leave room for any constant, there is no promise.
    """
    excluded: dict[float, float] = {}
    ordered = sorted(steps, key=lambda step: -step.delta)
    for delta, group in itertools.groupby(ordered, key=lambda step: step.delta):
        repeated = tuple(group)
        if not all(step.passed for step in repeated):
            break
        excluded[delta] = max(step.deviation or 0.0 for step in repeated)
    everywhere = all(step.deviation is not None for step in ordered)
    if everywhere and have_no_gap(step.delta for step in ordered):
        return tuple(supported(excluded, slab_slack(test_results)))
    return tuple(PromiseRecord(delta, delta / 2, None, None) for delta in excluded if delta < 1)


def best_promise(
    found: Iterable[PromiseRecord], *, error: float, asked: float | None
) -> PromiseRecord | None:
    """The promise with the smallest constant · error + eps, of those as fine as was asked for.

    One with a constant comes before all without; where none has one, that is the finest.
    """
    fine = [one for one in found if asked is None or one.eps <= asked * (1 + 1e-9)]

    def size(one: PromiseRecord) -> tuple[bool, float]:
        return one.constant is None, (one.constant or 0.0) * error + one.eps

    return min(fine, key=size, default=None)


def as_refinement(steps: Iterable[StepOutcome]) -> tuple[TestResult, ...]:
    """All test_results; below the finest scale that passed a test can still reject, not doubt."""
    steps = tuple(steps)
    anything = bool(promises(steps))
    return tuple(
        results.replace(one, outcome=Outcome.NOT_JUDGED, role=Role.REFINEMENT)
        if anything and one.outcome is Outcome.INCONCLUSIVE and one.role is Role.REQUIRED
        else one
        for step in steps
        for one in step.test_results
    )
