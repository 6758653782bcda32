"""Algorithm 3, testable localisation: a state machine of passes.

initial (Algorithm 1) -> update (Algorithm 4), repeated at shrinking scale -> final (Algorithm 2
and the errors of all candidates, on rows that no update used).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.localized_update import LocalizedUpdate
from streamhalf.algorithms.planner import (
    FIRST_DELTA,
    PAPER_FIRST_DELTA,
    WIDE_DIM,
    RunPlan,
    partial_limit,
)
from streamhalf.algorithms.proper_learner import ProperLearner
from streamhalf.algorithms.wedge_bound import WedgeBound, WedgeOutcome, join_outcomes
from streamhalf.config import RunConfig
from streamhalf.data.block import RowRange
from streamhalf.engine.shares import RowShares, Share, Split
from streamhalf.records import Judgement, Outcome, overall_outcome
from streamhalf.reductions.base import Bundle, Reduction
from streamhalf.reductions.moments import MomentsResult
from streamhalf.reductions.segment_scatter import SegmentScatter
from streamhalf.testers.acceptance import AcceptanceTester
from streamhalf.testers.exchangeability import ExchangeabilityTester

_SMALL_STEP = 0.35
_MOST_REPEATS = 4
_SKETCH_DIRECTIONS = 24
_LEAST_ROWS_PER_FEATURE = 30


class Stage(enum.StrEnum):
    """What comes next."""

    INITIAL = "initial"
    UPDATE = "update"
    FINAL = "final"
    DONE = "done"


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A unit vector and how it was found: from a localised update at scale `delta`, or Chow."""

    vector: NDArray[np.float64]
    delta: float
    step: float
    overlap: float
    n_seen: int
    n_accepted: int


