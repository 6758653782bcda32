"""Tests of a path on held-out rows, and the constant C and scale eps that they promise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from streamhalf import results
from streamhalf.algorithms.plan import RunPlan, ample_rows, smallest
from streamhalf.config import RunConfig
from streamhalf.kernels.plane import Frame
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import RowView, Sample, Viewed
from streamhalf.results import Outcome, PromiseRecord, Role, Stage, TestResult
from streamhalf.testers.base import TesterSet
from streamhalf.testers.constants import LARGEST_DEVIATION, SlabSlack, constant_by_scale, have_no_gap
from streamhalf.testers.moments import WIDE_DIM, MomentTester, excluded_deviation, expected_quadratics
from streamhalf.testers.slabs import SlabMassTester

GOOD_CONSTANT = 5.0  # The constant from which on a run says what a better one would take
_LEAST_TIMES, _MOST_TIMES = 1.1, 1e4
_SAFE = 0.97  # So much better than good is planned for: what tests see of Gaussian rows varies


def expected_promises(plan: RunPlan, config: RunConfig) -> tuple[PromiseRecord, ...]:
    """Return what the tests support if rows are Gaussian and no update is repeated."""
    if config.degree != 4 or plan.dim > WIDE_DIM or not have_no_gap(plan.deltas):
        return ()
    tau = MomentTester.share * plan.context(Stage.UPDATE, config).tau
    excluded: dict[float, float] = {}
    for delta in (1.0, *plan.deltas):
        n_rows = int(plan.rows_for_step(delta) * delta)
        excluded[delta] = excluded_deviation(expected_quadratics(n_rows, plan.dim), n_rows, tau)
    tester = SlabMassTester.of(plan.context(Stage.FINAL, config))
    assert tester is not None
    return tuple(supported(excluded, SlabSlack(tester.eps, tester.expected_slack(plan.counted_rows))))


def supported(excluded: Mapping[float, float], slack: SlabSlack) -> Iterator[PromiseRecord]:
    """Promises at the scales of updates, given the deviation that is excluded at each, from 1 down.

    Each rests on all scales above, and on slab masses. Where quadratics leave room for any
    constant, there is no promise; below the finest scale of the tables it has no constant.
    """
    above: dict[float, float] = {}
    for delta, deviation in excluded.items():
        above[delta] = deviation
        if delta < 1 and max(above.values()) <= LARGEST_DEVIATION:
            masses_off = slack.at(delta / 2)
            constant = constant_by_scale(above, masses_off=masses_off)
            yield PromiseRecord(
                delta,
                delta / 2,
                deviation,
                constant if math.isfinite(constant) else None,
                masses_off if math.isfinite(masses_off) else None,
            )


def rows_for_good_constant(plan: RunPlan, config: RunConfig, eps: float) -> int | None:
    """About how many rows support a good constant at eps; None where no number of them does."""
    plan = replace(plan, finest_delta=2 * eps)

    def supports(times: float) -> bool:
        more = replace(
            plan,
            final_rows=math.ceil(times * plan.final_rows),
            ample_rows=ample_rows(plan.tested_rows, plan.dim, math.ceil(times * plan.n_rows)),
        )
        found = expected_promises(more, config)
        last = found[-1] if found else None
        return last is not None and last.eps <= eps and (last.constant or 0) <= _SAFE * GOOD_CONSTANT

    times = smallest(supports, _LEAST_TIMES, _MOST_TIMES)
    return math.ceil(times * plan.n_rows) if times < _MOST_TIMES else None


@dataclass(frozen=True, slots=True, eq=False)
class StepOutcome:
    """Test results of a step, and the largest deviation of quadratics that they exclude.

    That is None where quadratics were not tested in every direction, or about a plane with a
    threshold, for which no consequence of it is known.
    """

    delta: float
    test_results: tuple[TestResult, ...]
    deviation: float | None

    @property
    def passed(self) -> bool:
        """True if every required test passed, and no other rejected."""
        return all(
            one.outcome is Outcome.PASSED if one.role is Role.REQUIRED else one.outcome is not Outcome.REJECTED
            for one in self.test_results
        )


@dataclass(frozen=True, slots=True, eq=False)
class StepTest:
    """The tests of one step on held-out rows.

    Step 0 is the first pass, which has no frame, 1 the first update. `candidate` is the number of
    the frame's plane, `top` the share of the held-out rows that is looked at.
    """

    number: int
    frame: Frame | None
    candidate: int | None
    tester_set: TesterSet
    top: float
    seed: int

    def needs(self) -> Reduction[Any, Any]:
        needs = self.tester_set.needs()
        if self.frame is None:
            return needs
        sample = Sample(self.seed, Stream.STEPS + self.number)
        return Viewed(needs, RowView(sample, accept=self.frame))

    def stricter(self, share: float) -> StepTest:
        return replace(self, tester_set=self.tester_set.stricter(share))

    def conclude(self, result: Any) -> StepOutcome:
        found = result if self.frame is None else result.inner
        tester = self.tester_set.find(MomentTester)
        moments = tester.moments(self.tester_set.result_of(MomentTester, found))
        n_seen = moments.n_rows if self.frame is None else result.n_seen
        delta = 1.0 if self.frame is None else self.frame.delta
        test_results = tuple(
            results.replace(one, pass_name="final", stage=Stage.FINAL, candidate=self.candidate, scale=delta)
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


def promises(steps: Iterable[StepOutcome], test_results: Iterable[TestResult] = ()) -> tuple[PromiseRecord, ...]:
    """Return what the steps support, from the coarsest update to the finest that passed.

    A promise at a scale rests on every step at that scale and above, and its constant on the slab
    tests among the results too. It has none where quadratics were not tested in every direction
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
        masses = [
            one for one in test_results if one.tester == SlabMassTester.name and one.role is Role.REQUIRED and one.scale
        ]
        slack = SlabSlack(
            max((one.scale or 0.0 for one in masses), default=math.inf),
            max((one.statistic + one.null_quantile for one in masses), default=math.inf),
        )
        return tuple(supported(excluded, slack))
    return tuple(PromiseRecord(delta, delta / 2, None, None) for delta in excluded if delta < 1)


def best_promise(found: Iterable[PromiseRecord], *, error: float, asked: float | None) -> PromiseRecord | None:
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
