"""Algorithm 3, testable localisation: a state machine of passes.

initial (Algorithm 1) -> update (Algorithm 4), repeated at shrinking scale -> thresholds (the best
of every candidate, unless halfspaces go through one point) -> final (the tests of all these steps
once more, Algorithm 2 and the errors of all candidates, on rows that no step used).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from streamhalf import results
from streamhalf.algorithms.baselines import Baseline
from streamhalf.algorithms.choice import FEW_TO_CHOOSE
from streamhalf.algorithms.final_pass import FinalPass
from streamhalf.algorithms.localization_state import (
    Candidate,
    LocalizationState,
    Step,
    as_early,
    stop,
    turned,
    with_mean,
)
from streamhalf.algorithms.localized_update import (
    LocalizedUpdate,
    UpdateOutcome,
    or_through_origin,
)
from streamhalf.algorithms.plan import plan_about
from streamhalf.algorithms.proper_learner import ProperLearner
from streamhalf.algorithms.refine import Refine
from streamhalf.algorithms.row_split import RowSplit
from streamhalf.algorithms.run_plan import REFINING_ROWS, SCANNED_ROWS, RunPlan
from streamhalf.algorithms.sketches import with_sketch
from streamhalf.algorithms.transform import class_of
from streamhalf.certificate.notices import repeated_rows
from streamhalf.config import RunConfig
from streamhalf.data.transforms import Identity, RowTransform
from streamhalf.kernels.frame import Frame
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_digest import RowDigest
from streamhalf.reductions.row_view import Bundle
from streamhalf.reductions.threshold_scan import ThresholdScan
from streamhalf.results import (
    HalfspaceClass,
    Outcome,
    Role,
    Sampling,
    Stage,
    Stop,
    StopReason,
    TestResult,
)
from streamhalf.testers import TESTERS, Context, Tester, TesterSet
from streamhalf.testers.exchangeability import ExchangeabilityTester

_SMALL_STEP = 0.35
_MOST_REPEATS = 4
_LEAST_ROWS_PER_FEATURE = 30
_MUCH_NOISE = 0.25
"""From this share of wrong labels among accepted rows on, a turned candidate is worth a try."""
_FINE = 0.006
"""Noise that somebody chose turns an update by up to about five times its share of the labels, in
the frame: at this scale that adds a hundredth to the error."""
_MOST_FIRST, _MOST_LOCAL = 4.0, 1.5
"""Thresholds at most of the first candidate, and of an update in its frame: a share of labels says
little about one that lies further out."""
_NOTICEABLE = 0.1
"""From this threshold on fewer rows are near the planes than a plan for none expects."""
_SHARP = 0.01
"""An angle of so many times the noise adds about three parts in a thousand to the error."""


@dataclass(frozen=True, slots=True, eq=False)
class Localization:
    """Algorithm 3 for one data set: `next_step` of a state, until there is none."""

    plan: RunPlan
    config: RunConfig
    row_split: RowSplit
    testers: tuple[type[Tester], ...] = TESTERS
    row_transform: RowTransform = field(default_factory=Identity)
    members: tuple[Baseline, ...] = ()

    def start(self) -> LocalizationState:
        """Before the first pass; where rows are too few for updates, that is the last one too."""
        plan = self.plan
        few = plan.needed_rows > 0 and (plan.final_rows < FEW_TO_CHOOSE or not plan.can_learn)
        return LocalizationState(
            stage=Stage.FINAL if few else Stage.INITIAL,
            stop=Stop(StopReason.TOO_FEW_ROWS) if few else None,
            split=self.plan.split,
            plan=self.plan,
            delta=self.plan.first_delta,
        )

    @property
    def any_threshold(self) -> bool:
        """Whether halfspaces need not go through one point."""
        return class_of(self.config, self.row_transform) is HalfspaceClass.ANY

    def next_step(self, state: LocalizationState) -> Step | None:
        """What the next pass has to measure, and what follows from it."""
        steps = {
            Stage.INITIAL: self._initial,
            Stage.UPDATE: self._update,
            Stage.REFINE: self._refine,
            Stage.THRESHOLDS: self._thresholds,
            Stage.FINAL: self._final,
        }
        return steps[state.stage](state) if state.stage in steps else None

    def _initial(self, state: LocalizationState) -> Step:
        most = _MOST_FIRST if self.any_threshold else 0.0
        learner = ProperLearner(self._tester_set(self._context(state)), most)
        needs = Bundle((learner.needs(), RowDigest(self.plan.initial_rows)))

        def conclude(result: Any) -> LocalizationState:
            learnt, digest = result
            n_rows = int(digest.n_rows)
            found = learner.conclude(learnt, n_seen=n_rows)
            judged = as_early(found.test_results, Stage.INITIAL, "initial")
            if self._must_sample(state, judged):
                fallback = (results.replace(_order(judged), role=Role.FALLBACK),)
                return replace(self.start(), split=Sampling.REUSE, test_results=fallback)
            plane = or_through_origin(found.plane, found.resolution)
            first = Candidate(plane, 1.0, 0.0, found.strength, n_rows, n_rows)
            plan = self._plan_about(state.plan, plane.threshold)
            return replace(
                state,
                stage=Stage.UPDATE,
                plan=plan,
                delta=plan.first_delta,
                cursor=state.cursor + self._wanted_rows(state),
                candidates=(first,),
                test_results=(*state.test_results, *judged),
                moments=found.moments,
                repeated_rows=repeated_rows(digest.repeated, digest.times),
            )

        return self._learning_step("initial", needs, state, conclude)

    def _update(self, state: LocalizationState) -> Step:
        frame = Frame(state.candidates[-1].plane, state.delta)
        most = _MOST_LOCAL if self.any_threshold else 0.0
        learner = ProperLearner(self._tester_set(replace(self._context(state), frame=frame)), most)
        update = LocalizedUpdate(learner, frame, self.config.seed, state.n_updates)
        name = f"update-{state.n_updates + 1}"

        def conclude(result: Any) -> LocalizationState:
            outcome = update.conclude(result)
            moved = replace(
                state,
                cursor=state.cursor + self._wanted_rows(state),
                frames=(*state.frames, frame),
                test_results=(
                    *state.test_results,
                    *as_early(outcome.test_results, Stage.UPDATE, name),
                ),
            )
            found = Candidate(
                outcome.plane,
                state.delta,
                outcome.step,
                outcome.overlap,
                outcome.n_seen,
                outcome.n_accepted,
                frame.rate,
            )
            if outcome.noise > _MUCH_NOISE and state.turned is None:
                moved = replace(moved, turned=turned(found, frame.plane))
            if outcome.overlap <= 0:
                return stop(moved, StopReason.NOISE_DOMINATES, state.delta)
            moved = replace(moved, candidates=(*state.candidates, found))
            return self._next_scale(moved, outcome)

        step = self._learning_step(name, update.needs(), state, conclude)
        return replace(step, detail=f"delta {state.delta:.4g}")

    def _refine(self, state: LocalizationState) -> Step:
        """All rows for learning next to the last candidate, as far as one pass may read."""
        row_split = self._row_split(state)
        wanted = min(REFINING_ROWS, row_split.learning_rows)
        refine = Refine.of(state, self.config, wanted, centred=not self.any_threshold)

        def conclude(result: Any) -> LocalizationState:
            candidates = (*state.candidates, *refine.conclude(result))
            return replace(state, stage=Stage.THRESHOLDS, candidates=candidates)

        share = row_split.take(0, wanted)
        return Step("refine", share.restrict(refine.needs()), share, conclude)

    def _thresholds(self, state: LocalizationState) -> Step:
        """Rows that may choose choose thresholds, the last of those that nobody holds out."""
        if not self.any_threshold:
            return self._final(replace(state, stage=Stage.FINAL))
        row_split = self._row_split(state)
        wanted = min(SCANNED_ROWS, row_split.learning_rows)
        share = row_split.take(row_split.learning_rows - wanted, wanted)
        scan = ThresholdScan(tuple(candidate.plane for candidate in state.candidates))

        def conclude(planes: Any) -> LocalizationState:
            scanned = zip(state.candidates, planes, strict=True)
            candidates = tuple(replace(candidate, plane=plane) for candidate, plane in scanned)
            return replace(state, stage=Stage.FINAL, candidates=candidates)

        return Step("thresholds", share.restrict(scan), share, conclude)

    def _learning_step(
        self,
        name: str,
        reduction: Reduction[Any, Any],
        state: LocalizationState,
        conclude: Callable[[Any], LocalizationState],
    ) -> Step:
        share = self._row_split(state).take(state.cursor, self._wanted_rows(state))
        return Step(name, share.restrict(reduction), share, conclude)

    def _row_split(self, state: LocalizationState) -> RowSplit:
        same = state.split is self.row_split.split  # a row_split remembers how it dealt
        return self.row_split if same else replace(self.row_split, split=state.split)

    def _plan_about(self, plan: RunPlan, threshold: float) -> RunPlan:
        """The plan for planes at a threshold, if that makes a difference."""
        if abs(threshold) < _NOTICEABLE:
            return plan
        return plan_about(plan, threshold, self.config, self.testers)

    def _final(self, state: LocalizationState) -> Step:
        final = FinalPass(state.plan, self.config, self.testers, self.row_transform, self.members)
        return final.step(state, self.row_split.held_out_share())

    def _tester_set(self, context: Context) -> TesterSet:
        return TesterSet.of(self.testers, context)

    def _context(self, state: LocalizationState) -> Context:
        context = state.plan.context(state.stage, self.config, max(1, self._wanted_rows(state)))
        anchors = [candidate.plane.normal for candidate in state.candidates[-2:]]
        return with_sketch(replace(context, early=True), anchors, number=state.n_updates)

    def _must_sample(self, state: LocalizationState, judged: tuple[TestResult, ...]) -> bool:
        """Whether windows are not alike, and the run may begin anew with rows drawn one by one."""
        may_fall_back = state.split is Sampling.WINDOWS and self.config.sampling == "auto"
        return may_fall_back and _order(judged).outcome is not Outcome.PASSED

    def _wanted_rows(self, state: LocalizationState) -> int:
        if state.stage is Stage.INITIAL:
            return self.plan.initial_rows
        rate = _rate(state, state.delta)
        if state.split is Sampling.REUSE:
            return state.plan.reused_rows(rate)
        return min(int(state.plan.accepted_rows / rate) + 1, self._update_rows(state))

    def _update_rows(self, state: LocalizationState) -> int:
        """Rows that updates may still use."""
        if state.split is Sampling.REUSE:
            return state.plan.learning_rows
        return max(0, state.plan.learning_rows - state.cursor)

    def _next_scale(self, state: LocalizationState, outcome: UpdateOutcome) -> LocalizationState:
        small = outcome.step < _SMALL_STEP * state.delta or not state.plan.adaptive
        small = small or not self._can_repeat(state)
        finer = [delta for delta in state.plan.deltas if delta < state.delta]
        if small and (not finer or self._is_sharp(state, outcome)):
            return stop(with_mean(state), StopReason.REACHED_EPS)
        delta = max(finer) if small else state.delta
        moved = replace(state, delta=delta, repeats=0 if small else state.repeats + 1)
        if moved.repeats >= _MOST_REPEATS:
            return stop(moved, StopReason.NO_PROGRESS, delta)
        if moved.n_updates >= state.plan.max_updates:
            return stop(moved, StopReason.MOST_UPDATES)
        available = self._update_rows(moved) * _rate(moved, delta)
        if available < _LEAST_ROWS_PER_FEATURE * self.plan.dim + 500:
            return stop(moved, StopReason.ROWS_USED_UP)
        return moved

    def _is_sharp(self, state: LocalizationState, outcome: UpdateOutcome) -> bool:
        """Whether finer scales than the planned ones could hardly take anything off the error."""
        angle = state.delta * math.sqrt(self.plan.dim / max(1, outcome.n_accepted))
        fine = state.delta <= min(_FINE, 2.001 * state.plan.eps)
        return fine and angle < _SHARP * outcome.noise

    def _can_repeat(self, state: LocalizationState) -> bool:
        """Whether another update at this scale leaves the finer scales the rows they need."""
        finer = [delta for delta in state.plan.deltas if delta < state.delta]
        reads = sum(1 / _rate(state, delta) for delta in (state.delta, *finer))
        needed = state.plan.accepted_rows * reads
        return state.split is Sampling.REUSE or needed <= self._update_rows(state)


def _order(test_results: tuple[TestResult, ...]) -> TestResult:
    """What was said about the order of the rows."""
    return next(one for one in test_results if one.tester == ExchangeabilityTester.name)


def _rate(state: LocalizationState, delta: float) -> float:
    """Share of the rows that an update at a scale about the last candidate accepts."""
    return Frame(state.candidates[-1].plane, delta).rate
