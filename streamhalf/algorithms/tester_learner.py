"""The tester-learner: drives the passes of Algorithm 3 and puts the answer together."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.localization import Localization, LocalizationState, Stage
from streamhalf.algorithms.planner import RunPlan
from streamhalf.config import RunConfig
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.events import TesterJudged
from streamhalf.kernels.binomial import binomial_upper
from streamhalf.records import (
    CandidateRecord,
    DataRecord,
    ErrorRecord,
    FitResult,
    Halfspace,
    Outcome,
    Verdict,
    Versions,
    overall_outcome,
)
from streamhalf.reductions.localized import LocalizedPartial

_UNFINISHED = ("rows for updates are used up", "largest number of updates")


def learn(run: Run, source: Source, plan: RunPlan, config: RunConfig) -> FitResult:
    """Run every pass of the plan; source is what the statements refer to (whitened or not)."""
    algorithm = Localization(plan, config, source.blocks)
    state = algorithm.start()
    while state.stage is not Stage.DONE:
        request = algorithm.request(state)
        result = run.reduce(
            request.name,
            source,
            request.reduction,
            blocks=request.share.blocks,
            count_accepted=count_accepted,
        )
        known = len(state.judgements)
        state = algorithm.advance(state, result)
        for judgement in state.judgements[known:]:
            run.observer(TesterJudged(judgement))
    return conclude(run, source, plan, config, state)


def count_accepted(result: object) -> int:
    """Rows that a pass's statistic was taken over."""
    if isinstance(result, LocalizedPartial):
        return result.n_accepted
    while isinstance(result, tuple):
        result = result[0]
    return int(result.n_rows)  # type: ignore[attr-defined]


def no_answer(source: Source, plan: RunPlan, config: RunConfig) -> FitResult:
    """The answer to a question that so few rows cannot settle; nothing is read for it."""
    return FitResult(
        verdict=Verdict.INCONCLUSIVE,
        halfspace=None,
        error=None,
        eps=plan.eps,
        tau=config.tau,
        seed=config.seed,
        rows_needed=plan.required_rows,
        split=plan.split.value,
        whitened=config.whiten,
        stopped_because="too few rows",
        candidates=(),
        chosen=None,
        testers=(),
        passes=(),
        data=DataRecord(source.n_rows, source.dim, source.fingerprint, source.name),
        versions=Versions.current(),
        notices=source.notices,
    )


def conclude(
    run: Run, source: Source, plan: RunPlan, config: RunConfig, state: LocalizationState
) -> FitResult:
    """Verdict, halfspace, error and candidates from the final state."""
    eps, outcome = plan.eps, overall_outcome(state.judgements)
    if state.stopped_because in _UNFINISHED:
        eps = max(eps, state.tested_delta)
        if config.eps != "auto" and eps > plan.eps and outcome is Outcome.PASSED:
            outcome = Outcome.INCONCLUSIVE
    chosen = choose(state)
    return replace(
        no_answer(source, plan, config),
        verdict=Verdict.ACCEPTED if outcome is Outcome.PASSED else Verdict(outcome),
        halfspace=_halfspace(source, state, chosen),
        error=_error(state, chosen, config.tau),
        eps=eps,
        rows_needed=_rows_needed(plan, state) if outcome is Outcome.INCONCLUSIVE else None,
        split=state.split.value,
        stopped_because=state.stopped_because or "a tester rejected",
        candidates=_candidates(state, chosen),
        chosen=chosen,
        testers=state.judgements,
        passes=tuple(run.passes),
    )


def choose(state: LocalizationState) -> int | None:
    """The candidate with the fewest errors on fresh rows; without a final pass, the last one."""
    if state.final is not None:
        return int(np.argmin(state.final.errors))
    return len(state.candidates) - 1 if state.candidates else None


def _halfspace(source: Source, state: LocalizationState, chosen: int | None) -> Halfspace | None:
    if chosen is None:
        return None
    vector = state.candidates[chosen].vector
    if source.schema.whitening is not None:
        return source.schema.whitening.to_raw(vector)
    return Halfspace(tuple(float(a) for a in vector))


def _error(state: LocalizationState, chosen: int | None, tau: float) -> ErrorRecord | None:
    if state.final is None or chosen is None:
        return None
    errors, n_rows = int(state.final.errors[chosen]), state.final.n_rows
    # the rows that chose among the candidates also measure the chosen one: a union bound
    upper = binomial_upper(errors, n_rows, tau / len(state.candidates))
    return ErrorRecord(errors / max(1, n_rows), upper, n_rows)


def _rows_needed(plan: RunPlan, state: LocalizationState) -> int:
    """Scale the whole plan by what the hungriest tester lacks."""
    factors = [
        judgement.rows_needed / max(1, judgement.n_rows)
        for judgement in state.judgements
        if judgement.rows_needed is not None
    ]
    return math.ceil(max([*factors, 1.0]) * max(plan.required_rows, plan.n_rows))


def _candidates(state: LocalizationState, chosen: int | None) -> tuple[CandidateRecord, ...]:
    if chosen is None:
        return ()
    final = state.final
    winner = state.candidates[chosen].vector
    return tuple(
        CandidateRecord(
            delta=candidate.delta,
            step=candidate.step,
            overlap=candidate.overlap,
            rows_seen=candidate.n_seen,
            rows_accepted=candidate.n_accepted,
            angle=angle_between(candidate.vector, winner),
            error=float(final.errors[i]) / final.n_rows if final else math.nan,
            beta=final.betas[i] if final else math.nan,
        )
        for i, candidate in enumerate(state.candidates)
    )


def angle_between(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Angle of two unit vectors, accurate also where it is small."""
    return float(
        2 * math.atan2(float(np.linalg.norm(left - right)), float(np.linalg.norm(left + right)))
    )
