"""The answer of a fit, put together from what its passes found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

from streamhalf import results
from streamhalf.algorithms.baselines import Baseline
from streamhalf.algorithms.decide import decide
from streamhalf.algorithms.plan import ERROR_TAU, RunPlan
from streamhalf.algorithms.promises import GOOD_CONSTANT, best_promise, promises, rows_for_good_constant
from streamhalf.algorithms.state import LocalizationState
from streamhalf.certificate.error_bound import claim_notices, cluster_notice, measure_error
from streamhalf.config import RunConfig
from streamhalf.data.transforms import RowTransform
from streamhalf.results import (
    CalibrationRecord,
    CandidateRecord,
    CertificateRecord,
    DataRecord,
    DiagnosticsRecord,
    ErrorRecord,
    FitResult,
    Halfspace,
    LabelErrors,
    Notice,
    NoticeCode,
    PassRecord,
    PromiseRecord,
    Quality,
    Role,
    RunRecord,
    Stage,
    Stop,
    StopReason,
    StreamRecord,
    TransformTrial,
    Verdict,
    Versions,
    WatchReference,
    make_promise,
    make_quality,
    seal,
)
from streamhalf.testers.exchangeability import ExchangeabilityTester, order_notice
from streamhalf.testers.leading import leading_test
from streamhalf.testers.moments import WIDE_DIM

_RARE = 0.01
"""Share of the rows below which a label is worth a word."""


class Made(Protocol):
    """How a result was made."""

    @property
    def passes(self) -> Sequence[PassRecord]:
        """Passes over the rows."""
        ...

    @property
    def provenance(self) -> RunRecord | None:
        """When and where."""
        ...


class Rows(Protocol):
    """The rows that a result speaks of."""

    @property
    def n_rows(self) -> int:
        """How many."""
        ...

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What was noticed."""
        ...

    @property
    def record(self) -> DataRecord:
        """Which data."""
        ...


def assemble(
    run: Made,
    source: Rows,
    config: RunConfig,
    *,
    state: LocalizationState,
    row_transform: RowTransform,
    baselines: tuple[Baseline, ...] = (),
    trials: tuple[TransformTrial, ...] = (),
    certificate: CertificateRecord | None,
    calibration: CalibrationRecord | None = None,
    reference: WatchReference | None = None,
    notices: tuple[Notice, ...],
    error: ErrorRecord | None = None,
    stream: StreamRecord | None = None,
) -> FitResult:
    """Verdict, halfspace, error (on held-out rows, unless it is given) and candidates from the final state."""
    plan = state.plan
    error = error or held_out_error(state, row_transform, config)
    supported = promises(state.steps, state.test_results)
    asked = None if config.eps == "auto" else float(config.eps)
    promise = best_promise(supported, error=error.empirical if error else 0.0, asked=asked)
    ratio = None if certificate is None else certificate.ratio
    verdict = decide(
        state.test_results,
        settled=promise is not None,
        useful=error is None or error.beats_guess,
        certified=ratio is not None and ratio <= config.max_ratio,
    )
    stop = state.stop or Stop(StopReason.TESTER_REJECTED)
    streamed = stream is not None
    quality = None if error is None else make_quality(source.n_rows, error, certificate, streamed=streamed)
    claims = claim_notices(error, certificate, streamed=streamed)
    said = [*_label_notices(error, quality), *claims, *_row_notices(state, error)]
    said += source.notices
    if certificate is None and state.repeated_rows is not None:  # a certificate looks at all rows
        said.append(state.repeated_rows)
    if promise is None and asked is not None:
        reached = min((one.eps for one in supported), default=None)
        noise = stop.reason.is_noise
        said.append(Notice.of(NoticeCode.EPS_NOT_REACHED, asked=asked, reached=reached, noise=noise))
    # where labels are alike, or noise stopped it at a scale that was tested, rows do not help
    alike = any(one.code is NoticeCode.ONE_CLASS for one in notices)
    helpless = alike or (stop.reason.is_noise and bool(supported))
    tested = decide(state.test_results, settled=promise is not None)
    lacks_rows = tested is Verdict.INCONCLUSIVE and not helpless
    rows_needed = _rows_needed(plan, state) if lacks_rows else None
    found = FitResult(
        verdict=verdict,
        quality=quality,
        promise=make_promise(
            verdict,
            quality,
            certificate,
            supported=promise,
            max_ratio=config.max_ratio,
            useful=error is None or error.beats_guess,
            noisy=helpless,
            rows_needed=rows_needed,
            leading=leading_test(state.test_results),
        ),
        halfspace=halfspace_of(state),
        error=error,
        eps=_tested_eps(plan, supported, promise),
        tau=config.tau,
        seed=config.seed,
        seed_drawn=config.seed_drawn,
        opt=None if certificate is None else certificate.opt,
        ratio=ratio,
        constant=None if promise is None else promise.constant,
        promises=supported,
        rows_for_five=_rows_for_five(plan, config, promise),
        rows_needed=rows_needed,
        split=state.sampling,
        transform=row_transform.record,
        transforms=trials,
        stop=stop,
        candidates=_candidates(state, baselines, row_transform),
        chosen=state.chosen,
        testers=state.test_results,
        passes=tuple(run.passes),
        data=source.record,
        versions=Versions.current(),
        notices=(*notices, *said),
        certificate=certificate,
        calibration=calibration,
        reference=reference,
        held_out=None if state.held_out is None else state.held_out.record,
        measurements=_measurements(plan, state),
        run=run.provenance,
        stream=stream,
    )
    return seal(found)


