"""The answer of a fit, put together from what its passes found."""

from __future__ import annotations

import math

from streamhalf import records
from streamhalf.algorithms.decide import decide
from streamhalf.algorithms.localization_state import LocalizationState
from streamhalf.algorithms.path_tests import best_promise, promises
from streamhalf.claims.held_out import measure_error
from streamhalf.claims.notices import claim_notices
from streamhalf.config import RunConfig
from streamhalf.data.positions import RowMap
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.planning import budget
from streamhalf.planning.plan import RunPlan
from streamhalf.records import (
    CandidateRecord,
    CertificateRecord,
    DiagnosticsRecord,
    EpsNotReached,
    ErrorRecord,
    FitResult,
    Halfspace,
    Notice,
    RatioNotReached,
    Role,
    Stop,
    StopReason,
    Verdict,
    Versions,
)
from streamhalf.testers.moments import WIDE_DIM


def assemble(
    run: Run,
    source: Source,
    plan: RunPlan,
    config: RunConfig,
    *,
    state: LocalizationState,
    row_map: RowMap,
    certificate: CertificateRecord | None,
    notices: tuple[Notice, ...],
) -> FitResult:
    """Verdict, halfspace, error and candidates from the final state."""
    asked = None if config.eps == "auto" else float(config.eps)
    error = held_out_error(state, row_map, config.tau)
    supported = promises(state.steps)
    promise = best_promise(supported, error=error.empirical if error else 0.0, asked=asked)
    ratio = None if certificate is None else certificate.ratio
    tested = decide(state.judgements, settled=promise is not None)
    verdict = decide(
        state.judgements, settled=promise is not None, ratio=ratio, max_ratio=config.max_ratio
    )
    if verdict is not tested and config.max_ratio is not None:
        notices = (*notices, RatioNotReached(config.max_ratio, ratio))
    stop = state.stop or Stop(StopReason.TESTER_REJECTED)
    if promise is None and asked is not None:
        reached = min((one.eps for one in supported), default=None)
        notices = (*notices, EpsNotReached(asked, reached, noise=stop.reason.is_noise))
    rows = None
    if tested is Verdict.INCONCLUSIVE and not (stop.reason.is_noise and supported):
        rows = _rows_needed(plan, state)
    return FitResult(
        verdict=verdict,
        halfspace=halfspace_of(state, row_map),
        error=error,
        eps=plan.eps if promise is None else promise.eps,
        tau=config.tau,
        seed=config.seed,
        opt=None if certificate is None else certificate.opt,
        ratio=ratio,
        constant=None if promise is None else promise.constant,
        promises=supported,
        rows_needed=rows,
        split=state.split,
        position=row_map.record,
        stop=stop,
        candidates=_candidates(state),
        chosen=state.chosen,
        testers=state.judgements,
        passes=tuple(run.passes),
        data=source.record,
        versions=Versions.current(),
        notices=(*claim_notices(error, certificate), *source.notices, *notices),
        certificate=certificate,
        held_out=None if state.held_out is None else state.held_out.record,
        measurements=_measurements(plan, state),
    )


def halfspace_of(state: LocalizationState, row_map: RowMap) -> Halfspace | None:
    """The chosen candidate among stored rows."""
    if state.chosen is None:
        return None
    return Halfspace.of(row_map.pull_back(state.candidates[state.chosen].plane))


def held_out_error(state: LocalizationState, row_map: RowMap, tau: float) -> ErrorRecord | None:
    """The chosen candidate's error in the final pass."""
    if state.final is None or state.chosen is None:
        return None
    tau *= budget.ERROR
    error = measure_error(
        state.final.segment_errors[state.chosen],
        state.final.segment_rows,
        # the rows that chose among the candidates also measure the chosen one: a union bound
        tau=tau / len(state.candidates),
    )
    return records.replace(error, through=row_map.record.through, tau=tau)


def _rows_needed(plan: RunPlan, state: LocalizationState) -> int:
    """Scale the whole plan by what the hungriest tester, or the updates not made, lack."""
    factors = [
        judgement.rows_needed / max(1, judgement.n_rows)
        for judgement in state.judgements
        if judgement.rows_needed is not None and judgement.role in (Role.REQUIRED, Role.REFINEMENT)
    ]
    reached = min((step.delta for step in state.steps), default=1.0)
    missing = sum(plan.accepted_rows / delta for delta in plan.deltas if delta < reached)
    factors.append(1 + missing / max(1, plan.update_rows))
    return math.ceil(max(factors) * max(plan.required_rows, plan.n_rows))


def _candidates(state: LocalizationState) -> tuple[CandidateRecord, ...]:
    if state.chosen is None:
        return ()
    final, winner = state.final, state.candidates[state.chosen].plane
    return tuple(
        CandidateRecord(
            delta=candidate.delta,
            step=candidate.step,
            overlap=candidate.overlap,
            rows_seen=candidate.n_seen,
            rows_accepted=candidate.n_accepted,
            angle=candidate.plane.angle_to(winner),
            error=float(final.errors[i]) / final.n_rows if final else None,
            beta=final.betas[i] if final else None,
        )
        for i, candidate in enumerate(state.candidates)
    )


def _measurements(plan: RunPlan, state: LocalizationState) -> DiagnosticsRecord | None:
    if state.moments is None or state.chosen is None:
        return None
    final, moments, chosen = state.final, state.moments, state.chosen
    pairs = moments.pair_moments().tolist() if plan.dim <= WIDE_DIM else []
    return DiagnosticsRecord(
        feature_moments=tuple(tuple(row) for row in moments.feature_moments().tolist()),
        pair_moments=tuple(tuple(row) for row in pairs),
        slab_width=plan.slab_eps,
        slab_counts=tuple(final.slab_counts[chosen].tolist()) if final else (),
        eigen_edges=tuple(final.edges.tolist()) if final else (),
        eigenvalues=tuple(final.eigenvalues[chosen].tolist()) if final else (),
    )
