"""Plans and dry runs of given data: tasks, bytes, memory and seconds of every pass."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from streamhalf.algorithms.plan import lacks_rows, plan_for_rows
from streamhalf.algorithms.plan_overview import held_by_learning, make_plan
from streamhalf.algorithms.regression import regression_passes, regression_rows
from streamhalf.algorithms.row_split import row_split_for, sample_windows
from streamhalf.certificate.certification import Certification
from streamhalf.certificate.slab_choice import certificate_degree, certificate_share, held_by_certificate, within_room
from streamhalf.config import RunConfig
from streamhalf.data.block import RowRanges
from streamhalf.data.source import Source
from streamhalf.data.transforms import Identity
from streamhalf.engine import PassPlan
from streamhalf.engine.cluster import ClusterEngine
from streamhalf.engine.memory import largest_block, process_nbytes, room_of
from streamhalf.engine.run import Run
from streamhalf.engine.survey import Survey
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.labels import LabelCounts
from streamhalf.reductions.moments import Moments
from streamhalf.results import DryRunResult, Halfspace, PassBudget, PlanRecord, Stage, installed_versions, replace
from streamhalf.testers.moments import WIDE_DIM

if TYPE_CHECKING:
    pass

SAMPLE, REGRESSION, CERTIFICATE = "sample", "regression", "certificate"
_MOMENTS = "moments"
_LIKELY_ERROR = 0.05
_TASK_SECONDS = 0.002
"""Overhead of a task on the client and the scheduler, docs/cost.md."""


def plan_of(source: Source, config: RunConfig, positive: float | None = None) -> PlanRecord:
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
    passes = [PassBudget(SAMPLE, size, read, n_tasks=_n_tasks(source, windows))]
    if lacks_rows(plan, config):
        blocks = regression_rows(source, config)
        used = round((1 - plan.held_out) * blocks.n_rows)
        n_passes = regression_passes(used, source.dim)
        read = n_passes * blocks.n_rows * source.row_nbytes
        n_tasks = n_passes * _n_tasks(source, blocks)
        passes.append(PassBudget(REGRESSION, used, read, n_tasks=n_tasks))
    whole, cursor = _n_tasks(source, source.blocks), 0
    for one in record.passes:
        blocks = row_split.take(cursor, one.rows).blocks
        all_of_them = one.name in (Stage.FINAL, Stage.THRESHOLDS) or blocks.n_rows == source.n_rows
        passes.append(replace(one, n_tasks=whole if all_of_them else _n_tasks(source, blocks)))
        cursor += one.rows
    if within_room(config, source.dim).certificate_degree != 0:
        certificate = _certification(source, config)
        used = math.ceil(certificate.share * source.n_rows)
        nbytes = source.n_rows * source.row_nbytes
        passes.append(PassBudget(CERTIFICATE, used, nbytes, n_tasks=whole))
    return replace(
        record,
        passes=tuple(passes),
        nbytes=sum(one.nbytes for one in passes),
        memory_nbytes=largest_block(source) + held_by_fit(source, config),
    )


def held_by_fit(source: Source, config: RunConfig) -> int:
    """Return the most bytes that the partials of any pass of a fit take in a task."""
    plan = plan_for_rows(source.n_rows, source.dim, config)
    return max(held_by_learning(plan, config), held_by_certificate(config, source.dim))


def _n_tasks(source: Source, blocks: RowRanges) -> int:
    return len(PassPlan("", source, LabelCounts(), blocks).tasks())


def _certification(source: Source, config: RunConfig) -> Certification:
    """The certificate pass about some plane: what it costs is the same about any."""
    normal = np.eye(source.dim)[0]
    degree = certificate_degree(config.certificate_degree or "auto", source.dim)
    return Certification(
        halfspace=Halfspace(tuple(normal.tolist())),
        row_transform=Identity(),
        error=_LIKELY_ERROR,
        degree=degree,
        memory=config.certificate_memory,
        planes=(Plane(normal),),
        share=certificate_share(
            config.certificate_rows, n_rows=source.n_rows, dim=source.dim, error=_LIKELY_ERROR, degree=degree
        ),
    )


def dry_run_of(run: Run, source: Source, config: RunConfig) -> DryRunResult:
    """Return what a fit would take where it would run; every worker reads one block."""
    record = plan_of(source, config)
    tried: dict[str, Reduction[Any, Any]] = {}
    if source.dim <= WIDE_DIM:
        tried[_MOMENTS] = Moments(config.degree)
    if within_room(config, source.dim).certificate_degree != 0:
        whole = dataclasses.replace(_certification(source, config), share=1.0)
        tried[CERTIFICATE] = whole.needs(source.n_rows)
    workers = Survey(source, tried).of(run.engine)
    cluster = run.engine if isinstance(run.engine, ClusterEngine) else None
    found = DryRunResult(
        source=source.name,
        place="this process" if cluster is None else cluster.address,
        versions=installed_versions(),
        workers=workers,
        plan=record,
        n_tasks=sum(one.n_tasks or 0 for one in record.passes),
        seconds=0.0,
        memory_limit=room_of(run.engine, config.memory_limit),
        process_nbytes=process_nbytes(run.engine, record.memory_nbytes, config.memory_limit),
        notices=source.notices,
    )
    seconds = expected_seconds(found, source.row_nbytes, scheduled=cluster is not None)
    return replace(found, seconds=seconds)


def expected_seconds(found: DryRunResult, row_nbytes: int, *, scheduled: bool) -> float:
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
        elif one.name in (SAMPLE, REGRESSION, Stage.THRESHOLDS):
            own = 0.0
        else:  # an update sums up the rows that it accepts, the final pass those of every step
            own = work[_MOMENTS] * (one.delta or 1.0)
        seconds = one.nbytes / row_nbytes * read + one.rows * own
        total += seconds / max(1, min(found.n_threads, one.n_tasks or 1))
    return total + (_TASK_SECONDS * found.n_tasks if scheduled else 0.0)
