"""A pass: which rows, which reduction, and how much memory it will take, known before it runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from streamhalf.data.arrays import ArrayReader, DaskReader, PieceReader
from streamhalf.data.block import Block, RowRanges
from streamhalf.data.chunk_cache import NOTHING
from streamhalf.data.source import BLOCK_NBYTES, LEAST_NBYTES, Source
from streamhalf.engine.dask_graph import LazyResult, build_graph, lazy_call
from streamhalf.engine.job import Counted, Engine, Job, Kept, run_job
from streamhalf.engine.memory import at_once, cache_nbytes, room_of, rows_nbytes, task_memory
from streamhalf.engine.process import eager_switching
from streamhalf.engine.remote_reads import FarReads, FarRows, far_reads
from streamhalf.events import Observer, PassEnded
from streamhalf.reductions.base import Reduction
from streamhalf.results import PassRecord

R = TypeVar("R")

Tell: TypeAlias = Callable[[Any], None]
"""Called with each task's partial in the task's own process, for those who watch; never raises."""

MAX_TASKS = 4096
"""More tasks than this only burden the scheduler: blocks are dealt to tasks in runs."""

_TASK_NBYTES = 4 * BLOCK_NBYTES
_LEAST_TASKS = 1600
"""So many tasks a pass has, two for each thread of 200 workers of four, if there are as many blocks
and each task has `LEAST_NBYTES`, or a block. What the machine has is not asked: the tree of
partials is a part of the answer."""

_FAN_NBYTES = 64 << 20
"""Partials that one task combines take so much at most, where that is three of them or more."""


@dataclass(frozen=True, slots=True, eq=False)
class PassPlan:
    """One pass over blocks of a source.

    Parameters
    ----------
    name
        Readable; task names and records carry it.
    source, reduction
        What is read and what is summed.
    blocks
        The row ranges to read; all of the source's by default.
    split_every
        Partials combined by one task.
    detail
        What else to say of it while it runs.
    tell
        Hears of every task's partial.
    """

    name: str
    source: Source
    reduction: Reduction[Any, Any]
    blocks: RowRanges
    split_every: int = 8
    detail: str = ""
    tell: Tell | None = None

    @property
    def n_rows(self) -> int:
        """Rows the pass reads."""
        return self.blocks.n_rows

    def task_nbytes(self) -> int:
        """Projected memory of one task at its height."""
        if self.source.unit_rows is None:  # no more than a block of rows is read at once
            most = max(task.n_rows for task in self.tasks())
            largest = min(most, self.source.blocks[0].n_rows)
        else:  # a block is in memory as a whole where chunks are decoded whole
            largest = max(block.n_rows for block, _ in self.source.reads(self.blocks))
        partial = self.reduction.partial_nbytes(self.source.dim)
        return rows_nbytes(self.source.row_nbytes, largest) + (self.split_every + 2) * partial

    def tasks(self) -> tuple[RowRanges, ...]:
        """RowSplit blocks to tasks in runs of neighbours, a function of the blocks alone."""
        pieces, homes = self.source.pieces(self.blocks)
        numbers, firsts = np.unique(homes, return_index=True)
        n_blocks, run = len(numbers), 1
        if not isinstance(self.source.reader, DaskReader):
            # where chunks are decoded whole that is the work, however few rows are wanted
            whole = self.source.unit_rows is not None
            n_rows = int(self.source.blocks.sizes[numbers].sum()) if whole else self.n_rows
            row_nbytes = self.source.row_nbytes
            few = min(self.source.blocks[0].n_rows, max(1, LEAST_NBYTES // row_nbytes))
            least = min(_LEAST_TASKS, math.ceil(n_rows / few))
            wanted = min(_TASK_NBYTES * n_blocks // (n_rows * row_nbytes), n_blocks // least)
            run = max(1, wanted, math.ceil(n_blocks / MAX_TASKS))
        parts = np.split(pieces.bounds, firsts[run::run])
        return tuple(RowRanges(part).joined() for part in parts)

    def job_for(
        self, engine: Engine, *, memory_limit: int | str = "auto", cache: str | None = None
    ) -> Job:
        """The pass as a job for an engine, with as many tasks at once as its memory has room for.

        Persisted chunks stay where they are if it can be. Of what is fetched from afar as much is
        kept as the tasks leave room for, and the rest in the folder `cache`.
        """
        nbytes, room = self.task_nbytes(), room_of(engine, memory_limit)
        held = (self.split_every + 2) * self.reduction.partial_nbytes(self.source.dim)
        count = at_once(engine, f"pass {self.name!r}", nbytes, memory_limit, partials=held)
        reader = self.source.reader
        held = isinstance(reader, DaskReader) and reader.client is not None
        job = self.job(lazy=engine.remote if held else engine.lazy, apart=engine.remote)
        context = replace(job.context, task_nbytes=nbytes, room=room)
        job = replace(job, context=context, at_once=count)
        kept = cache_nbytes(room, count, nbytes)
        far = far_reads(
            self.source, engine, n_tasks=len(job.items), at_once=count, kept=kept, folder=cache
        )
        if far is None:
            return job
        context = replace(job.context, read=FarRows(self.source), far=far)
        return replace(job, context=context, items=far.items(job.items))

    def job(self, *, lazy: bool, apart: bool = False) -> Job:
        """The pass as a job; with `lazy`, Dask-backed rows enter the graph as they are.

        With `apart`, every task has its own rows of arrays in memory, instead of all having all.
        """
        tasks = self.tasks()
        items: tuple[Any, ...] = tasks
        read: Callable[[Any], Iterable[Block]] = self.source.read_each
        if lazy and isinstance(self.source.reader, DaskReader):
            reader = self.source.reader
            chunks = dict(zip(self.source.blocks, reader.delayed(), strict=True))
            reads = self.source.reads(self.blocks)
            items = tuple((rows, block, *chunks[block]) for block, rows in reads)
            read = self.source.schema.read_arrays
        elif apart and isinstance(self.source.reader, ArrayReader):
            items = _apart(self.source, self.source.reader, tasks)
            read = RowsApart(replace(self.source, reader=PieceReader()))
        return Job(
            name=self.name,
            context=PassContext(read, self.reduction, self.tell),
            items=items,
            rows=tuple(rows.n_rows for rows in tasks),
            leaf=map_blocks,
            combine=combine_partials,
            split_every=self.split_every,
            detail=self.detail,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PassContext:
    """What every task of a pass needs: how its item becomes blocks, what is summed, who hears.

    And how rows come that are far away.
    """

    read: Callable[[Any], Iterable[Block]]
    reduction: Reduction[Any, Any]
    tell: Tell | None = None
    far: FarReads | None = None
    task_nbytes: int = 0
    room: int = 0
    """What a task holds, and what the tasks of one process may hold together."""


@dataclass(frozen=True, slots=True, eq=False)
class RowsApart:
    """Reads rows of arrays in memory that come with their task: the same blocks as in one place."""

    source: Source

    def __call__(self, item: Sequence[Any]) -> Iterable[Block]:
        """The blocks of one task."""
        rows, blocks, *pieces = item
        return replace(self.source, reader=PieceReader(blocks, tuple(pieces))).read_each(rows)


def _apart(
    source: Source, reader: ArrayReader, tasks: tuple[RowRanges, ...]
) -> tuple[tuple[Any, ...], ...]:
    """Items of tasks: rows, the blocks they lie in, and these blocks."""
    kept = [Kept(reader, block, reader.read(RowRanges.of((block,)))) for block in source.blocks]
    items = []
    for rows in tasks:
        homes = np.unique(source.pieces(rows)[1]).tolist()
        items.append((rows, tuple(kept[i].rows for i in homes), *(kept[i] for i in homes)))
    return tuple(items)


def map_blocks(context: PassContext, item: Any) -> Counted:
    """Read and reduce the blocks of one task, one after the other."""
    memory = task_memory(context.task_nbytes, context.room)
    # what is no number is looked for where it matters
    with memory, eager_switching(), np.errstate(all="ignore"):
        return _map_blocks(context, item)


def _map_blocks(context: PassContext, item: Any) -> Counted:
    reduction, far = context.reduction, context.far
    if far is not None:
        item = far.enter(item)
    total: Counted | None = None
    for block in context.read(item):
        partial = reduction.map(block)
        if total is not None:
            partial = reduction.combine(total.partial, partial)
        total = Counted(block.n_rows + (total.n_rows if total else 0), partial)
    if total is None:
        raise ValueError("a task without blocks")
    if context.tell is not None:
        context.tell(total.partial)
    return total if far is None else replace(total, moved=far.moved())


def combine_partials(context: PassContext, left: Any, right: Any) -> Any:
    """Combine two partials of the pass's reduction."""
    with np.errstate(all="ignore"):
        return context.reduction.combine(left, right)


