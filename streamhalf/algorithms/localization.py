"""Algorithm 3, testable localisation: a state machine of passes.

initial (Algorithm 1) -> update (Algorithm 4), repeated at shrinking scale -> final (Algorithm 2
and the errors of all candidates, on rows that no update used).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf import records
from streamhalf.algorithms.localization_state import (
    Candidate,
    LocalizationState,
    Step,
    as_refinement,
    of_pass,
    stop,
    stop_if_rejected,
    with_mean,
)
from streamhalf.algorithms.localized_update import LocalizedUpdate
from streamhalf.algorithms.proper_learner import ProperLearner
from streamhalf.algorithms.wedge_bound import WedgeBound, join_outcomes
from streamhalf.config import RunConfig
from streamhalf.data.block import RowRange
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import generator_of
from streamhalf.planning.deal import Deal, Share
from streamhalf.planning.plan import FIRST_DELTA, PAPER_FIRST_DELTA, RunPlan, partial_limit
from streamhalf.records import Judgement, Outcome, Role, Split, Stage, StopReason
from streamhalf.reductions.base import Reduction
from streamhalf.testers import TESTERS, Context, Panel, Tester
from streamhalf.testers.exchangeability import ExchangeabilityTester
from streamhalf.testers.moments import WIDE_DIM
from streamhalf.testers.slab_covariance import SlabCovarianceTester
from streamhalf.testers.wedge import WedgeTester

_SMALL_STEP = 0.35
_MOST_REPEATS = 4
_SKETCH_DIRECTIONS = 24
_LEAST_ROWS_PER_FEATURE = 30
_ENOUGH = 0.9
"""An update that accepts this share of the rows it was planned for is a full one."""


@dataclass(frozen=True, slots=True, eq=False)
class Localization:
    """Algorithm 3 for one data set: `next_step` of a state, until there is none."""

    plan: RunPlan
    config: RunConfig
    blocks: tuple[RowRange, ...]
    testers: tuple[type[Tester], ...] = TESTERS

    def start(self) -> LocalizationState:
        """Before the first pass."""
        return LocalizationState(
            stage=Stage.INITIAL,
            split=self.plan.split,
            delta=FIRST_DELTA if self.plan.adaptive else PAPER_FIRST_DELTA,
        )

    def next_step(self, state: LocalizationState) -> Step | None:
        """What the next pass has to measure, and what follows from it."""
        steps = {
            Stage.INITIAL: self._initial,
            Stage.UPDATE: self._update,
            Stage.FINAL: self._final,
        }
        return steps[state.stage](state) if state.stage in steps else None

    def _initial(self, state: LocalizationState) -> Step:
        learner = ProperLearner(self._panel(self._context(state)))
        share = self._share(state)

        def conclude(result: Any) -> LocalizationState:
            n_rows = int(result[1].n_rows)
            found = learner.conclude(result, n_seen=n_rows)
            judged = of_pass(found.judgements, Stage.INITIAL, "initial")
            if self._must_sample(state, judged):
                fallback = (records.replace(_order(judged), role=Role.FALLBACK),)
                return replace(self.start(), split=Split.ROWS, judgements=fallback)
            first = Candidate(found.plane, 1.0, 0.0, found.strength, n_rows, n_rows)
            moved = replace(
                state,
                stage=Stage.UPDATE,
                cursor=state.cursor + self._wanted_rows(state),
                candidates=(first,),
                judgements=(*state.judgements, *judged),
                moments=found.moments,
            )
            return stop_if_rejected(moved)

        return self._step("initial", learner.needs(), share, conclude)

    def _update(self, state: LocalizationState) -> Step:
        frame = Frame(state.candidates[-1].plane, state.delta)
        learner = ProperLearner(self._panel(replace(self._context(state), frame=frame)))
        update = LocalizedUpdate(learner, frame, self.config.seed, state.n_updates)
        name = f"update-{state.n_updates + 1}"

        def conclude(result: Any) -> LocalizationState:
            outcome = update.conclude(result)
            required = outcome.n_accepted >= _ENOUGH * self.plan.accepted_rows
            judged = outcome.judgements if required else as_refinement(outcome.judgements)
            tested = min(state.tested_delta, state.delta) if required else state.tested_delta
            moved = replace(
                state,
                cursor=state.cursor + self._wanted_rows(state),
                n_updates=state.n_updates + 1,
                tested_delta=tested,
                judgements=(*state.judgements, *of_pass(judged, Stage.UPDATE, name)),
            )
            if moved.outcome is Outcome.REJECTED:
                return stop_if_rejected(moved)
            if outcome.overlap <= 0:
                return stop(moved, StopReason.NOISE_DOMINATES, state.delta)
            found = Candidate(
                outcome.plane,
                state.delta,
                outcome.step,
                outcome.overlap,
                outcome.n_seen,
                outcome.n_accepted,
            )
            moved = replace(moved, candidates=(*state.candidates, found))
            return self._next_scale(moved, outcome.step)

        step = self._step(name, update.needs(), self._share(state), conclude)
        return replace(step, detail=f"delta {state.delta:.4g}")

    def _final(self, state: LocalizationState) -> Step:
        context = self._batch(state)
        wedge = WedgeBound(self._panel(context))
        whole = len(context.candidates) == len(state.candidates)
        share = self._share(state)

        def conclude(result: Any) -> LocalizationState:
            batches = (*state.batches, wedge.conclude(result))
            outcome = join_outcomes(batches)
            if len(outcome.errors) < len(state.candidates):
                return replace(state, batches=batches)
            return replace(
                state,
                stage=Stage.DONE,
                batches=batches,
                final=outcome,
                held_out=share,
                judgements=(*state.judgements, *of_pass(outcome.judgements, Stage.FINAL, "final")),
            )

        name = "final" if whole else f"final-{len(state.batches) + 1}"
        return self._step(name, wedge.needs(), share, conclude)

    def _step(
        self,
        name: str,
        reduction: Reduction[Any, Any],
        share: Share,
        conclude: Callable[[Any], LocalizationState],
    ) -> Step:
        return Step(name, share.restrict(reduction), share, conclude)

    def _panel(self, context: Context) -> Panel:
        return Panel.of(self.testers, context)

    def _context(self, state: LocalizationState) -> Context:
        context = self.plan.context(state.stage, self.config, max(1, self._wanted_rows(state)))
        if self.plan.dim <= WIDE_DIM or state.stage is Stage.FINAL:
            return context
        anchors = [candidate.plane.normal for candidate in state.candidates[-2:]]
        directions = sketch_directions(
            self.plan.dim, anchors, seed=self.config.seed, number=state.n_updates
        )
        return replace(context, directions=directions)

    def _batch(self, state: LocalizationState) -> Context:
        """The next candidates: as many as their matrices fit in memory."""
        planes = tuple(candidate.plane for candidate in state.candidates)
        first = sum(len(batch.errors) for batch in state.batches)
        context = replace(self._context(state), candidates=planes[first:], first=first)
        panel = self._panel(context)
        edges, etas = panel.find(SlabCovarianceTester).edges(), panel.find(WedgeTester).etas
        room = partial_limit(self.config) // (4 * self.plan.dim * (self.plan.dim + 3))
        slabs = min(len(edges) + 1, max(4, room - len(etas)))
        size = max(1, room // (slabs + len(etas)))
        return replace(context, candidates=planes[first : first + size], most_slabs=slabs)

    def _must_sample(self, state: LocalizationState, judged: tuple[Judgement, ...]) -> bool:
        """Whether chunks are not alike, and the run may begin anew with rows drawn at random."""
        may_fall_back = state.split is Split.CHUNKS and self.config.rows == "auto"
        return may_fall_back and _order(judged).outcome is not Outcome.PASSED

    def _share(self, state: LocalizationState) -> Share:
        deal = Deal(self.config.seed, self.blocks, state.split, self.plan.initial_rows)
        return deal.take(state.cursor, self._wanted_rows(state))

    def _wanted_rows(self, state: LocalizationState) -> int:
        if state.split is Split.REUSE:
            return self.plan.n_rows
        if state.stage is Stage.INITIAL:
            return self.plan.initial_rows
        if state.stage is Stage.UPDATE:
            return min(int(self.plan.accepted_rows / state.delta) + 1, self._update_rows(state))
        return max(0, min(self.plan.n_rows - state.cursor, self._final_rows()))

    def _final_rows(self) -> int:
        """All that is left where eps was chosen for the rows, else what eps needs."""
        return self.plan.n_rows if self.config.eps == "auto" else self.plan.final_rows

    def _update_rows(self, state: LocalizationState) -> int:
        if state.split is Split.REUSE:
            return self.plan.n_rows
        return max(0, self.plan.initial_rows + self.plan.update_rows - state.cursor)

    def _next_scale(self, state: LocalizationState, step: float) -> LocalizationState:
        small = step < _SMALL_STEP * state.delta or not self.plan.adaptive
        small = small or not self._can_repeat(state)
        delta = state.delta / 2 if small else state.delta
        moved = replace(state, delta=delta, repeats=0 if small else state.repeats + 1)
        if small and state.delta <= self.plan.deltas[-1]:
            # tau is shared over one candidate more than there are updates at most
            spare = len(moved.candidates) <= self.plan.max_updates
            return stop(with_mean(moved) if spare else moved, StopReason.REACHED_EPS)
        if moved.repeats >= _MOST_REPEATS:
            return stop(moved, StopReason.NO_PROGRESS, delta)
        if moved.n_updates >= self.plan.max_updates:
            return stop(moved, StopReason.MOST_UPDATES)
        available = self._update_rows(moved) * delta
        if available < _LEAST_ROWS_PER_FEATURE * self.plan.dim + 500:
            return stop(moved, StopReason.ROWS_USED_UP)
        return moved

    def _can_repeat(self, state: LocalizationState) -> bool:
        """Whether another update at this scale leaves the finer scales the rows they need."""
        finer = [delta for delta in self.plan.deltas if delta < state.delta]
        needed = self.plan.accepted_rows * sum(1 / delta for delta in (state.delta, *finer))
        return state.split is Split.REUSE or needed <= self._update_rows(state)


def sketch_directions(
    dim: int, anchors: list[NDArray[np.float64]], *, seed: int, number: int
) -> NDArray[np.float64]:
    """Orthonormal rows (m, d): the span of the anchors first, then random directions."""
    rng = generator_of(seed, Stream.SKETCHES + number)
    draws = rng.standard_normal((_SKETCH_DIRECTIONS - len(anchors), dim))
    columns = np.vstack([*anchors, draws]).T
    return np.linalg.qr(columns)[0].T


def _order(judgements: tuple[Judgement, ...]) -> Judgement:
    """What was said about the order of the rows."""
    return next(one for one in judgements if one.tester == ExchangeabilityTester.name)
