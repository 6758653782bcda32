"""The answer where the rows are too few for any tester."""

from __future__ import annotations

from dataclasses import replace

from streamhalf.algorithms.decide import decide
from streamhalf.algorithms.position import estimate_position
from streamhalf.config import RunConfig
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.kernels.plane import Plane
from streamhalf.planning.plan import plan_for_rows
from streamhalf.planning.run_plan import RunPlan
from streamhalf.records import (
    FitResult,
    Halfspace,
    Notice,
    PositionRecord,
    ReuseSuffices,
    Stop,
    StopReason,
    Through,
    Unverified,
    Versions,
)
from streamhalf.reductions.chow import Chow
from streamhalf.reductions.mapped import Mapped
from streamhalf.reductions.threshold_scan import ThresholdScan


def answer_few_rows(
    run: Run, source: Source, plan: RunPlan, config: RunConfig, *, unverified: bool
) -> FitResult:
    """How many rows it takes; with leave, also the Chow direction of all rows, untested.

    With a threshold, it has the one that errs least on these rows.
    """
    notices: tuple[Notice, ...] = _reuse_suffices(source, config)
    halfspace, position = None, PositionRecord(kind=config.position)
    if unverified:
        # constant features are no reason to refuse here: they get no weight
        row_map = estimate_position(run, source, config, strict=False)
        # a plain mean: the groups of a median of means would hold a handful of rows each
        vector = run.reduce("unverified", source, Mapped(Chow(1), row_map)).vector
        plane = Plane(vector).unit()
        if config.through == Through.ANY:
            scan = Mapped(ThresholdScan((plane,)), row_map)
            (plane,) = run.reduce("thresholds", source, scan)
        halfspace = Halfspace.of(row_map.pull_back(plane))
        notices, position = (*notices, Unverified()), row_map.record
    return FitResult(
        verdict=decide((), settled=False),
        halfspace=halfspace,
        error=None,
        eps=plan.eps,
        tau=config.tau,
        seed=config.seed,
        rows_needed=plan.required_rows,
        split=plan.split,
        position=position,
        stop=Stop(StopReason.TOO_FEW_ROWS),
        candidates=(),
        chosen=None,
        testers=(),
        passes=tuple(run.passes),
        data=source.record,
        versions=Versions.current(),
        notices=(*source.notices, *notices),
    )


def _reuse_suffices(source: Source, config: RunConfig) -> tuple[Notice, ...]:
    """Whether the rows suffice if every pass may use all of them."""
    if config.rows == "reuse":
        return ()
    again = plan_for_rows(source.n_rows, source.dim, replace(config, rows="reuse"))
    if again.required_rows > source.n_rows:
        return ()
    return (ReuseSuffices(source.n_rows, again.eps),)
