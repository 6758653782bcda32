"""Records of `plan` and `dry_run`: passes, rows, bytes, memory and seconds of a run to come."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from streamhalf import results
from streamhalf.algorithms.baselines import regression_passes, regression_rows
from streamhalf.algorithms.plan import (
    REFINING_ROWS,
    REGRESSED_PER_FEATURE,
    SCANNED_ROWS,
    RunPlan,
    lacks_rows,
    plan_about,
    plan_for_eps,
    plan_for_rows,
    sample_room,
)
from streamhalf.algorithms.promises import expected_promises
from streamhalf.algorithms.row_split import row_split_for, sample_windows
from streamhalf.certificate.certification import Certification, held_by_certificate, within_room
from streamhalf.config import RunConfig
from streamhalf.data.block import RowRanges
from streamhalf.data.source import BLOCK_NBYTES, Source
from streamhalf.data.transforms import Identity
from streamhalf.engine import PassPlan
from streamhalf.engine.cluster import ClusterEngine, address_of
from streamhalf.engine.memory import largest_block, partial_limit, process_nbytes, room_of, rows_nbytes
from streamhalf.engine.run import Run
from streamhalf.engine.scheduler import survey_workers
from streamhalf.errors import UsageError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.labels import LabelCounts
from streamhalf.reductions.moments import Moments
from streamhalf.testers import TESTERS
from streamhalf.testers.moments import WIDE_DIM
from streamhalf.testers.slabs import finest_half_count

_MATRICES = 12  # Of a single candidate in the final pass, however little room there is: slabs and wedges
_ETA = 1 / 20000  # Algorithm 4, with all constants 1


def make_plan(
    *,
    dim: int,
    n_rows: int | None,
    row_nbytes: int,
    config: RunConfig,
    positive: float | None = None,
    at_hand: bool = False,
) -> results.PlanRecord:
    """Plan for a number of rows, or for an eps.

    `positive` is the share of the rows with label +1, from which the threshold of Gaussian rows
    follows; None for no threshold. Where rows are too few, the passes are those of as many as it
    takes, or, with rows `at_hand`, those that a run makes of them all the same.
    """
    for name, value in (("dim", dim), ("rows", n_rows)):
        if value is not None and value < 1:
            raise UsageError(f"{name}: {value} given; must be at least 1")
    if n_rows is None and config.eps == "auto":
        raise UsageError("eps: 'auto' needs a number of rows; give rows, or an eps for which to plan")
    threshold = 0.0 if positive is None else _threshold(positive, config)
    if n_rows is None:
        least = plan_for_eps(float(config.eps), dim, config)
        n_rows = _rows_about(_about(least, threshold, config)) if threshold else least.required_rows
    plan = plan_for_rows(n_rows, dim, config)
    needed = plan.required_rows
    conclusive = needed <= n_rows
    if threshold:
        plan = plan_about(plan, threshold, config, TESTERS) if conclusive else plan
        fewest = _about(plan, threshold, config)
        conclusive = conclusive and fewest.final_rows <= plan.final_rows
        conclusive = conclusive and fewest.learning_rows <= plan.n_rows - plan.final_rows
        needed = _rows_about(fewest)
    shown = plan
    if not at_hand and not conclusive and needed > n_rows:  # what so many rows would be dealt
        shown = plan_for_rows(needed, dim, config)
        shown = plan_about(shown, threshold, config, TESTERS) if threshold else shown
    passes = _passes(shown, config, row_nbytes)
    if at_hand and not plan.can_learn:  # updates would have too few rows
        passes = passes[-1:]
    return results.PlanRecord(
        rows=n_rows,
        dim=dim,
        eps=plan.eps,
        tau=plan.tau,
        conclusive=conclusive,
        rows_needed=needed,
        passes=passes,
        nbytes=sum(one.nbytes for one in passes),
        memory_nbytes=rows_nbytes(1, BLOCK_NBYTES) + held_by_learning(plan, config),
        sketched=dim > WIDE_DIM,
        # with a threshold no constant is known
        promises=() if threshold else expected_promises(plan, config),
        positive=positive,
    )


def _about(plan: RunPlan, threshold: float, config: RunConfig) -> RunPlan:
    """The fewest rows for planes at a threshold, at the eps of a plan."""
    return plan_for_eps(plan.eps, plan.dim, config, sampling=plan.sampling, threshold=threshold)


def _rows_about(fewest: RunPlan) -> int:
    """Half of all rows are held out before the threshold is known."""
    return 2 * max(fewest.final_rows, fewest.learning_rows)


def planned_rows(n_rows: int, dim: int, config: RunConfig) -> int:
    """Rows that all passes of a fit read, about: what becomes of a run shows while it runs."""
    plan = plan_for_rows(n_rows, dim, config)
    read = sum(one.nbytes for one in _passes(plan, config, row_nbytes=1))
    certificate = 0 if config.certificate_degree == 0 else n_rows
    regressed = min(n_rows, REGRESSED_PER_FEATURE * dim) if lacks_rows(plan, config) else 0
    return read + certificate + regression_passes(regressed, dim) * regressed


def _threshold(positive: float, config: RunConfig) -> float:
    """The point above which N(0, 1) has this share of its mass."""
    if not 0 < positive < 1:
        raise UsageError(f"positive: {positive} given; must be above 0 and below 1")
    if config.through != results.HalfspaceClass.ANY:
        raise UsageError(
            f"positive: {positive} given, but through is {config.through!r}: halfspaces through "
            "one point have no threshold; leave one of the two out"
        )
    return float(-ndtri(positive))


def _passes(plan: RunPlan, config: RunConfig, row_nbytes: int) -> tuple[results.PassBudget, ...]:
    """Rows that every pass uses, and the bytes that it reads for them."""
    learning = math.ceil(plan.n_rows * (1 - plan.held_out))

    def budget(name: str, rows: int, delta: float | None = None) -> results.PassBudget:
        read = rows / (1 - plan.held_out) if plan.sampling is results.Sampling.WINDOWS else plan.n_rows
        return results.PassBudget(name, rows, math.ceil(read) * row_nbytes, delta)

    def accepted(delta: float) -> int:
        if plan.sampling is results.Sampling.REUSE:
            return plan.reused_rows(plan.rate(delta))
        return math.ceil(plan.accepted_rows / plan.rate(delta))

    found = [budget("initial", plan.initial_rows)]
    found += [budget(f"update at delta {delta:.4g}", accepted(delta), delta) for delta in plan.deltas]
    found.append(budget(results.Stage.REFINE, min(REFINING_ROWS, learning)))
    if config.through == results.HalfspaceClass.ANY:
        found.append(budget(results.Stage.THRESHOLDS, min(SCANNED_ROWS, learning)))
    # it reads all rows, and keeps those that are held out
    return (*found, results.PassBudget("final", plan.final_rows, plan.n_rows * row_nbytes))


def held_by_learning(plan: RunPlan, config: RunConfig, *, learns: bool = True) -> int:
    """Return the most bytes that partials take in a task, the certificate aside.

    Without candidates where nothing is learnt.
    """
    dim, split_every = plan.dim, config.split_every
    moments = 8 * max(count_monomials(min(dim, WIDE_DIM), config.degree), dim**2)
    largest = max(moments, sample_room(config, dim) * (8 * (dim + 2) + 1))
    if learns and plan.can_learn:  # candidates have matrices for slabs and wedges
        matrix, slabs = 4 * dim * (dim + 3), 2 * finest_half_count(plan.slab_eps) + 2
        final = (plan.max_updates + 1) * (moments + (slabs + _MATRICES) * matrix)
        batch = min(final, partial_limit(split_every))
        largest = max(largest, batch, _MATRICES * matrix)
    return (split_every + 2) * largest


def strict_plan(config: RunConfig, dim: int) -> results.StrictPlanRecord:
    """Return the paper's parameters for an eps (0.01 where none is given), constants C = C_A = 1.

    k = log(1/eta)/eta^2, and rows d^(k log k) (Algorithm 1).
    """
    eps = 0.01 if config.eps == "auto" else float(config.eps)
    k = math.ceil(math.log(1 / _ETA) / _ETA**2)
    monomials = math.lgamma(dim + k + 1) - math.lgamma(k + 1) - math.lgamma(dim + 1)
    return results.StrictPlanRecord(
        eps=eps,
        dim=dim,
        eta=_ETA,
        degree=k,
        log10_monomials=monomials / math.log(10),
        log10_rows=k * math.log(k) * math.log10(max(2, dim)),
        updates=math.ceil(math.log2(1 / eps)) + 1,
    )


SAMPLE, REGRESSION, CERTIFICATE = "sample", "regression", "certificate"
_MOMENTS = "moments"
_LIKELY_ERROR = 0.05
_TASK_SECONDS = 0.002  # Overhead of a task on the client and the scheduler, docs/cost.md


def plan_of(source: Source, config: RunConfig, positive: float | None = None) -> results.PlanRecord:
    """The plan of a run on these data: passes with their tasks, the certificate among them."""
    record = make_plan(
        dim=source.dim,
        n_rows=source.n_rows,
        row_nbytes=source.row_nbytes,
        config=config,
        positive=positive,
        at_hand=True,
    )
    plan = plan_for_rows(source.n_rows, source.dim, config)
    row_split = row_split_for(source, plan, config)
    size, windows = sample_windows(source, config)
    read = windows.n_rows * source.row_nbytes
    passes = [results.PassBudget(SAMPLE, size, read, n_tasks=_n_tasks(source, windows))]
    if lacks_rows(plan, config):
        blocks = regression_rows(source, config)
        used = round((1 - plan.held_out) * blocks.n_rows)
        n_passes = regression_passes(used, source.dim)
        read = n_passes * blocks.n_rows * source.row_nbytes
        n_tasks = n_passes * _n_tasks(source, blocks)
        passes.append(results.PassBudget(REGRESSION, used, read, n_tasks=n_tasks))
    whole, cursor = _n_tasks(source, source.blocks), 0
    for one in record.passes:
        blocks = row_split.take(cursor, one.rows).blocks
        all_of_them = one.name in (results.Stage.FINAL, results.Stage.THRESHOLDS) or blocks.n_rows == source.n_rows
        passes.append(results.replace(one, n_tasks=whole if all_of_them else _n_tasks(source, blocks)))
        cursor += one.rows
    if within_room(config, source.dim).certificate_degree != 0:
        certificate = _certification(source, config)
        used = math.ceil(certificate.share * source.n_rows)
        nbytes = source.n_rows * source.row_nbytes
        passes.append(results.PassBudget(CERTIFICATE, used, nbytes, n_tasks=whole))
    return results.replace(
        record,
        passes=tuple(passes),
        nbytes=sum(one.nbytes for one in passes),
        memory_nbytes=largest_block(source) + held_by_fit(source, config),
    )


def held_by_fit(source: Source, config: RunConfig) -> int:
    plan = plan_for_rows(source.n_rows, source.dim, config)
    return max(held_by_learning(plan, config), held_by_certificate(config, source.dim))


def _n_tasks(source: Source, blocks: RowRanges) -> int:
    return len(PassPlan("", source, LabelCounts(), blocks).tasks())


def _certification(source: Source, config: RunConfig) -> Certification:
    """The certificate pass about some plane: what it costs is the same about any."""
    halfspace = results.Halfspace(tuple(np.eye(source.dim)[0].tolist()))
    return Certification.of(source, config, halfspace, Identity(), _LIKELY_ERROR)


def dry_run_of(run: Run, source: Source, config: RunConfig) -> results.DryRunResult:
    """Memory and tasks of a fit where it would run; every worker reads one block."""
    record = plan_of(source, config)
    tried: dict[str, Reduction[Any, Any]] = {}
    if source.dim <= WIDE_DIM:
        tried[_MOMENTS] = Moments(config.degree)
    if within_room(config, source.dim).certificate_degree != 0:
        whole = replace(_certification(source, config), share=1.0)
        tried[CERTIFICATE] = whole.needs(source.n_rows)
    workers = survey_workers(run.engine, source, tried)
    client = run.engine.client if isinstance(run.engine, ClusterEngine) else None
    found = results.DryRunResult(
        source=source.name,
        place="this process" if client is None else address_of(client),
        versions=results.installed_versions(),
        workers=workers,
        plan=record,
        n_tasks=sum(one.n_tasks or 0 for one in record.passes),
        seconds=0.0,
        memory_limit=room_of(run.engine, config.memory_limit),
        process_nbytes=process_nbytes(run.engine, record.memory_nbytes, config.memory_limit),
        notices=source.notices,
    )
    seconds = expected_seconds(found, source.row_nbytes, scheduled=client is not None)
    return results.replace(found, seconds=seconds)


def expected_seconds(found: results.DryRunResult, row_nbytes: int, *, scheduled: bool) -> float:
    """Return the estimated time of all passes, at the speed at which the processes read and summed.

    `scheduled` where every task takes its time of a scheduler too.
    """
    n_workers = len(found.workers)
    read = sum(one.seconds / max(1, one.rows_read) for one in found.workers) / n_workers
    work = {name: sum(one.work.get(name, 0.0) for one in found.workers) / n_workers for name in (_MOMENTS, CERTIFICATE)}
    total = 0.0
    for one in found.plan.passes:
        if one.name == CERTIFICATE:
            own = work[CERTIFICATE]
        elif one.name in (SAMPLE, REGRESSION, results.Stage.THRESHOLDS):
            own = 0.0
        else:  # an update sums up the rows that it accepts, the final pass those of every step
            own = work[_MOMENTS] * (one.delta or 1.0)
        seconds = one.nbytes / row_nbytes * read + one.rows * own
        total += seconds / max(1, min(found.n_threads, one.n_tasks or 1))
    return total + (_TASK_SECONDS * found.n_tasks if scheduled else 0.0)
