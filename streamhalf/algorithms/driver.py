"""What a command does between opening its data and returning its result.

A fit is: position, Algorithm 3 pass by pass, certificate, verdict.
"""

from __future__ import annotations

from dataclasses import replace

from streamhalf import records
from streamhalf.algorithms.answer import assemble, halfspace_of, held_out_error
from streamhalf.algorithms.decide import decide
from streamhalf.algorithms.few_rows import answer_few_rows
from streamhalf.algorithms.localization import Localization
from streamhalf.algorithms.localization_state import LocalizationState, turn
from streamhalf.algorithms.position import estimate_position
from streamhalf.claims.certification import Certification, require_room
from streamhalf.claims.held_out import cluster_notice, measure_error
from streamhalf.claims.notices import claim_notices
from streamhalf.config import RunConfig
from streamhalf.data.positions import RowMap
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.events import SlabsMeasured, TesterJudged
from streamhalf.planning import budget
from streamhalf.planning.deal import deal_for, pilot
from streamhalf.planning.plan import plan_for_rows
from streamhalf.planning.strict import refuse_strict
from streamhalf.records import (
    CertificateRecord,
    CertifyResult,
    FitResult,
    Halfspace,
    MomentTestResult,
    Notice,
    OneClass,
    Outcome,
    Verdict,
    Versions,
)
from streamhalf.reductions.halfspace_errors import HalfspaceErrors
from streamhalf.reductions.label_counts import LabelCounts
from streamhalf.reductions.mapped import Mapped
from streamhalf.testers import TESTERS, Tester
from streamhalf.testers.moments import MomentTester

_PILOT_ROWS = 65_536

_DOUBTFUL = 0.4
"""Error from which labels may all be the same: a halfspace through the centre errs on half then."""

_NOTICEABLE = 0.15
"""Angle between two candidates, in units of the error, from which both are certified from: they
disagree on a twentieth of the error."""


_MUCH_ERROR = 0.02
"""Below this error the bound is close to it whatever the direction."""


def fit(
    run: Run,
    source: Source,
    config: RunConfig,
    *,
    unverified: bool = False,
    testers: tuple[type[Tester], ...] = TESTERS,
    row_map: RowMap | None = None,
) -> FitResult:
    """Learn a halfspace, and test on the way whether it can be trusted.

    Parameters
    ----------
    run, source, config
        Where, on what and how.
    unverified
        Where the rows are too few, let every pass use all of them, and where they are too few
        even for that, learn without any test.
    testers
        What the rows are asked.
    row_map
        The position to work in, instead of the configured one.
    """
    if config.mode == "strict":
        raise refuse_strict(0.01 if config.eps == "auto" else float(config.eps), source.dim)
    plan = plan_for_rows(source.n_rows, source.dim, config, testers)
    if unverified and plan.required_rows > source.n_rows:
        config = replace(config, rows="reuse")
        plan = plan_for_rows(source.n_rows, source.dim, config, testers)
    if plan.required_rows > source.n_rows:
        return answer_few_rows(run, source, plan, config, unverified=unverified)
    if config.certificate_degree != 0:
        require_room(source.dim, config.memory_limit)
    row_map = row_map or estimate_position(run, source, config)
    algorithm = Localization(plan, config, deal_for(source, plan, config), testers)
    state = localize(run, source, row_map, algorithm)
    return assemble(
        run,
        source,
        plan,
        config,
        state=state,
        row_map=row_map,
        certificate=_certify_state(run, source, config, row_map, state),
        notices=_one_class(run, source, config, state),
    )


def localize(
    run: Run, source: Source, row_map: RowMap, algorithm: Localization
) -> LocalizationState:
    """Run the passes of Algorithm 3, on rows in the position of the map."""
    state = algorithm.start()
    while (step := algorithm.next_step(state)) is not None:
        result = run.reduce(
            step.name,
            source,
            Mapped(step.reduction, row_map),
            blocks=step.share.blocks,
            detail=step.detail,
        )
        known = len(state.judgements)
        state = step.conclude(result)
        for judgement in state.judgements[known:]:
            run.observer(TesterJudged(judgement))
        if state.final is not None and state.chosen is not None:
            counts = tuple(state.final.slab_counts[state.chosen].tolist())
            run.observer(SlabsMeasured(algorithm.plan.slab_eps, counts))
    return state


