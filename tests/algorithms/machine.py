"""The state machine of passes without an engine: results are computed in this thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamhalf import RunConfig
from streamhalf.algorithms.localization import Localization
from streamhalf.algorithms.plan import plan_for_rows
from streamhalf.algorithms.row_split import RowSplit, RowSubset, window_rows_for
from streamhalf.algorithms.state import LocalizationState, Step
from streamhalf.data.block import Block, RowRange
from streamhalf.data.transforms import Identity, RowTransform
from streamhalf.kernels.streams import Stream, uniforms_at
from streamhalf.reductions.base import Reduction
from streamhalf.results import Stage
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant

DIM = 2
EPS = 1 / 16
N_ROWS = 200_000


def draw(noise: str = "random", rate: float = 0.05, marginal: str = "gaussian") -> Block:
    spec = SyntheticSpec(rows=N_ROWS, dim=DIM, marginal=marginal, noise=noise, rate=rate, seed=4)
    rows = generate(spec, plant(spec), RowRange(0, N_ROWS))
    return Block(rows.X, rows.y, np.arange(N_ROWS))


def make_blocks(n_rows: int, step: int = 7_000) -> tuple[RowRange, ...]:
    return tuple(RowRange(i, min(i + step, n_rows)) for i in range(0, n_rows, step))


def make_algorithm(n_rows: int = N_ROWS, dim: int = DIM, **parameters: Any) -> Localization:
    config = RunConfig(**({"eps": EPS, "seed": 1, "sampling": "rows"} | parameters))
    plan = plan_for_rows(n_rows, dim, config)
    assert plan.required_rows <= n_rows
    row_split = RowSplit(
        seed=config.seed,
        n_rows=n_rows,
        held_out=plan.held_out,
        sampling=plan.sampling,
        window_rows=window_rows_for(n_rows, plan.initial_rows),
        chunk_rows=None,
        blocks=make_blocks(n_rows),
    )
    return Localization(plan, config, row_split)


def measure(request: Step, data: Block, row_transform: RowTransform | None = None) -> Any:
    """The pass's result, block by block in this thread."""
    needs = request.subset.restrict(request.statistic(row_transform or Identity()))
    return _reduce(needs, request.subset, data)


def _reduce(reduction: Reduction[Any, Any], share: RowSubset, data: Block) -> Any:
    total: Any = None
    for rows in share.blocks:
        window = slice(rows.start, rows.stop)
        part = reduction.map(Block(data.X[window], data.y[window], data.rows[window]))
        total = part if total is None else reduction.combine(total, part)
    return reduction.finalize(total)


def run(algorithm: Localization, data: Block) -> tuple[LocalizationState, list[Step]]:
    state, steps = algorithm.start(), []
    while (step := algorithm.next_step(state)) is not None:
        steps.append(step)
        state = step.conclude(measure(step, data))
    assert state.stage is Stage.DONE
    return state, steps


def rows_of(share: RowSubset) -> set[int]:
    rows = share.blocks.numbers()
    uniforms = uniforms_at(share.seed, Stream.SHARES, rows)
    return set(rows[(uniforms >= share.low) & (uniforms < share.high)].tolist())
