"""Rows for learning in memory, and what is learnt from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamhalf import RunConfig
from streamhalf.algorithms.baselines import FEW_TO_CHOOSE, learn_baselines_on_sample
from streamhalf.algorithms.plan import RunPlan, plan_for_rows
from streamhalf.algorithms.row_split import draw_sample
from streamhalf.data.block import Block
from streamhalf.engine import memory
from streamhalf.kernels.streams import Stream, uniforms_at
from streamhalf.results import Method, PassRecord
from tests.algorithms.runs import draw, serial_run

DATA = draw(90_000, dim=3)


def sampled(data: tuple[Any, Any] = DATA, **parameters: Any) -> tuple[Block, float, tuple[PassRecord, ...]]:
    """The sample, the share of the rows that is held out, and the passes that it took."""
    with serial_run(data, seed=3, **parameters) as (run, source, config, _):
        plan = plan_for_rows(source.n_rows, source.dim, config)
        return draw_sample(run, source, plan, config), plan.held_out, tuple(run.passes)


def test_draw_sample__is_all_rows_for_learning_where_they_fit() -> None:
    block, held_out, (record,) = sampled()
    assert 0 < held_out < 1
    uniforms = uniforms_at(3, Stream.SHARES, np.arange(90_000))
    np.testing.assert_array_equal(block.rows, np.flatnonzero(uniforms >= held_out))
    X, y = DATA
    np.testing.assert_array_equal(block.X, X[block.rows])
    np.testing.assert_array_equal(block.y, y[block.rows])
    assert (record.name, record.rows_read, record.rows_accepted) == ("sample", 90_000, block.n_rows)


def test_draw_sample__takes_as_many_as_there_is_room_for_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TASK_NBYTES", 1 << 18)
    block, held_out, (record,) = sampled()
    assert 100 < block.n_rows < 1_000
    assert record.rows_read < 5 * block.n_rows
    assert (uniforms_at(3, Stream.SHARES, block.rows) >= held_out).all()
    X, y = DATA
    np.testing.assert_array_equal(block.X, X[block.rows])
    np.testing.assert_array_equal(block.y, y[block.rows])
    # 64 windows of equal chance: a third of the data has none with probability below 1e-11
    assert (np.bincount(block.rows // 30_000, minlength=3) > 0).all()


def test_draw_sample__a_quarter_of_few_rows_is_held_out() -> None:
    block, held_out, _ = sampled(draw(300, dim=3), eps="auto")
    assert held_out == 0.25
    # a binomial of mean 225 and standard deviation 7.5
    assert block.n_rows == pytest.approx(225, abs=45)


def some(n_rows: int) -> Block:
    X, y = DATA
    return Block(X[:n_rows] + 0.3, y[:n_rows], np.arange(n_rows))


def plan_of(final_rows: int) -> RunPlan:
    plan = plan_for_rows(4 * final_rows, 2, RunConfig(seed=1))
    return replace(plan, final_rows=final_rows)


def test_learn_members__of_many_rows_are_the_pool_and_of_few_the_best_of_it() -> None:
    config = RunConfig(seed=1)
    many = learn_baselines_on_sample(some(8_000), plan_of(FEW_TO_CHOOSE), config, spare=False)
    assert many[0].method is Method.REGRESSION
    assert len({one.method for one in many}) == len(many) > 5
    spared = learn_baselines_on_sample(some(8_000), plan_of(FEW_TO_CHOOSE), config, spare=True)
    assert [one.method for one in spared] == [one.method for one in many]
    (one,) = learn_baselines_on_sample(some(1_000), plan_of(FEW_TO_CHOOSE - 1), config, spare=False)
    assert one.plane.errors(*DATA) > 0
    # the rows were moved by 0.3: x1 + x2 >= 0.6
    assert one.plane.unit().threshold == pytest.approx(0.6 / 2**0.5, abs=0.1)


@pytest.mark.parametrize(
    ("through", "transform", "centred"),
    [("origin", "auto", False), ("centre", "stored", False), ("centre", "isotropic", True)],
)
@pytest.mark.parametrize("held_out", [250, FEW_TO_CHOOSE])
def test_learn_members__go_through_the_point_that_is_asked_for(
    through: str, transform: str, centred: bool, held_out: int
) -> None:
    block = some(1_000)
    config = RunConfig(seed=1, through=through, feature_transform=transform)
    for one in learn_baselines_on_sample(block, plan_of(held_out), config, spare=False):
        if centred:
            margin = one.plane.margins(block.X.mean(axis=0)[None])[0]
            assert margin == pytest.approx(0, abs=1e-12 * one.plane.length)
        else:
            assert one.plane.threshold == 0  # exactly: its class is read off that
