from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamhalf import MemoryBudgetError, open_source
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.source import Source, align_blocks
from streamhalf.engine import Engine, plan_pass, run_pass
from streamhalf.engine.cluster import ThreadsEngine
from streamhalf.engine.job import SerialEngine
from streamhalf.engine.plan import MAX_TASKS, PassContext, PassPlan, map_blocks
from streamhalf.events import Event, ignore
from streamhalf.reductions import LabelCounts, Moments
from tests.conftest import make_rows

X, Y = make_rows(2000, 5)
MIB = 1 << 20


@dataclass
class CountingReader:
    """Counts what is read."""

    reads: list[RowRange] = field(default_factory=list)
    defers_checks: ClassVar[bool] = False
    unit_rows: int | None = None

    def read(self, rows: RowRanges) -> tuple[Any, Any]:
        self.reads.append(rows.span)
        return rows.take_from(X, 0), rows.take_from(Y, 0)

    def find_missing(self, rows: RowRanges) -> str | None:
        return None

    def prefetch(self, rows: RowRanges) -> bool:
        return True


def counting_source() -> tuple[Source, CountingReader]:
    reader = CountingReader()
    return replace(open_source((X, Y)), reader=reader), reader


def plan_blocks(blocks: Iterable[RowRange], row_nbytes: int = 21) -> PassPlan:
    blocks = RowRanges.of(blocks)
    source = replace(counting_source()[0], blocks=blocks, row_nbytes=row_nbytes)
    return plan_pass("moments", source, Moments(4))


@pytest.mark.parametrize("engine", [SerialEngine(), ThreadsEngine(2)])
def test_run_pass__refuses_before_any_read(engine: Engine) -> None:
    source, reader = counting_source()
    events: list[Event] = []
    plan = plan_pass("moments", source, Moments(8))
    need = plan.task_nbytes()
    with pytest.raises(MemoryBudgetError):
        run_pass(engine, plan, memory_limit=need - 1, observer=events.append)
    assert reader.reads == []
    assert events == []
    run_pass(engine, plan, memory_limit=need, observer=ignore)
    assert sorted(reader.reads) == list(source.blocks)


def test_job_for__has_as_many_tasks_at_once_as_there_is_room_for() -> None:
    plan = plan_blocks((RowRange(0, 2000),), row_nbytes=10 * MIB // 2000)
    need, engine = plan.task_nbytes(), ThreadsEngine(9)
    found = [plan.job_for(engine, memory_limit=k * need + 1) for k in (1, 5, 9, 20)]
    assert [job.at_once for job in found] == [1, 5, 9, 9]
    assert {job.context.task_nbytes for job in found} == {need}


def test_validate__grows_with_partials_and_split_every() -> None:
    source, _ = counting_source()
    small, large = (plan_pass("moments", source, Moments(degree)) for degree in (2, 8))
    partial = Moments(8).partial_nbytes(source.dim)
    assert large.task_nbytes() - small.task_nbytes() > 5 * partial
    assert replace(large, split_every=100).task_nbytes() - large.task_nbytes() == 92 * partial


@given(n_rows=st.integers(1, 10**9), chunk_rows=st.integers(1, 10**6), row_nbytes=st.integers(5, 10**4))
def test_tasks__hold_every_block_once_and_stay_few(n_rows: int, chunk_rows: int, row_nbytes: int) -> None:
    step = max(chunk_rows, n_rows // 20_000)  # keeps the number of blocks small
    blocks = align_blocks(n_rows, step, row_nbytes)
    tasks = plan_blocks(blocks, row_nbytes).tasks()
    starts = blocks.bounds[:, 0]
    assert [block for task in tasks for block in task.cut(starts)] == list(blocks)
    assert len(tasks) <= MAX_TASKS
    assert len(tasks) >= min(len(blocks), 1600)  # two for each of 800 threads


def test_tasks__of_few_rows_are_few_and_read_them_at_once() -> None:
    plan = plan_blocks(RowRange(0, 200_000).split(1000), row_nbytes=4 * MIB // 500)
    windows = RowRanges.of(RowRange(i, i + 10) for i in range(0, 200_000, 1000))
    few = replace(plan, blocks=windows)
    assert [task.n_rows for task in few.tasks()] == [160] * 12 + [80]
    assert [len(few.source.gathered(task)) for task in few.tasks()] == [1] * 13
    assert len(plan.tasks()) > 40
    few.source.reader.unit_rows = 1000  # of chunks that are decoded whole there is no less work
    assert few.tasks() != plan.tasks()
    assert len(few.tasks()) == len(plan.tasks())


def test_tasks__are_a_function_of_the_blocks_and_the_size_of_a_partial() -> None:
    blocks = RowRange(0, 40_000).split(10)
    plan = plan_blocks(blocks)
    others = (
        replace(plan, name="other"),
        replace(plan, split_every=2),
        replace(plan, source=replace(plan.source, name="other", notices=("other",))),
    )
    assert {other.tasks() for other in others} == {plan.tasks()}
    assert len(plan.tasks()) < len(blocks)
    large = replace(plan, reduction=Moments(8))
    assert 12 <= len(large.tasks()) < len(plan.tasks())


def test_tasks__of_a_dask_array_are_its_chunks() -> None:
    lazy = open_source((da.from_array(X, chunks=(10, 5)), Y))
    plan = plan_pass("moments", lazy, Moments(4))
    assert plan.tasks() == tuple(RowRanges.of((rows,)) for rows in lazy.blocks)
    assert len(plan.tasks()) == 200


def test_tasks__of_windows_of_a_dask_array_are_its_chunks() -> None:
    lazy = open_source((da.from_array(X, chunks=(400, 5)), Y))
    windows = RowRanges.of(RowRange(i, i + 7) for i in range(0, 1000, 20))
    plan = PassPlan("moments", lazy, Moments(4), windows)
    assert [task.n_rows for task in plan.tasks()] == [140, 140, 70]
    assert len(plan.job(lazy=True).items) == 3
    assert set(plan.job(lazy=True).rows) == {140, 70}


def test_validate__counts_the_rows_that_are_in_memory() -> None:
    # two windows of 100 rows in a block of 2,000; the block as a whole where chunks are decoded
    windows = RowRanges.of((RowRange(0, 100), RowRange(1500, 1600)))
    source, reader = counting_source()
    partial = 10 * Moments(4).partial_nbytes(5)
    plan = PassPlan("moments", source, Moments(4), windows)
    assert plan.task_nbytes() - partial == 5 * 200 * source.row_nbytes
    reader.unit_rows = 500
    assert plan.task_nbytes() - partial == 5 * 2000 * source.row_nbytes


def test_map_blocks__reduces_a_run_of_blocks() -> None:
    source, reader = counting_source()
    blocks = RowRanges.of((RowRange(0, 700), RowRange(700, 800), RowRange(800, 2000)))
    counted = map_blocks(PassContext(source.read_each, LabelCounts()), blocks)
    assert counted.n_rows == counted.partial.n_rows == 2000
    assert counted.partial.positive == np.sum(Y > 0)
    assert reader.reads == [RowRange(0, 2000)]  # one stored block, decoded once


def test_map_blocks__refuses_a_task_without_blocks() -> None:
    source, _ = counting_source()
    with pytest.raises(ValueError, match="a task without blocks"):
        map_blocks(PassContext(source.read_each, LabelCounts()), RowRanges.of(()))
