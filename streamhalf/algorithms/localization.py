"""Algorithm 3, testable localisation: a state machine of steps.

initial (Algorithm 1) -> update (Algorithm 4), repeated at shrinking scale -> refine -> thresholds
(the best of every candidate, unless halfspaces go through one point) -> final (the tests of all
these steps once more, Algorithm 2 and the errors of all candidates, on rows that no step used).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from streamhalf import results
from streamhalf.algorithms.baselines import FEW_TO_CHOOSE, Baseline
from streamhalf.algorithms.final_pass import FinalPass
from streamhalf.algorithms.localized_update import Candidate, LocalizedUpdate, ProperLearner, Refine, or_through_origin
from streamhalf.algorithms.plan import REFINING_ROWS, SCANNED_ROWS, RunPlan, plan_about, sample_room
from streamhalf.algorithms.row_split import RowSplit
from streamhalf.algorithms.state import LocalizationState, Step, as_early, stop, turned, with_mean
from streamhalf.algorithms.transform import class_of
from streamhalf.certificate.error_bound import repeated_rows
from streamhalf.config import RunConfig
from streamhalf.data.transforms import Identity, RowTransform
from streamhalf.kernels.plane import Frame
from streamhalf.reductions.candidates import ThresholdScan
from streamhalf.reductions.row_view import Bundle
from streamhalf.reductions.rows import RowDigest
from streamhalf.results import HalfspaceClass, Outcome, Role, Sampling, Stage, Stop, StopReason, TestResult
from streamhalf.testers import TESTERS, Context, Tester, TesterSet
from streamhalf.testers.exchangeability import ExchangeabilityTester
from streamhalf.testers.moments import with_sketch

_SMALL_STEP = 0.35
_MOST_REPEATS = 4
_LEAST_ROWS_PER_FEATURE = 30
_MUCH_NOISE = 0.25  # Share of wrong labels among accepted rows from which on a turned candidate is worth a try
# Chosen noise turns an update by up to about five times its share of the labels, in the frame: at this scale that
# adds a hundredth to the error
_FINE = 0.006
# Largest thresholds of the first candidate, and of an update in its frame: a share of labels says little about one
# that lies further out
_MOST_FIRST, _MOST_LOCAL = 4.0, 1.5
_NOTICEABLE = 0.1  # From this threshold on fewer rows are near the planes than a plan for none expects
_SHARP = 0.01  # An angle of so many times the noise adds about three parts in a thousand to the error


@dataclass(frozen=True, slots=True, eq=False)
class Localization:
    """Algorithm 3 for one data set: `next_step` of a state, until there is none."""

    plan: RunPlan
    config: RunConfig
    row_split: RowSplit
    testers: tuple[type[Tester], ...] = TESTERS
    row_transform: RowTransform = field(default_factory=Identity)
    baselines: tuple[Baseline, ...] = ()

    def start(self) -> LocalizationState:
        """Return the first state: that of the final pass, where rows are too few for updates."""
        plan = self.plan
        few = plan.needed_rows > 0 and (plan.final_rows < FEW_TO_CHOOSE or not plan.can_learn)
        return LocalizationState(
            stage=Stage.FINAL if few else Stage.INITIAL,
            stop=Stop(StopReason.TOO_FEW_ROWS) if few else None,
            sampling=plan.sampling,
            plan=plan,
            delta=plan.first_delta,
        )

    @property
    def any_threshold(self) -> bool:
        """True if halfspaces need not go through one point."""
        return class_of(self.config, self.row_transform) is HalfspaceClass.ANY

    def next_step(self, state: LocalizationState) -> Step | None:
        """Return what to measure next, with what follows from it; None at the end."""
        steps = {
            Stage.INITIAL: self._initial,
            Stage.UPDATE: self._update,
            Stage.REFINE: self._refine,
            Stage.THRESHOLDS: self._thresholds,
            Stage.FINAL: self._final,
        }
        return steps[state.stage](state) if state.stage in steps else None

    def _initial(self, state: LocalizationState) -> Step:
        learner = self._learner(self._context(state), _MOST_FIRST)
        wanted = self.plan.initial_rows

        def conclude(result: Any) -> LocalizationState:
            learnt, digest = result
            n_rows = int(digest.n_rows)
            found = learner.conclude(learnt, n_seen=n_rows)
            early = as_early(found.test_results, Stage.INITIAL, "initial")
            if self._must_sample(state, early):
                fallback = (results.replace(_order(early), role=Role.FALLBACK),)
                return replace(self.start(), sampling=Sampling.REUSE, test_results=fallback)
            plane = or_through_origin(found.plane, found.resolution)
            plan = state.plan
            if abs(plane.threshold) >= _NOTICEABLE:
                plan = plan_about(plan, plane.threshold, self.config, self.testers)
            return replace(
                state,
                stage=Stage.UPDATE,
                plan=plan,
                delta=plan.first_delta,
                cursor=state.cursor + wanted,
                candidates=(Candidate(plane, 1.0, 0.0, found.strength, n_rows, n_rows),),
                test_results=(*state.test_results, *early),
                moments=found.moments,
                repeated_rows=repeated_rows(digest.repeated, digest.times),
            )

        needs = Bundle((learner.needs(), RowDigest(wanted)))
        subset = self._row_split(state).take(state.cursor, wanted)
        return Step("initial", needs, subset, conclude, wanted)

    def _update(self, state: LocalizationState) -> Step:
        frame = Frame(state.candidates[-1].plane, state.delta)
        learner = self._learner(replace(self._context(state), frame=frame), _MOST_LOCAL)
        update = LocalizedUpdate(learner, frame, self.config.seed, state.n_updates)
        name, wanted = f"update-{state.n_updates + 1}", self._wanted_rows(state)

        def conclude(result: Any) -> LocalizationState:
            found, proper = update.conclude(result)
            early = as_early(proper.test_results, Stage.UPDATE, name)
            moved = replace(
                state,
                cursor=state.cursor + wanted,
                frames=(*state.frames, frame),
                test_results=(*state.test_results, *early),
            )
            # wrong labels among the accepted rows, as if they were flipped at random
            noise = max(0.0, 1 - proper.strength) / 2
            if noise > _MUCH_NOISE and state.turned is None:
                moved = replace(moved, turned=turned(found, frame.plane))
            if found.overlap <= 0:
                return stop(moved, StopReason.NOISE_DOMINATES, state.delta)
            return self._next_scale(replace(moved, candidates=(*state.candidates, found)), noise)

        return Step(
            name,
            update.needs(),
            self._row_split(state).take(state.cursor, wanted),
            conclude,
            wanted,
            detail=f"delta {state.delta:.4g}",
        )

    def _refine(self, state: LocalizationState) -> Step:
        """All learning rows next to the last candidate, as far as one pass may read."""
        row_split = self._row_split(state)
        wanted = min(REFINING_ROWS, row_split.learning_rows)
        size = sample_room(self.config, state.plan.dim)
        refine = Refine(state.candidates[-1], wanted, size, self.config.seed, centred=not self.any_threshold)

        def conclude(result: Any) -> LocalizationState:
            candidates = (*state.candidates, *refine.conclude(result))
            return replace(state, stage=Stage.THRESHOLDS, candidates=candidates)

        return Step("refine", refine.needs(), row_split.take(0, wanted), conclude, wanted)

    def _thresholds(self, state: LocalizationState) -> Step:
        """The best threshold of every candidate, from the last of the learning rows."""
        if not self.any_threshold:
            return self._final(replace(state, stage=Stage.FINAL))
        row_split = self._row_split(state)
        wanted = min(SCANNED_ROWS, row_split.learning_rows)
        scan = ThresholdScan(tuple(candidate.plane for candidate in state.candidates))

        def conclude(planes: Any) -> LocalizationState:
            scanned = zip(state.candidates, planes, strict=True)
            candidates = tuple(replace(candidate, plane=plane) for candidate, plane in scanned)
            return replace(state, stage=Stage.FINAL, candidates=candidates)

        subset = row_split.take(row_split.learning_rows - wanted, wanted)
        return Step("thresholds", scan, subset, conclude, wanted)

    def _final(self, state: LocalizationState) -> Step:
        final = FinalPass(state.plan, self.config, self.testers, self.row_transform, self.baselines)
        return final.step(state, self.row_split.held_out_subset())

    def _row_split(self, state: LocalizationState) -> RowSplit:
        same = state.sampling is self.row_split.sampling  # a row split remembers its order
        return self.row_split if same else replace(self.row_split, sampling=state.sampling)

    def _learner(self, context: Context, most: float) -> ProperLearner:
        """Algorithm 1 with the testers of a pass, and thresholds up to `most` if there are any."""
        testers = TesterSet.of(self.testers, context)
        return ProperLearner(testers, most if self.any_threshold else 0.0)

    def _context(self, state: LocalizationState) -> Context:
        context = state.plan.context(state.stage, self.config, max(1, self._wanted_rows(state)))
        anchors = tuple(candidate.plane.normal for candidate in state.candidates[-2:])
        return with_sketch(replace(context, early=True), anchors, number=state.n_updates)

    def _must_sample(self, state: LocalizationState, found: tuple[TestResult, ...]) -> bool:
        """Return True if windows differ, and the run may begin anew with rows drawn one by one."""
        may_fall_back = state.sampling is Sampling.WINDOWS and self.config.sampling == "auto"
        return may_fall_back and _order(found).outcome is not Outcome.PASSED

    def _wanted_rows(self, state: LocalizationState) -> int:
        if state.stage is Stage.INITIAL:
            return self.plan.initial_rows
        rate = _rate(state, state.delta)
        if state.sampling is Sampling.REUSE:
            return state.plan.reused_rows(rate)
        return min(int(state.plan.accepted_rows / rate) + 1, self._rows_left(state))

    def _rows_left(self, state: LocalizationState) -> int:
        used = 0 if state.sampling is Sampling.REUSE else state.cursor
        return max(0, state.plan.learning_rows - used)

    def _next_scale(self, state: LocalizationState, noise: float) -> LocalizationState:
        small = state.candidates[-1].step < _SMALL_STEP * state.delta or not state.plan.adaptive
        small = small or not self._can_repeat(state)
        finer = [delta for delta in state.plan.deltas if delta < state.delta]
        if small and (not finer or self._is_sharp(state, noise)):
            return stop(with_mean(state), StopReason.REACHED_EPS)
        delta = max(finer) if small else state.delta
        moved = replace(state, delta=delta, repeats=0 if small else state.repeats + 1)
        if moved.repeats >= _MOST_REPEATS:
            return stop(moved, StopReason.NO_PROGRESS, delta)
        if moved.n_updates >= state.plan.max_updates:
            return stop(moved, StopReason.MOST_UPDATES)
        available = self._rows_left(moved) * _rate(moved, delta)
        if available < _LEAST_ROWS_PER_FEATURE * self.plan.dim + 500:
            return stop(moved, StopReason.ROWS_USED_UP)
        return moved

    def _is_sharp(self, state: LocalizationState, noise: float) -> bool:
        """Return True if scales finer than the planned ones could hardly reduce the error."""
        angle = state.delta * math.sqrt(self.plan.dim / max(1, state.candidates[-1].n_accepted))
        fine = state.delta <= min(_FINE, 2.001 * state.plan.eps)
        return fine and angle < _SHARP * noise

    def _can_repeat(self, state: LocalizationState) -> bool:
        """Return True if another update at this scale leaves the finer scales the rows they need."""
        finer = [delta for delta in state.plan.deltas if delta < state.delta]
        reads = sum(1 / _rate(state, delta) for delta in (state.delta, *finer))
        needed = state.plan.accepted_rows * reads
        return state.sampling is Sampling.REUSE or needed <= self._rows_left(state)


def _order(found: tuple[TestResult, ...]) -> TestResult:
    return next(one for one in found if one.tester == ExchangeabilityTester.name)


def _rate(state: LocalizationState, delta: float) -> float:
    """Share of the rows that an update at a scale about the last candidate accepts."""
    return Frame(state.candidates[-1].plane, delta).rate
