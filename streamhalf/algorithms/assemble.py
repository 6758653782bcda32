"""The answer of a fit, put together from what its passes found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from streamhalf import results
from streamhalf.algorithms.baselines import Baseline
from streamhalf.algorithms.decide import decide
from streamhalf.algorithms.localized_update import Candidate
from streamhalf.algorithms.plan import ERROR_TAU, RunPlan
from streamhalf.algorithms.promises import GOOD_CONSTANT, best_promise, promises, rows_for_good_constant
from streamhalf.algorithms.state import LocalizationState
from streamhalf.certificate.error_bound import claim_notices, cluster_notice, measure_error
from streamhalf.config import RunConfig
from streamhalf.data.source import Source
from streamhalf.data.transforms import RowTransform
from streamhalf.engine.run import Run
from streamhalf.testers.exchangeability import ExchangeabilityTester, order_notice
from streamhalf.testers.leading import leading_test
from streamhalf.testers.moments import WIDE_DIM

_RARE = 0.01  # Share of the rows below which a label is worth a word


@dataclass(frozen=True, slots=True)
class Seen:
    """Rows that were seen once, in the place of a source and of its run."""

    dim: int
    n_rows: int
    record: results.DataRecord
    notices: tuple[results.Notice, ...] = ()
    passes: tuple[results.PassRecord, ...] = ()
    provenance: results.RunRecord | None = None


# Certificate of the chosen halfspace; of held-out rows its calibration, and a reference for new ones
Closing: TypeAlias = tuple[
    results.CertificateRecord | None, results.CalibrationRecord | None, results.WatchReference | None
]


def assemble(
    run: Run | Seen,
    source: Source | Seen,
    config: RunConfig,
    *,
    state: LocalizationState,
    row_transform: RowTransform,
    baselines: tuple[Baseline, ...] = (),
    trials: tuple[results.TransformTrial, ...] = (),
    closing: Closing,
    notices: tuple[results.Notice, ...],
    error: results.ErrorRecord | None = None,
    stream: results.StreamRecord | None = None,
) -> results.FitResult:
    """Verdict, halfspace, error (on held-out rows, unless it is given) and candidates from the final state."""
    plan, stop = state.plan, state.stop or results.Stop(results.StopReason.TESTER_REJECTED)
    certificate, calibration, reference = closing
    error = error or held_out_error(state, row_transform, config)
    useful = error is None or error.beats_guess
    supported = promises(state.steps, state.test_results)
    asked = None if config.eps == "auto" else float(config.eps)
    promise = best_promise(supported, error=error.empirical if error else 0.0, asked=asked)
    settled = promise is not None
    ratio = None if certificate is None else certificate.ratio
    certified = ratio is not None and ratio <= config.max_ratio
    verdict = decide(state.test_results, settled=settled, useful=useful, certified=certified)
    streamed = stream is not None
    quality = None if error is None else results.make_quality(source.n_rows, error, certificate, streamed=streamed)
    claims = claim_notices(error, certificate, streamed=streamed)
    said = [*notices, *_label_notices(error, quality), *claims, *_row_notices(state, error), *source.notices]
    if certificate is None and state.repeated_rows is not None:  # a certificate looks at all rows
        said.append(state.repeated_rows)
    if asked is not None and not settled:
        reached = min((one.eps for one in supported), default=None)
        said.append(
            results.Notice.of(
                results.NoticeCode.EPS_NOT_REACHED, asked=asked, reached=reached, noise=stop.reason.is_noise
            )
        )
    # where labels are alike, or noise stopped it at a scale that was tested, rows do not help
    alike = any(one.code is results.NoticeCode.ONE_CLASS for one in notices)
    helpless = alike or (stop.reason.is_noise and bool(supported))
    lacks_rows = decide(state.test_results, settled=settled) is results.Verdict.INCONCLUSIVE and not helpless
    rows_needed = _rows_needed(plan, state) if lacks_rows else None
    constant = None if promise is None else promise.constant
    for_five = None
    if promise is not None and constant is not None and constant > GOOD_CONSTANT:
        for_five = rows_for_good_constant(plan, config, promise.eps)
    found = results.FitResult(
        verdict=verdict,
        quality=quality,
        promise=results.make_promise(
            verdict,
            quality,
            certificate,
            supported=promise,
            max_ratio=config.max_ratio,
            useful=useful,
            noisy=helpless,
            rows_needed=rows_needed,
            leading=leading_test(state.test_results),
        ),
        halfspace=halfspace_of(state),
        error=error,
        # without a promise the finest that was tested, or what would have been
        eps=promise.eps if promise else min((one.eps for one in supported), default=plan.eps),
        tau=config.tau,
        seed=config.seed,
        seed_drawn=config.seed_drawn,
        opt=None if certificate is None else certificate.opt,
        ratio=ratio,
        constant=constant,
        promises=supported,
        rows_for_five=for_five,
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
        versions=results.Versions.current(),
        notices=tuple(said),
        certificate=certificate,
        calibration=calibration,
        reference=reference,
        held_out=None if state.held_out is None else state.held_out.record,
        measurements=_measurements(plan, state),
        run=run.provenance,
        stream=stream,
    )
    return results.seal(found)


def supports_promise(state: LocalizationState, config: RunConfig) -> bool:
    """Return whether the tests support a promise as fine as was asked for."""
    asked = None if config.eps == "auto" else float(config.eps)
    return best_promise(promises(state.steps), error=0.0, asked=asked) is not None


def halfspace_of(state: LocalizationState) -> results.Halfspace | None:
    return None if state.chosen is None else results.Halfspace.of(state.planes[state.chosen])


def held_out_error(
    state: LocalizationState, row_transform: RowTransform, config: RunConfig, *, share: float = 1.0
) -> results.ErrorRecord | None:
    """Return the chosen halfspace's error on held-out rows; its bound spends a share of the tau of errors."""
    found, chosen = state.errors, state.chosen
    if found is None or chosen is None:
        return None
    tau = config.tau * ERROR_TAU / state.n_transforms
    # the rows that chose among the candidates also measure the chosen one: a union bound
    error = measure_error(found.segment_errors[chosen], found.segment_rows, tau=tau / len(state.planes) * share)
    through = row_transform.record.class_of(results.Halfspace.of(state.planes[chosen]))
    return results.replace(error, through=through, tau=tau, by_label=found.by_label(chosen))


