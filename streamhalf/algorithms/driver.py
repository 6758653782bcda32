"""The commands fit, test and certify, between open data and result.

A fit is: transform, Algorithm 3 pass by pass, certificate, verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from streamhalf import results
from streamhalf.algorithms.assemble import assemble, supports_promise
from streamhalf.algorithms.baselines import Baseline, learn_baselines_on_sample, regress
from streamhalf.algorithms.decide import decide
from streamhalf.algorithms.kept import CertificatePlan, KeptState, Path
from streamhalf.algorithms.localization import Localization
from streamhalf.algorithms.plan import CERTIFIED_TAU, RunPlan, lacks_rows, plan_for_rows
from streamhalf.algorithms.row_split import draw_sample, pilot, row_split_for
from streamhalf.algorithms.state import LocalizationState, unmeasured
from streamhalf.algorithms.transform import (
    choose_transforms,
    estimate_transform,
    in_transform,
    is_open,
    transform_notices,
)
from streamhalf.certificate.certification import Certification, least_nbytes, require_room, within_room
from streamhalf.certificate.certify import best_certificate, certify_state, towards
from streamhalf.certificate.error_bound import claim_notices, cluster_notice, measure_error
from streamhalf.config import RunConfig
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.source import Source
from streamhalf.data.transforms import Identity, RowTransform, make_transform
from streamhalf.engine.run import Run
from streamhalf.errors import DataError, TransformError
from streamhalf.events import SlabsMeasured, TesterJudged
from streamhalf.kernels.binomial import look_tau
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.errors import PlaneErrors
from streamhalf.reductions.labels import Chow, LabelCounts
from streamhalf.reductions.row_view import Bundle, in_space
from streamhalf.reductions.rows import RowDigest
from streamhalf.testers import TESTERS, Tester
from streamhalf.testers.moments import WIDE_DIM, MomentTester, sketch_directions

_PILOT_ROWS = 65_536
_SKETCH = 1 << 22  # Number of the sketch that `test` draws


def fit(
    run: Run,
    source: Source,
    config: RunConfig,
    *,
    testers: tuple[type[Tester], ...] = TESTERS,
    row_transform: RowTransform | None = None,
    keep: Callable[[KeptState], None] | None = None,
) -> results.FitResult:
    """Learn a halfspace, and test on the way whether it can be trusted.

    `row_transform` replaces the configured transform. `keep` is called with what further rows can be added to; such a
    run is the first of many looks, and spends its part of tau.
    """
    tau = config.tau
    config = config if keep is None else replace(config, tau=look_tau(tau, 1))
    plan = plan_for_rows(source.n_rows, source.dim, config, testers)
    asked, config = config, within_room(config, source.dim)
    best, trials, baselines = _learn(run, source, plan, config, testers, row_transform, kept=keep is not None)
    state, laid = best.state, best.row_transform
    finished: list[tuple[Certification | None, Any]] = []
    keep_closing = None if keep is None else lambda *found: finished.append(found)
    closing = certify_state(run, source, config, laid, state, keep_closing)
    said = [*_one_class(run, source, state), *transform_notices(laid.record)]
    if config != asked:
        size = least_nbytes(source.dim)
        said.append(results.Notice.of(results.NoticeCode.NO_ROOM, size=size, room=config.certificate_memory))
    result = assemble(
        run,
        source,
        config,
        state=state,
        row_transform=laid,
        baselines=baselines,
        trials=trials,
        closing=closing,
        notices=tuple(said),
    )
    if keep is None or not finished or state.chosen is None or state.held_out is None:
        return result
    look = results.LookRecord(0, source.n_rows, config.seed, state.held_out.low, state.held_out.high, config.tau)
    result = results.seal(results.replace(result, looks=(look,)))
    certification, partial = finished[0]
    path = Path(
        settings=config.recorded(),
        state=unmeasured(state),
        baselines=baselines,
        transform=laid.record,
        trials=trials,
        notices=tuple(said),
        chosen=state.chosen,
        certificate=None if certification is None else CertificatePlan.of(certification),
        first_rows=source.n_rows,
        held_out=plan.held_out,
    )
    keep(KeptState(result=result, path=path, tau=tau, finals=best.partials, closing=partial))
    return result


def update(run: Run, source: Source, kept: KeptState, config: RunConfig, *, check_old: bool = False) -> KeptState:
    """Add the rows after those of a state: read them alone, and conclude anew for all rows."""
    old = RowRange(0, kept.n_rows)
    if check_old:
        digest = run.reduce("old rows", source, RowDigest(kept.path.first_rows), blocks=RowRanges.of((old,)))
        if digest.total != kept.measurement.conclude_digest(kept.closing):
            raise DataError(
                f"{source.name}: the first {old.n_rows:,} rows are not those of the result (their digest differs); "
                "fit all rows again"
            )
    look = kept.next_look(source.n_rows, config.seed)
    new = RowRanges.of((RowRange(old.stop, source.n_rows),))
    found: list[Any] = []
    first, *others = look.batches()
    run.reduce("new rows", source, Bundle((first, look.closing())), blocks=new, keep=found.append)
    partials, closing = [found[0][0]], found[0][1]
    for number, batch in enumerate(others):
        run.reduce(f"new rows-{number + 2}", source, batch, blocks=new, keep=partials.append)
    finals, closing = kept.merged(partials, closing, look)
    state, path, result = look.conclude(finals), kept.path, kept.result
    answer = assemble(
        run,
        source,
        replace(look.config, seed=result.seed, seed_drawn=result.seed_drawn),
        state=state,
        row_transform=make_transform(path.transform),
        baselines=path.baselines,
        trials=path.trials,
        closing=look.conclude_closing(closing, run.observer),
        notices=(*_one_class(run, source, state), *path.notices),
    )
    record = results.LookRecord(old.stop, source.n_rows, look.seed, 0.0, look.final().part, look.tau)
    answer = results.seal(results.replace(answer, looks=(*kept.looks, record)))
    return KeptState(result=answer, path=path, tau=kept.tau, finals=finals, closing=closing)


def _transform_of(
    run: Run, source: Source, config: RunConfig, kind: results.Transform, *, held_out: float = 0.0
) -> RowTransform:
    """The transform of a kind; where there is none and `auto` chose it, rows stay as stored.

    No direction is left out, however little rows vary along it: bounds speak of all halfspaces.
    """
    try:
        return estimate_transform(run, source, in_transform(config, kind), held_out=held_out)
    except TransformError:
        if config.feature_transform != "auto":
            raise
        return Identity()


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    """A path in one of the transforms, and the partials of its final pass."""

    state: LocalizationState
    partials: tuple[Any, ...]
    row_transform: RowTransform

    def of_trial(self, trial: results.TransformTrial, config: RunConfig) -> results.TransformTrial:
        """The trial, with what the tests of held-out rows said."""
        outcome = self.state.outcome
        if outcome is results.Outcome.PASSED and not supports_promise(self.state, config):
            outcome = results.Outcome.INCONCLUSIVE
        return results.replace(trial, tried=True, outcome=outcome, evidence=results.worst_of(self.state.test_results))

    def may_be_beaten(self, config: RunConfig) -> bool:
        """Return whether another transform may support a promise where this one does not.

        Not where noisy labels or too few rows are the cause: these are the same in all transforms.
        """
        state = self.state
        if state.outcome is results.Outcome.REJECTED:
            return True
        noisy = state.stop is not None and state.stop.reason.is_noise
        return not (supports_promise(state, config) or noisy or state.plan.needed_rows)


def _learn(
    run: Run,
    source: Source,
    plan: RunPlan,
    config: RunConfig,
    testers: tuple[type[Tester], ...],
    row_transform: RowTransform | None,
    *,
    kept: bool,
) -> tuple[_Attempt, tuple[results.TransformTrial, ...], tuple[Baseline, ...]]:
    """The best path of all transforms that a sample leaves open, the trials of these, and baselines of the sample.

    The best is one with a promise; else the first that is not rejected; else the last.
    """
    sample = draw_sample(run, source, plan, config)
    asked = config if row_transform is None else in_transform(config, results.Transform.STORED)
    trials, kinds = choose_transforms(sample, plan, asked)
    kinds = kinds[:1] if config.stop_early else kinds
    more = regress(run, source, sample, plan, config) if lacks_rows(plan, config) else None
    spare = any(is_open(one) for one in trials) and not plan.needed_rows
    baselines = learn_baselines_on_sample(sample, plan, config, spare=spare, regression=more)
    row_split = row_split_for(source, plan, config)
    attempts: list[_Attempt] = []
    for kind in kinds:
        laid = row_transform or _transform_of(run, source, config, kind, held_out=plan.held_out)
        algorithm = Localization(plan, in_transform(config, kind), row_split, testers, laid, baselines)
        last = _Attempt(*localize(run, source, algorithm, kept=kept), laid)
        attempts.append(last)
        trials = tuple(last.of_trial(one, config) if one.kind is kind else one for one in trials)
        if not last.may_be_beaten(config):
            break
    best = last
    if last.state.outcome is results.Outcome.REJECTED or not supports_promise(last.state, config):
        best = next((one for one in attempts if one.state.outcome is not results.Outcome.REJECTED), last)
    if best.state.candidates:  # baselines are the same in all transforms
        best = replace(best, state=replace(best.state, n_transforms=len(kinds)))
    return best, trials, baselines


def localize(
    run: Run, source: Source, algorithm: Localization, *, kept: bool = False
) -> tuple[LocalizationState, tuple[Any, ...]]:
    """Run the passes of Algorithm 3; returns also the partials of the final pass, if they are to be kept."""
    state = algorithm.start()
    partials: list[Any] = []
    while (step := algorithm.next_step(state)) is not None:
        needs = step.subset.restrict(step.statistic(algorithm.row_transform))
        keep = partials.append if kept and step.is_final else None
        result = run.reduce(step.name, source, needs, blocks=step.subset.blocks, detail=step.detail, keep=keep)
        known = len(state.test_results)
        state = step.conclude(result)
        for test_result in state.test_results[known:]:
            run.observer(TesterJudged(test_result))
        if state.final is not None and state.chosen is not None:
            shown = min(state.chosen, len(state.candidates) - 1)
            counts = tuple(state.final.slab_counts[shown].tolist())
            threshold = state.candidates[shown].plane.threshold
            run.observer(SlabsMeasured(state.plan.slab_eps, counts, threshold))
    return state, tuple(partials)


def _one_class(run: Run, source: Source, state: LocalizationState) -> tuple[results.Notice, ...]:
    """A notice if all labels are the same; counted where those of the held-out rows are."""
    errors = state.errors
    if errors is None or 0 < errors.positives < errors.n_rows:
        return ()
    found = run.reduce("labels", source, LabelCounts())
    if min(found.positive, found.negative) > 0:
        return ()
    return (results.Notice.of(results.NoticeCode.ONE_CLASS, label=1 if found.positive else -1),)


def test(run: Run, source: Source, config: RunConfig) -> results.MomentTestResult:
    """Judge the moments of all rows, in the first transform that a sample does not rule out."""
    trials: tuple[results.TransformTrial, ...] = ()
    if config.feature_transform == "auto":
        plan = plan_for_rows(source.n_rows, source.dim, config)
        trials, kinds = choose_transforms(draw_sample(run, source, plan, config), plan, config)
        config = in_transform(config, kinds[0])
    row_transform = estimate_transform(run, source, config)
    tester = moment_tester(source.dim, config)
    result = run.reduce("moments", source, in_space(tester.needs(), row_transform))
    tested = moment_test_result(tester, config, source.record, result)
    for test_result in tested.testers:
        run.observer(TesterJudged(test_result))
    return results.replace(
        tested,
        transform=row_transform.record,
        transforms=trials,
        passes=tuple(run.passes),
        run=run.provenance,
        notices=(*source.notices, *transform_notices(row_transform.record)),
    )


def moment_tester(dim: int, config: RunConfig) -> MomentTester:
    """The tester of the moment test; of wide data, on a sketch."""
    tester = MomentTester.configured(config, dim, tau=config.tau)
    if dim <= WIDE_DIM:
        return tester
    directions = sketch_directions(dim, seed=config.seed, number=_SKETCH)
    return replace(tester, directions=directions)


def moment_test_result(
    tester: MomentTester, config: RunConfig, data: results.DataRecord, result: Any
) -> results.MomentTestResult:
    test_results = tester.judge(result, n_seen=data.rows)
    return results.MomentTestResult(
        verdict=decide(test_results, promise=results.Verdict.PASSED),
        tau=config.tau,
        seed=config.seed,
        seed_drawn=config.seed_drawn,
        transform=Identity().record,
        testers=test_results,
        passes=(),
        data=data,
        versions=results.Versions.current(),
    )


def certify(run: Run, source: Source, config: RunConfig, halfspace: results.Halfspace) -> results.CertifyResult:
    require_room(source.dim, config.certificate_memory)
    kind = (
        results.Transform.ISOTROPIC
        if config.feature_transform == "auto"
        else results.Transform(config.feature_transform)
    )
    row_transform = _transform_of(run, source, config, kind)
    errors = PlaneErrors((halfspace.plane,), source.n_rows)
    some = pilot(source.n_rows, _PILOT_ROWS, seed=config.seed)
    needs = Bundle((errors, in_space(Chow(), row_transform)))
    found, chow = run.reduce("pilot", source, needs, blocks=some)
    certification = Certification.of(source, config, halfspace, row_transform, int(found.errors[0]) / found.n_rows)
    if chow.vector.any():
        certification = towards(certification, Plane(chow.vector).unit(), config)
    tau = CERTIFIED_TAU * config.tau
    certificate, counted = best_certificate(run, source, config, certification, tau=tau, beside=errors)
    error = measure_error(counted.segment_errors[0], counted.segment_rows, tau=tau)
    error = results.replace(error, through=certificate.through, tau=tau, by_label=counted.by_label())
    clusters = cluster_notice(error, counted.segment_errors[0], counted.segment_rows)
    quality = results.make_quality(source.n_rows, error, certificate)
    certified = results.CertifyResult(
        run=run.provenance,
        seed_drawn=config.seed_drawn,
        quality=quality,
        promise=results.make_promise(None, quality, certificate, max_ratio=config.max_ratio),
        halfspace=halfspace,
        error=error,
        opt=certificate.opt,
        ratio=certificate.ratio,
        tau=config.tau,
        transform=row_transform.record,
        certificate=certificate,
        passes=tuple(run.passes),
        data=source.record,
        versions=results.Versions.current(),
        notices=(
            *source.notices,
            *claim_notices(None, certificate),
            *filter(None, [clusters]),
            *transform_notices(row_transform.record),
        ),
    )
    return results.seal(certified)
