"""The tester-learner: drives the passes of Algorithm 3 and puts the answer together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.certification import (
    Certification,
    certificate_degree,
    certificate_share,
)
from streamhalf.algorithms.localization import Localization, LocalizationState, Stage
from streamhalf.algorithms.planner import WIDE_DIM, RunPlan
from streamhalf.config import RunConfig
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.engine.shares import Share, spread
from streamhalf.events import SlabsMeasured, TesterJudged
from streamhalf.kernels.binomial import binomial_upper
from streamhalf.records import (
    CandidateRecord,
    CertifyResult,
    DataRecord,
    DiagnosticsRecord,
    ErrorRecord,
    FitResult,
    Halfspace,
    HeldOutRecord,
    Outcome,
    Verdict,
    Versions,
    WhiteningRecord,
    overall_outcome,
)
from streamhalf.reductions.halfspace_errors import HalfspaceErrors
from streamhalf.reductions.localized import LocalizedPartial

_PILOT_ROWS = 65_536
_NOTICEABLE = 0.15
"""Angle between two candidates, in units of the error, from which both are certified from: they
disagree on a twentieth of the error."""

_UNFINISHED = ("rows for updates are used up", "largest number of updates")


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """The answer, and the last candidate: another direction that a certificate may look from."""

    result: FitResult
    last: NDArray[np.float64] | None


def learn(run: Run, source: Source, plan: RunPlan, config: RunConfig) -> Learned:
    """Run every pass of the plan; source is what the statements refer to (whitened or not)."""
    algorithm = Localization(plan, config, source.blocks)
    state = algorithm.start()
    held_out: HeldOutRecord | None = None
    while state.stage is not Stage.DONE:
        request = algorithm.request(state)
        result = run.reduce(
            request.name,
            source,
            request.reduction,
            blocks=request.share.blocks,
            detail=request.detail,
            count_accepted=count_accepted,
        )
        known = len(state.judgements)
        if state.stage is Stage.FINAL:
            held_out = _held_out(request.share)
        state = algorithm.advance(state, result)
        for judgement in state.judgements[known:]:
            run.observer(TesterJudged(judgement))
        if (chosen := choose(state)) is not None and state.final is not None:
            counts = tuple(state.final.slab_counts[chosen].tolist())
            run.observer(SlabsMeasured(plan.eps, counts))
    result = conclude(run, source, plan, config, state, held_out)
    return Learned(result, state.candidates[-1].vector if state.candidates else None)


def count_accepted(result: object) -> int:
    """Rows that a pass's statistic was taken over."""
    if isinstance(result, LocalizedPartial):
        return result.n_accepted
    while isinstance(result, tuple):
        result = result[0]
    return int(result.n_rows)  # type: ignore[attr-defined]


def certify_fit(run: Run, source: Source, config: RunConfig, learned: Learned) -> FitResult:
    """Add the certificate of the returned halfspace; `source` has the rows as they are stored.

    Where noise next to the boundary makes an early candidate the best one, the last is nearer to
    the halfspace behind the noise, and slabs along it give the better bound.
    """
    result = learned.result
    if result.halfspace is None or result.error is None or not config.certificate_degree:
        return result
    certification = _certification(
        source, config, result.halfspace, result.whitening, result.error.empirical
    )
    if learned.last is not None:
        apart = angle_between(certification.direction, learned.last)
        if apart > _NOTICEABLE * result.error.empirical:
            certification = replace(certification, others=(learned.last,))
    certificate = certification.run(run, source, tau=config.tau)
    certified = replace(
        result,
        opt=certificate.opt,
        ratio=certificate.ratio,
        certificate=certificate,
        passes=tuple(run.passes),
    )
    return _demand_ratio(certified, config.max_ratio)