def supports_promise(state: LocalizationState, config: RunConfig) -> bool:
    """Return whether the tests support a promise as fine as was asked for."""
    asked = None if config.eps == "auto" else float(config.eps)
    return best_promise(promises(state.steps), error=0.0, asked=asked) is not None


def halfspace_of(state: LocalizationState) -> Halfspace | None:
    """The chosen one."""
    return None if state.chosen is None else Halfspace.of(state.planes[state.chosen])


def held_out_error(state: LocalizationState, row_transform: RowTransform, config: RunConfig) -> ErrorRecord | None:
    """Return the chosen halfspace's error on held-out rows."""
    found, chosen = state.errors, state.chosen
    if found is None or chosen is None:
        return None
    tau = config.tau * ERROR_TAU / state.n_transforms
    error = measure_error(
        found.segment_errors[chosen],
        found.segment_rows,
        # the rows that chose among the candidates also measure the chosen one: a union bound
        tau=tau / len(state.planes),
    )
    by_label = LabelErrors.of(
        found.n_rows, int(found.errors[chosen]), found.positives, int(found.positive_errors[chosen])
    )
    through = row_transform.record.class_of(Halfspace.of(state.planes[chosen]))
    return results.replace(error, through=through, tau=tau, by_label=by_label)


def _label_notices(error: ErrorRecord | None, quality: Quality | None) -> Iterator[Notice]:
    """That one label is rare, or that guessing it never does as well."""
    if error is None or quality is None:
        return
    if 0 < quality.guess < _RARE:
        yield Notice.of(NoticeCode.NEARLY_ONE_CLASS, label=-quality.guess_label, share=quality.guess)
    if not error.beats_guess:
        yield Notice.of(NoticeCode.NO_BETTER_THAN_GUESS, label=quality.guess_label, error=quality.guess)


def _row_notices(state: LocalizationState, error: ErrorRecord | None) -> Iterator[Notice]:
    """Notices about the order of rows, from the held-out ones."""
    for test_result in state.test_results:
        if test_result.tester == ExchangeabilityTester.name and test_result.stage is Stage.FINAL:
            yield from filter(None, [order_notice(test_result)])
    if error is not None and state.errors is not None and state.chosen is not None:
        errors, rows = state.errors.segment_errors[state.chosen], state.errors.segment_rows
        yield from filter(None, [cluster_notice(error, errors, rows)])