def fan_in(split_every: int, partial_nbytes: int) -> int:
    """Partials that one task combines: fewer large ones, for a worker receives and holds them all.

    Three at least: in pairs they take the scheduler twice as many tasks as rows do.
    """
    return min(split_every, max(3, _FAN_NBYTES // max(1, partial_nbytes)))


def plan_pass(
    name: str, source: Source, reduction: Reduction[Any, R], *, split_every: int = 8
) -> PassPlan:
    """Plan a pass over all rows."""
    fan = fan_in(split_every, reduction.partial_nbytes(source.dim))
    return PassPlan(name, source, reduction, source.blocks, fan)


def run_pass(
    engine: Engine,
    plan: PassPlan,
    *,
    memory_limit: int | str,
    observer: Observer,
    save: Callable[[Counted, PassRecord], None] | None = None,
    cache: str | None = None,
) -> tuple[Any, PassRecord]:
    """Validate, run, count the rows, save and finalize; returns the result and the record."""
    started = time.perf_counter()
    job = plan.job_for(engine, memory_limit=memory_limit, cache=cache)
    counted = run_job(engine, job, observer)
    moved = counted.moved + (job.context.far.moved() if job.context.far else NOTHING)
    result = plan.reduction.finalize(counted.partial)
    record = PassRecord(
        name=plan.name,
        rows_read=counted.n_rows,
        bytes_read=counted.n_rows * plan.source.row_nbytes,
        rows_accepted=plan.reduction.rows_used(counted.partial),
        seconds=time.perf_counter() - started,
        bytes_moved=moved.nbytes,
        requests=moved.requests,
    )
    if save is not None:
        save(counted, record)
    observer(PassEnded(record))
    return result, record


def lazy_pass(plan: PassPlan) -> LazyResult:
    """The pass's result as a Dask Delayed: compute several together, visualise, persist."""
    # nobody looks at checksums later on
    plan = replace(plan, source=plan.source.checked_at_once())
    reader = plan.source.reader
    rows = (reader.features, reader.labels) if isinstance(reader, DaskReader) else ()
    root = build_graph(plan.job(lazy=True, apart=True)).delayed(*rows)
    return lazy_call(plan.reduction.finalize, root.partial)