def certify_classifier(
    run: Run,
    source: Source,
    config: RunConfig,
    halfspace: Halfspace,
    whitening: WhiteningRecord | None,
) -> CertifyResult:
    """The certified interval of a classifier that somebody brings."""
    errors = HalfspaceErrors(np.array(halfspace.normal), halfspace.offset)
    pilot_rows = tuple(spread(source.n_rows, _PILOT_ROWS))
    pilot = run.reduce("pilot", source, errors, blocks=pilot_rows)
    certification = _certification(
        source, config, halfspace, whitening, pilot.n_errors / pilot.n_rows
    )
    certificate, counted = certification.run_with(
        run, source, errors, name="certificate", tau=config.tau
    )
    upper = binomial_upper(counted.n_errors, counted.n_rows, config.tau)
    return CertifyResult(
        halfspace=halfspace,
        error=ErrorRecord(counted.n_errors / counted.n_rows, upper, counted.n_rows),
        opt=certificate.opt,
        ratio=certificate.ratio,
        tau=config.tau,
        certificate=certificate,
        passes=tuple(run.passes),
        data=DataRecord(source.n_rows, source.dim, source.fingerprint, source.name),
        versions=Versions.current(),
        notices=source.notices,
        whitening=whitening,
    )


def _certification(
    source: Source,
    config: RunConfig,
    halfspace: Halfspace,
    whitening: WhiteningRecord | None,
    error: float,
) -> Certification:
    """The certificate pass that the configuration asks for."""
    certification = Certification.of_halfspace(
        halfspace,
        whitening,
        error=error,
        degree=certificate_degree(config.certificate_degree or "auto", source.dim),
        memory_limit=config.memory_limit,
    )
    share = certificate_share(
        config.certificate_rows, n_rows=source.n_rows, dim=source.dim, error=error
    )
    return replace(certification, share=share, seed=config.seed)


def _demand_ratio(result: FitResult, max_ratio: float | None) -> FitResult:
    if max_ratio is None or result.verdict is not Verdict.ACCEPTED:
        return result
    if result.ratio is not None and result.ratio <= max_ratio:
        return result
    reached = "no bound above 0" if result.ratio is None else f"ratio {result.ratio:.4g}"
    advice = result.certificate.advice if result.certificate else ""
    said = f"max_ratio {max_ratio:g} was demanded, the certificate has {reached}; {advice}"
    return replace(
        result,
        verdict=Verdict.INCONCLUSIVE,
        rows_needed=None,
        notices=(*result.notices, said),
    )


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
    run: Run,
    source: Source,
    plan: RunPlan,
    config: RunConfig,
    state: LocalizationState,
    held_out: HeldOutRecord | None,
) -> FitResult:
    """Verdict, halfspace, error and candidates from the final state."""
    # noise that stopped the updates at delta hides angles up to delta: error delta / 2 at most
    eps, outcome = max(plan.eps, state.noisy_delta / 2), overall_outcome(state.judgements)
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
        held_out=held_out,
        whitening=source.schema.whitening.record if source.schema.whitening else None,
        measurements=_measurements(plan, state, chosen),
    )


def _held_out(share: Share) -> HeldOutRecord:
    """The share's rows, neighbouring blocks joined."""
    joined: list[tuple[int, int]] = []
    for rows in share.blocks:
        if joined and joined[-1][1] == rows.start:
            joined[-1] = (joined[-1][0], rows.stop)
        else:
            joined.append((rows.start, rows.stop))
    return HeldOutRecord(tuple(joined), share.low, share.high)


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


def _measurements(
    plan: RunPlan, state: LocalizationState, chosen: int | None
) -> DiagnosticsRecord | None:
    if state.moments is None or chosen is None:
        return None
    final, moments = state.final, state.moments
    pairs = moments.pair_moments() if plan.dim <= WIDE_DIM else np.zeros((0, 0))
    return DiagnosticsRecord(
        feature_moments=tuple(tuple(row) for row in moments.feature_moments().tolist()),
        pair_moments=tuple(tuple(row) for row in pairs.tolist()),
        slab_width=plan.eps,
        slab_counts=tuple(final.slab_counts[chosen].tolist()) if final else (),
        eigen_edges=tuple(final.edges.tolist()) if final else (),
        eigenvalues=tuple(final.eigenvalues[chosen].tolist()) if final else (),
    )


def angle_between(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Angle of two unit vectors, accurate also where it is small."""
    return float(
        2 * math.atan2(float(np.linalg.norm(left - right)), float(np.linalg.norm(left + right)))
    )