def _tested_eps(plan: RunPlan, supported: tuple[PromiseRecord, ...], promise: PromiseRecord | None) -> float:
    """Of the promise; without one the finest that was tested, or what would have been."""
    if promise is not None:
        return promise.eps
    return min((one.eps for one in supported), default=plan.eps)


def _rows_for_five(plan: RunPlan, config: RunConfig, promise: PromiseRecord | None) -> int | None:
    """About how many rows would support a good constant, where it is not good."""
    if promise is None or promise.constant is None or promise.constant <= GOOD_CONSTANT:
        return None
    return rows_for_good_constant(plan, config, promise.eps)


def _rows_needed(plan: RunPlan, state: LocalizationState) -> int:
    """Scale the whole plan by what the hungriest tester, or the updates not made, lack."""
    if plan.needed_rows:
        return plan.needed_rows
    factors = [
        test_result.rows_needed / max(1, test_result.n_rows)
        for test_result in state.test_results
        if test_result.rows_needed is not None and test_result.role in (Role.REQUIRED, Role.REFINEMENT)
    ]
    reached = min((step.delta for step in state.steps), default=1.0)
    missing = sum(plan.accepted_rows / plan.rate(delta) for delta in plan.deltas if delta < reached)
    factors.append(1 + missing / max(1, plan.update_rows))
    return math.ceil(max(factors) * max(plan.required_rows, plan.n_rows))


def _candidates(
    state: LocalizationState, baselines: tuple[Baseline, ...], row_transform: RowTransform
) -> tuple[CandidateRecord, ...]:
    """The path, then the baselines; angles are those of the transform."""
    if state.chosen is None or state.errors is None:
        return ()
    planes = [row_transform.to_transformed(plane).unit() for plane in state.planes]
    angles = [plane.angle_to(planes[state.chosen]) for plane in planes]
    errors = (state.errors.errors / max(1, state.errors.n_rows)).tolist()
    measured = list(zip(planes, angles, errors, strict=True))
    betas = state.final.betas if state.final else ()
    path = (
        CandidateRecord(
            delta=candidate.delta,
            step=candidate.step,
            overlap=candidate.overlap,
            rows_seen=candidate.n_seen,
            rows_accepted=candidate.n_accepted,
            angle=angle,
            error=error,
            beta=beta,
            threshold=plane.threshold,
            rate=candidate.rate,
        )
        for candidate, beta, (plane, angle, error) in zip(state.candidates, betas, measured, strict=False)
    )
    others = (
        CandidateRecord(
            delta=1.0,
            step=0.0,
            overlap=0.0,
            rows_seen=0,
            rows_accepted=0,
            angle=angle,
            error=error,
            beta=None,
            method=one.method,
            threshold=plane.threshold,
        )
        for one, (plane, angle, error) in zip(baselines, measured[len(state.candidates) :], strict=True)
    )
    return (*path, *others)


def _measurements(plan: RunPlan, state: LocalizationState) -> DiagnosticsRecord | None:
    if state.moments is None or state.chosen is None:
        return None
    final, moments = state.final, state.moments
    # only the errors of baselines are measured: the last candidate shows the rows
    chosen = min(state.chosen, len(state.candidates) - 1)
    pairs = moments.pair_moment.tolist() if plan.dim <= WIDE_DIM else []
    return DiagnosticsRecord(
        feature_moments=tuple(tuple(row) for row in moments.feature_moment.tolist()),
        pair_moments=tuple(tuple(row) for row in pairs),
        slab_width=plan.slab_eps,
        slab_counts=tuple(final.slab_counts[chosen].tolist()) if final else (),
        eigen_edges=tuple(final.edges.tolist()) if final else (),
        eigenvalues=tuple(final.eigenvalues[chosen].tolist()) if final else (),
        threshold=state.candidates[chosen].plane.threshold,
    )
