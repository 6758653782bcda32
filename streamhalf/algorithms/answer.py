"""The answer of a fit, put together from what its passes found."""

from __future__ import annotations

import math

from streamhalf.algorithms.decide import decide
from streamhalf.algorithms.localization_state import LocalizationState
from streamhalf.claims.notices import claim_notices
from streamhalf.config import RunConfig
from streamhalf.data.positions import RowMap
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.kernels.binomial import binomial_upper
from streamhalf.planning.plan import RunPlan
from streamhalf.records import (
    CandidateRecord,
    CertificateRecord,
    DiagnosticsRecord,
    ErrorRecord,
    FitResult,
    Halfspace,
    Notice,
    Outcome,
    RatioNotReached,
    Stop,
    StopReason,
    Verdict,
    Versions,
    replace,
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
    error = held_out_error(state, config.tau)
    if error is not None:
        error = replace(error, through=row_map.record.through)
    stop = state.stop or Stop(StopReason.TESTER_REJECTED)
    eps = _tested_eps(plan, state, stop)
    settled = not (stop.reason.unfinished and config.eps != "auto" and eps > plan.eps)
    ratio = None if certificate is None else certificate.ratio
    tested = decide(state.judgements, settled=settled)
    verdict = decide(state.judgements, settled=settled, ratio=ratio, max_ratio=config.max_ratio)
    if verdict is not tested and config.max_ratio is not None:
        notices = (*notices, RatioNotReached(config.max_ratio, ratio))
    return FitResult(
        verdict=verdict,
        halfspace=halfspace_of(state, row_map),
        error=error,
        eps=eps,
        tau=config.tau,
        seed=config.seed,
        opt=None if certificate is None else certificate.opt,
        ratio=ratio,
        rows_needed=_rows_needed(plan, state) if tested is Verdict.INCONCLUSIVE else None,
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


def held_out_error(state: LocalizationState, tau: float) -> ErrorRecord | None:
    """The chosen candidate's error in the final pass."""
    if state.final is None or state.chosen is None:
        return None
    errors, n_rows = int(state.final.errors[state.chosen]), state.final.n_rows
    # the rows that chose among the candidates also measure the chosen one: a union bound
    upper = binomial_upper(errors, n_rows, tau / len(state.candidates))
    return ErrorRecord(errors / max(1, n_rows), upper, n_rows)


def _tested_eps(plan: RunPlan, state: LocalizationState, stop: Stop) -> float:
    # noise that stopped the updates at delta hides angles up to delta: error delta / 2 at most
    eps = max(plan.eps, (stop.delta or 0.0) / 2)
    return max(eps, state.tested_delta) if stop.reason.unfinished else eps


def _rows_needed(plan: RunPlan, state: LocalizationState) -> int:
    """Scale the whole plan by what the hungriest tester, or the updates not made, lack."""
    factors = [
        judgement.rows_needed / max(1, judgement.n_rows)
        for judgement in state.judgements
        if judgement.outcome is Outcome.INCONCLUSIVE and judgement.rows_needed is not None
    ]
    untested = (delta for delta in plan.deltas if delta < state.tested_delta)
    missing = sum(plan.accepted_rows / delta for delta in untested)
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
        slab_width=plan.eps,
        slab_counts=tuple(final.slab_counts[chosen].tolist()) if final else (),
        eigen_edges=tuple(final.edges.tolist()) if final else (),
        eigenvalues=tuple(final.eigenvalues[chosen].tolist()) if final else (),
    )