def _label_notices(error: results.ErrorRecord | None, quality: results.Quality | None) -> Iterator[results.Notice]:
    """That one label is rare, or that guessing it never does as well."""
    if error is None or quality is None:
        return
    if 0 < quality.guess < _RARE:
        yield results.Notice.of(results.NoticeCode.NEARLY_ONE_CLASS, label=-quality.guess_label, share=quality.guess)
    if not error.beats_guess:
        yield results.Notice.of(results.NoticeCode.NO_BETTER_THAN_GUESS, label=quality.guess_label, error=quality.guess)


def _row_notices(state: LocalizationState, error: results.ErrorRecord | None) -> Iterator[results.Notice]:
    """Notices about the order of rows, from the held-out ones."""
    for test_result in state.test_results:
        if test_result.tester == ExchangeabilityTester.name and test_result.stage is results.Stage.FINAL:
            yield from filter(None, [order_notice(test_result)])
    if error is not None and state.errors is not None and state.chosen is not None:
        errors, rows = state.errors.segment_errors[state.chosen], state.errors.segment_rows
        yield from filter(None, [cluster_notice(error, errors, rows)])


def _rows_needed(plan: RunPlan, state: LocalizationState) -> int:
    """Scale the whole plan by what the hungriest tester, or the updates not made, lack."""
    if plan.needed_rows:
        return plan.needed_rows
    factors = [
        test_result.rows_needed / max(1, test_result.n_rows)
        for test_result in state.test_results
        if test_result.rows_needed is not None and test_result.role in (results.Role.REQUIRED, results.Role.REFINEMENT)
    ]
    reached = min((step.delta for step in state.steps), default=1.0)
    missing = sum(plan.accepted_rows / plan.rate(delta) for delta in plan.deltas if delta < reached)
    factors.append(1 + missing / max(1, plan.update_rows))
    return math.ceil(max(factors) * max(plan.required_rows, plan.n_rows))


def _candidates(
    state: LocalizationState, baselines: tuple[Baseline, ...], row_transform: RowTransform
) -> tuple[results.CandidateRecord, ...]:
    """The path, then the baselines; angles are those of the transform."""
    if state.chosen is None or state.errors is None:
        return ()
    planes = [row_transform.to_transformed(plane).unit() for plane in state.planes]
    errors = (state.errors.errors / max(1, state.errors.n_rows)).tolist()
    betas = itertools.chain(state.final.betas if state.final else (), itertools.repeat(None))
    path = zip(state.candidates, itertools.repeat(results.Method.PATH), betas)
    pool = ((Candidate(one.plane, 1.0, 0.0, 0.0, 0, 0), one.method, None) for one in baselines)
    return tuple(
        results.CandidateRecord(
            delta=one.delta,
            step=one.step,
            overlap=one.overlap,
            rows_seen=one.n_seen,
            rows_accepted=one.n_accepted,
            angle=plane.angle_to(planes[state.chosen]),
            error=error,
            beta=beta,
            method=method,
            threshold=plane.threshold,
            rate=one.rate if method is results.Method.PATH else None,
        )
        for plane, error, (one, method, beta) in zip(planes, errors, (*path, *pool), strict=True)
    )


def _measurements(plan: RunPlan, state: LocalizationState) -> results.DiagnosticsRecord | None:
    if state.moments is None or state.chosen is None:
        return None
    final, moments = state.final, state.moments
    # only the errors of baselines are measured: the last candidate shows the rows
    chosen = min(state.chosen, len(state.candidates) - 1)
    pairs = moments.pair_moment.tolist() if plan.dim <= WIDE_DIM else []
    return results.DiagnosticsRecord(
        feature_moments=tuple(tuple(row) for row in moments.feature_moment.tolist()),
        pair_moments=tuple(tuple(row) for row in pairs),
        slab_width=plan.slab_eps,
        slab_counts=tuple(final.slab_counts[chosen].tolist()) if final else (),
        eigen_edges=tuple(final.edges.tolist()) if final else (),
        eigenvalues=tuple(final.eigenvalues[chosen].tolist()) if final else (),
        threshold=state.candidates[chosen].plane.threshold,
    )