def _certify_state(
    run: Run, source: Source, config: RunConfig, row_map: RowMap, state: LocalizationState
) -> CertificateRecord | None:
    """The certificate of the chosen halfspace, unless the features were rejected.

    Where noise next to the boundary makes an early candidate the best one, the last is nearer to
    the halfspace behind the noise, and slabs along it give the better bound. Where noise pulled
    the first candidate away, halfspaces on that side are what hides best, and slabs along a plane
    that is turned a little towards it tell more about them.
    """
    halfspace, error = halfspace_of(state, row_map), held_out_error(state, row_map, config.tau)
    rejected = state.outcome is Outcome.REJECTED
    if halfspace is None or error is None or rejected or not config.certificate_degree:
        return None
    certification = Certification.of(source, config, halfspace, row_map, error.empirical)
    chosen, last = state.candidates[state.chosen or 0].plane, state.candidates[-1].plane
    first, share = state.candidates[0].plane, error.empirical
    if share > _MUCH_ERROR and chosen.angle_to(first) > 2 * share:
        certification = replace(certification, planes=(turn(chosen, first, share),))
    if chosen.angle_to(last) > _NOTICEABLE * share:
        certification = certification.looking_from(last)
    return certification.run(run, source, tau=budget.BOUND * config.tau)[0]


def _one_class(
    run: Run, source: Source, config: RunConfig, state: LocalizationState
) -> tuple[Notice, ...]:
    """Whether all labels are the same; they are counted only where the error raises doubts."""
    final, chosen = state.final, state.chosen
    if final is None or chosen is None or final.errors[chosen] < _DOUBTFUL * final.n_rows:
        return ()
    some = pilot(source.n_rows, _PILOT_ROWS, seed=config.seed)
    found = run.reduce("some labels", source, LabelCounts(), blocks=some)
    if min(found.positive, found.negative) == 0:
        found = run.reduce("labels", source, LabelCounts())
    if min(found.positive, found.negative) > 0:
        return ()
    return (OneClass(1 if found.positive else -1),)


def test(run: Run, source: Source, config: RunConfig) -> MomentTestResult:
    """Judge the moments of all rows."""
    row_map = estimate_position(run, source, config)
    tester = MomentTester.configured(config, source.dim, tau=config.tau)
    result = run.reduce("moments", source, Mapped(tester.needs(), row_map))
    judgements = tester.judge(result, n_seen=source.n_rows)
    for judgement in judgements:
        run.observer(TesterJudged(judgement))
    return MomentTestResult(
        verdict=decide(judgements, promise=Verdict.PASSED),
        tau=config.tau,
        seed=config.seed,
        position=row_map.record,
        testers=judgements,
        passes=tuple(run.passes),
        data=source.record,
        versions=Versions.current(),
        notices=source.notices,
    )


def certify(run: Run, source: Source, config: RunConfig, halfspace: Halfspace) -> CertifyResult:
    """The certified interval of a classifier that somebody brings."""
    require_room(source.dim, config.memory_limit)
    row_map = estimate_position(run, source, config)
    errors = HalfspaceErrors(halfspace.plane, total_rows=source.n_rows)
    some = pilot(source.n_rows, _PILOT_ROWS, seed=config.seed)
    found = run.reduce("pilot", source, errors, blocks=some)
    certification = Certification.of(
        source, config, halfspace, row_map, found.n_errors / found.n_rows
    )
    tau = budget.CERTIFIED * config.tau
    certificate, counted = certification.run(run, source, tau=tau, beside=errors)
    error = measure_error(counted.segment_errors, counted.segment_rows, tau=tau)
    error = records.replace(error, through=certificate.through, tau=tau)
    clusters = cluster_notice(error, counted.segment_errors, counted.segment_rows)
    return CertifyResult(
        halfspace=halfspace,
        error=error,
        opt=certificate.opt,
        ratio=certificate.ratio,
        tau=config.tau,
        position=row_map.record,
        certificate=certificate,
        passes=tuple(run.passes),
        data=source.record,
        versions=Versions.current(),
        notices=(
            *source.notices,
            *claim_notices(None, certificate),
            *filter(None, [clusters]),
        ),
    )
