"""What a fit says about data that leave it little to learn from."""

from __future__ import annotations

from dataclasses import replace

from streamhalf.algorithms.planner import plan_for_rows
from streamhalf.config import RunConfig
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.engine.shares import spread
from streamhalf.names import plural
from streamhalf.records import FitResult
from streamhalf.reductions.label_counts import LabelCounts
from streamhalf.report.codes import COIN, ONE_CLASS, REUSE
from streamhalf.report.words import through

_PILOT_ROWS = 65_536


def advise_reuse(result: FitResult, source: Source, config: RunConfig) -> FitResult:
    """Say so where too few rows suffice if every pass may use all of them."""
    if config.rows == "reuse":
        return result
    again = plan_for_rows(source.n_rows, source.dim, replace(config, rows="reuse"))
    if again.required_rows > source.n_rows:
        return result
    said = (
        f"with {REUSE} (in Python rows='reuse'), which lets every pass use all rows, these "
        f"{plural(source.n_rows, 'row')} can judge eps = {again.eps:.4g}"
    )
    return replace(result, notices=(*result.notices, said))


def note_one_class(run: Run, source: Source, result: FitResult) -> FitResult:
    """Say so where all labels are the same; they are counted only where the error raises doubts."""
    if result.error is None or result.error.empirical < COIN:
        return result
    pilot = tuple(spread(source.n_rows, _PILOT_ROWS))
    found = run.reduce("some labels", source, LabelCounts(), blocks=pilot)
    if min(found.positive, found.negative) == 0:
        found = run.reduce("labels", source, LabelCounts())
    result = replace(result, passes=tuple(run.passes))
    if min(found.positive, found.negative) > 0:
        return result
    said = (
        f"{ONE_CLASS}{'+1' if found.positive else '-1'}: a halfspace "
        f"{through(whitened=result.whitened)} errs on about half of the rows then, so there is "
        "nothing to learn; check the labels"
    )
    return replace(result, notices=(*result.notices, said))
