"""Rows for learning, as many as fit in memory, and what is learnt from them there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.baselines import Baseline, learn_baselines
from streamhalf.algorithms.choice import FEW_TO_CHOOSE, cross_fit
from streamhalf.algorithms.row_split import pilot
from streamhalf.algorithms.run_plan import RunPlan, sample_room
from streamhalf.config import RunConfig
from streamhalf.data.block import Block, RowRanges
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.row_sample import RowSample
from streamhalf.reductions.row_view import Sample, sampled
from streamhalf.results import HalfspaceClass, Transform

_ENOUGH_ROWS = 1 << 15
"""So many are enough where the path of the theorem is likely to be ahead of all members."""

_WIDER = 4
"""Windows are read that hold so many times the rows that are kept."""


def draw_sample(run: Run, source: Source, plan: RunPlan, config: RunConfig) -> Block:
    """Single rows, drawn from windows all over the data, none of which is held out."""
    size, windows = sample_windows(source, config)
    drawn = RowSample(size, config.seed, Stream.BASELINE_SAMPLE)
    sample = sampled(drawn, Sample(config.seed, Stream.SHARES, plan.held_out))
    found = run.reduce("sample", source, sample, blocks=windows)
    block: Block = found.block
    return block


def sample_windows(source: Source, config: RunConfig) -> tuple[int, RowRanges]:
    """How many rows a sample has, and where they are drawn from."""
    size = min(sample_room(config, source.dim), source.n_rows)
    return size, pilot(source.n_rows, _WIDER * size, seed=config.seed)


def some_rows(block: Block, n_rows: int, config: RunConfig) -> Block:
    """So many rows of a sample, drawn at random, in rising order."""
    if n_rows >= block.n_rows:
        return block
    uniforms = uniforms_at(config.seed, Stream.BASELINE_PART, block.rows)
    return block.take(np.sort(np.argpartition(uniforms, n_rows)[:n_rows]))


def learn_baselines_on_sample(
    block: Block,
    plan: RunPlan,
    config: RunConfig,
    *,
    spare: bool,
    regressions: tuple[Plane, ...] = (),
) -> tuple[Baseline, ...]:
    """The pool; where few rows are held out, the one member that does best where it did not learn.

    `spare` where the path of the theorem is likely to win: then a part of the rows will do.
    `regressions` learnt from more rows than the sample has: no choice is made without them.
    """
    block = some_rows(block, _ENOUGH_ROWS, config) if spare else block
    point = _point(block, config)
    members = learn_baselines(block, seed=config.seed, point=point, regressions=regressions)
    if plan.final_rows >= FEW_TO_CHOOSE or regressions or len(members) == 1:
        return members
    return (cross_fit(block, members, seed=config.seed, point=point),)


def _point(block: Block, config: RunConfig) -> NDArray[np.float64] | None:
    """Where halfspaces must go through, if anywhere."""
    if config.through == HalfspaceClass.ANY:
        return None
    about_origin = (
        config.through == HalfspaceClass.ORIGIN or config.feature_transform == Transform.STORED
    )
    if about_origin or block.n_rows == 0:
        return np.zeros(block.dim)
    return np.asarray(block.X.mean(axis=0), dtype=np.float64)