@dataclass(frozen=True, slots=True, eq=False)
class LocalizationState:
    """Everything that the next pass depends on."""

    stage: Stage
    split: Split
    cursor: int = 0
    delta: float = FIRST_DELTA
    repeats: int = 0
    n_updates: int = 0
    tested_delta: float = 1.0
    candidates: tuple[Candidate, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    stopped_because: str = ""
    noisy_delta: float = 0.0
    batches: tuple[WedgeOutcome, ...] = ()
    final: WedgeOutcome | None = None
    moments: MomentsResult | None = None

    @property
    def rejected(self) -> bool:
        """Whether a tester has said that the marginal is not Gaussian."""
        return overall_outcome(self.judgements) is Outcome.REJECTED


@dataclass(frozen=True, slots=True, eq=False)
class PassRequest:
    """The next pass: its name, its statistic and its rows."""

    name: str
    reduction: Reduction[Any, Any]
    share: Share
    detail: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Localization:
    """Algorithm 3 for one data set: `request` the next pass, `advance` with its result."""

    plan: RunPlan
    config: RunConfig
    blocks: tuple[RowRange, ...]

    def start(self) -> LocalizationState:
        """Before the first pass."""
        return LocalizationState(
            stage=Stage.INITIAL,
            split=self.plan.split,
            delta=FIRST_DELTA if self.plan.adaptive else PAPER_FIRST_DELTA,
        )

    def request(self, state: LocalizationState) -> PassRequest:
        """What the next pass has to measure."""
        share = self._share(state)
        if state.stage is Stage.INITIAL:
            needs = self._learner(state).needs(self.plan.dim)
            scatter = SegmentScatter(self.plan.n_rows)
            return self._request("initial", Bundle((needs, scatter)), share)
        if state.stage is Stage.UPDATE:
            request = self._request(
                f"update-{state.n_updates + 1}", self._update(state).needs(), share
            )
            return replace(request, detail=f"delta {state.delta:.4g}")
        wedge = self._wedge(state)
        whole = len(wedge.candidates) == len(state.candidates)
        name = "final" if whole else f"final-{len(state.batches) + 1}"
        return self._request(name, wedge.needs(), share)

    def advance(self, state: LocalizationState, result: Any) -> LocalizationState:
        """The state after a pass."""
        if state.stage is Stage.INITIAL:
            return self._after_initial(state, result)
        if state.stage is Stage.UPDATE:
            return self._after_update(state, result)
        return self._after_final(state, result)

    def _request(self, name: str, reduction: Reduction[Any, Any], share: Share) -> PassRequest:
        return PassRequest(name, share.restrict(reduction, self.config.seed), share)

    def _share(self, state: LocalizationState) -> Share:
        shares = RowShares(self.blocks, state.split, self.plan.initial_rows, self.config.seed)
        return shares.take(state.cursor, self._wanted_rows(state))

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

    def _learner(self, state: LocalizationState) -> ProperLearner:
        tester = self.plan.moment_tester(self.config)
        if self.plan.dim > WIDE_DIM:
            anchors = [candidate.vector for candidate in state.candidates[-2:]]
            tester = replace(
                tester,
                directions=sketch_directions(
                    self.plan.dim, anchors, seed=self.config.seed + state.n_updates
                ),
            )
        return ProperLearner(tester)

    def _update(self, state: LocalizationState) -> LocalizedUpdate:
        return LocalizedUpdate(
            learner=self._learner(state),
            acceptance=AcceptanceTester(delta=state.delta, tau=0.25 * self.plan.tau_pass),
            v=state.candidates[-1].vector,
            seed=self.config.seed,
            stream=1 + state.n_updates,
        )

    def _wedge(self, state: LocalizationState) -> WedgeBound:
        """Algorithm 2 for the next batch of candidates: as many as their matrices fit in memory."""
        vectors = np.array([candidate.vector for candidate in state.candidates])
        first = sum(len(batch.errors) for batch in state.batches)
        wedge = WedgeBound(
            mass=self.plan.mass_tester(),
            covariance=self.plan.covariance_tester(),
            candidates=vectors[first:],
            n_rows=max(1, self._wanted_rows(state)),
            seed=self.config.seed,
            first=first,
        )
        room = partial_limit(self.config) // (4 * self.plan.dim * (self.plan.dim + 3))
        slabs = min(len(wedge.edges()) + 1, max(4, room))
        size = max(1, room // slabs)
        return replace(wedge, candidates=wedge.candidates[:size], most_slabs=slabs)

    def _after_initial(self, state: LocalizationState, result: Any) -> LocalizationState:
        learned, scatter = result
        exchangeable = ExchangeabilityTester(tau=self.plan.tau_pass).judge(scatter)
        may_fall_back = state.split is Split.CHUNKS and self.config.rows == "auto"
        if may_fall_back and exchangeable.outcome is not Outcome.PASSED:
            said = f"{exchangeable.remark}: sampling rows"
            judged = _name_pass((replace(exchangeable, remark=said),), "initial")
            return replace(self.start(), split=Split.ROWS, judgements=judged)
        proper = self._learner(state).conclude(learned)
        judged = _name_pass((*proper.judgements, exchangeable), "initial")
        n_rows = int(learned[1].n_rows)  # segments with few rows are left out of the scatter
        first = Candidate(proper.vector, 1.0, 0.0, proper.strength, n_rows, n_rows)
        moved = replace(
            state,
            stage=Stage.UPDATE,
            cursor=state.cursor + self._wanted_rows(state),
            candidates=(first,),
            judgements=(*state.judgements, *judged),
            moments=learned[0][0] if self.plan.dim > WIDE_DIM else learned[0],
        )
        return replace(moved, stage=Stage.DONE) if moved.rejected else moved

    def _after_update(self, state: LocalizationState, result: Any) -> LocalizationState:
        outcome = self._update(state).conclude(result)
        required = outcome.n_accepted >= 0.9 * self.plan.accepted_rows
        judged = outcome.judgements if required else _as_refinement(outcome.judgements)
        moved = replace(
            state,
            cursor=state.cursor + self._wanted_rows(state),
            n_updates=state.n_updates + 1,
            tested_delta=min(state.tested_delta, state.delta) if required else state.tested_delta,
            judgements=(
                *state.judgements,
                *_name_pass(judged, f"update-{state.n_updates + 1}"),
            ),
        )
        if moved.rejected:
            return replace(moved, stage=Stage.DONE)
        if outcome.overlap <= 0:
            return _stop(moved, f"noise dominates at delta {state.delta:.4g}", state.delta)
        found = Candidate(
            outcome.vector,
            state.delta,
            outcome.step,
            outcome.overlap,
            outcome.n_seen,
            outcome.n_accepted,
        )
        moved = replace(moved, candidates=(*state.candidates, found))
        return self._next_scale(moved, outcome.step)

    def _next_scale(self, state: LocalizationState, step: float) -> LocalizationState:
        small = step < _SMALL_STEP * state.delta or not self.plan.adaptive
        small = small or not self._can_repeat(state)
        delta = state.delta / 2 if small else state.delta
        moved = replace(state, delta=delta, repeats=0 if small else state.repeats + 1)
        if small and state.delta <= self.plan.deltas[-1]:
            # tau is shared over one candidate more than there are updates at most
            spare = len(moved.candidates) <= self.plan.max_updates
            return _stop(_with_mean(moved) if spare else moved, "reached the scale of eps")
        if moved.repeats >= _MOST_REPEATS:
            return _stop(moved, f"no further progress at delta {delta:.4g}", delta)
        if moved.n_updates >= self.plan.max_updates:
            return _stop(moved, "largest number of updates")
        available = self._update_rows(moved) * delta
        if available < _LEAST_ROWS_PER_FEATURE * self.plan.dim + 500:
            return _stop(moved, "rows for updates are used up")
        return moved

    def _can_repeat(self, state: LocalizationState) -> bool:
        """Whether another update at this scale leaves the finer scales the rows they need."""
        finer = [delta for delta in self.plan.deltas if delta < state.delta]
        needed = self.plan.accepted_rows * sum(1 / delta for delta in (state.delta, *finer))
        return state.split is Split.REUSE or needed <= self._update_rows(state)

    def _after_final(self, state: LocalizationState, result: Any) -> LocalizationState:
        batches = (*state.batches, self._wedge(state).conclude(result))
        outcome = join_outcomes(batches)
        if len(outcome.errors) < len(state.candidates):
            return replace(state, batches=batches)
        judged = tuple(one for found in outcome.judgements for one in found)
        return replace(
            state,
            stage=Stage.DONE,
            batches=batches,
            final=outcome,
            judgements=(*state.judgements, *_name_pass(judged, "final")),
        )


def sketch_directions(
    dim: int, anchors: list[NDArray[np.float64]], *, seed: int
) -> NDArray[np.float64]:
    """Orthonormal rows (m, d): the span of the anchors first, then random directions."""
    rng = np.random.Generator(np.random.Philox(seed))
    draws = rng.standard_normal((_SKETCH_DIRECTIONS - len(anchors), dim))
    columns = np.vstack([*anchors, draws]).T
    return np.linalg.qr(columns)[0].T


def _with_mean(state: LocalizationState) -> LocalizationState:
    """Add the mean of the last two candidates, by the precision of the rows behind them.

    An update at scale delta errs by an angle proportional to delta / sqrt(accepted rows), and two
    of them used different rows: under random noise their mean is nearer than either.
    """
    if len(state.candidates) < 3:
        return state
    before, last = state.candidates[-2:]
    weights = [one.n_accepted / one.delta**2 for one in (before, last)]
    total = weights[0] * before.vector + weights[1] * last.vector
    mean = total / np.linalg.norm(total)
    step = float(np.linalg.norm(mean - last.vector))
    return replace(state, candidates=(*state.candidates, replace(last, vector=mean, step=step)))


def _stop(state: LocalizationState, why: str, noisy_delta: float = 0.0) -> LocalizationState:
    return replace(state, stage=Stage.FINAL, stopped_because=why, noisy_delta=noisy_delta)


def _name_pass(judgements: tuple[Judgement, ...], name: str) -> tuple[Judgement, ...]:
    return tuple(replace(judgement, pass_name=name) for judgement in judgements)


def _as_refinement(judgements: tuple[Judgement, ...]) -> tuple[Judgement, ...]:
    """Below the tested scale a tester can still reject, but its doubts do not count."""
    return tuple(
        replace(one, outcome=Outcome.NOT_JUDGED, remark="refinement below the tested scale")
        if one.outcome is Outcome.INCONCLUSIVE
        else one
        for one in judgements
    )
