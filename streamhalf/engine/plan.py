"""A pass: which rows, which reduction, and how much memory it will take, known before it runs."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, TypeAlias, TypeVar

import numpy as np

from streamhalf.data.arrays import ArrayReader, DaskReader, PieceReader
from streamhalf.data.block import Block, RowRanges
from streamhalf.data.chunk_cache import NOTHING, CacheLimits, Moved, cache_of
from streamhalf.data.remote_store import RemoteStore
from streamhalf.data.source import BLOCK_NBYTES, LEAST_NBYTES, Source
from streamhalf.data.zarr_reader import ZarrReader
from streamhalf.engine.job import Counted, Engine, Job, LazyResult, SharedRows, build_graph, lazy_call, run_job
from streamhalf.engine.memory import at_once, cache_nbytes, room_of, rows_nbytes, task_memory
from streamhalf.events import Observer, PassEnded
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import measure
from streamhalf.results import PassRecord

R = TypeVar("R")
# Called with each task's partial in the task's own process, for live views; never raises
Tell: TypeAlias = Callable[[Any], None]
MAX_TASKS = 4096  # More tasks than this only burden the scheduler: neighbouring blocks share a task
_TASK_NBYTES = 4 * BLOCK_NBYTES
# Tasks of a pass where it has as many blocks: for six workers, however few rows; and two for each thread of 200
# workers of four, where each task has `LEAST_NBYTES` to read. The machine is not asked: the tree of partials is a
# part of the answer.
_FEW_TASKS, _MANY_TASKS = 12, 1600
_FAN_NBYTES = 64 << 20  # Partials that one task combines take so much at most, where that is three of them or more


@dataclass(frozen=True, slots=True, eq=False)
class PassPlan:
    """One pass over `blocks` of a source; task names and records carry its name.

    One task combines `split_every` partials. `detail` is shown beside the name while it runs, and
    `tell` is called with every task's partial.
    """

    name: str
    source: Source
    reduction: Reduction[Any, Any]
    blocks: RowRanges
    split_every: int = 8
    detail: str = ""
    tell: Tell | None = None

    @property
    def partials_nbytes(self) -> int:
        return (self.split_every + 2) * self.reduction.partial_nbytes(self.source.dim)

    def task_nbytes(self) -> int:
        """Projected memory of one task at its height."""
        if self.source.unit_rows is None:  # no more than a block of rows is read at once
            most = max(task.n_rows for task in self.tasks())
            largest = min(most, self.source.blocks[0].n_rows)
        else:  # a block is in memory as a whole where chunks are decoded whole
            largest = max(block.n_rows for block, _ in self.source.reads(self.blocks))
        return rows_nbytes(self.source.row_nbytes, largest) + self.partials_nbytes

    def tasks(self) -> tuple[RowRanges, ...]:
        """Assign runs of neighbouring blocks to tasks, as a function of the blocks alone."""
        pieces, homes = self.source.pieces(self.blocks)
        numbers, firsts = np.unique(homes, return_index=True)
        n_blocks, run = len(numbers), 1
        if not isinstance(self.source.reader, DaskReader):
            # where chunks are decoded whole that is the work, however few rows are wanted
            whole = self.source.unit_rows is not None
            n_rows = int(self.source.blocks.sizes[numbers].sum()) if whole else self.blocks.n_rows
            row_nbytes = self.source.row_nbytes
            few = min(self.source.blocks[0].n_rows, max(1, LEAST_NBYTES // row_nbytes))
            least = min(_MANY_TASKS, max(_FEW_TASKS, math.ceil(n_rows / few)))
            wanted = min(_TASK_NBYTES * n_blocks // (n_rows * row_nbytes), n_blocks // least)
            # a partial that takes as long to combine as a block to read is made of more rows
            large = math.ceil(self.reduction.partial_nbytes(self.source.dim) * n_blocks / (n_rows * row_nbytes))
            run = max(1, wanted, min(large, n_blocks // _FEW_TASKS), math.ceil(n_blocks / MAX_TASKS))
        parts = np.split(pieces.bounds, firsts[run::run])
        return tuple(RowRanges(part).joined() for part in parts)

    def job_for(self, engine: Engine, *, memory_limit: int | str = "auto", cache: str | None = None) -> Job:
        """Return the job for an engine, with as many tasks at once as its memory has room for.

        Persisted chunks stay where they are if possible. Of what is fetched from a remote store as
        much is kept as the tasks leave room for, and the rest in the folder `cache`.
        """
        nbytes, room = self.task_nbytes(), room_of(engine, memory_limit)
        name = f"pass {self.name!r}"
        count = at_once(engine, name, nbytes, memory_limit, partials=self.partials_nbytes)
        reader = self.source.reader
        held = isinstance(reader, DaskReader) and reader.client is not None
        job = self.job(lazy=engine.remote if held else engine.lazy, apart=engine.remote)
        context, items = replace(job.context, task_nbytes=nbytes, room=room), job.items
        if (store := remote_store_of(self.source)) is not None:
            alone = engine.n_processes == 1
            limits = CacheLimits(cache_nbytes(room, count, nbytes), cache, alone)
            reads = RemoteReads(self.source, store.token, limits, uuid.uuid4().hex)
            context = replace(context, read=reads)
            # on several processes it is not known which task comes next in a thread
            following = items[min(len(items), count) :] if alone else ()
            items = tuple(zip_longest(items, following))
        return replace(job, context=context, items=items, at_once=count)

    def job(self, *, lazy: bool, apart: bool = False) -> Job:
        """Return the pass as a job.

        With `lazy`, Dask-backed rows enter the graph as they are. With `apart`, every task has its
        own rows of arrays in memory, instead of all having all.
        """
        tasks = self.tasks()
        items: tuple[Any, ...] = tasks
        read: Callable[[Any], Iterable[Block]] = self.source.read_each
        if lazy and isinstance(self.source.reader, DaskReader):
            chunks = dict(zip(self.source.blocks, self.source.reader.delayed(), strict=True))
            reads = self.source.reads(self.blocks)
            items = tuple((rows, block, *chunks[block]) for block, rows in reads)
            read = self.source.schema.read_arrays
        elif apart and isinstance(self.source.reader, ArrayReader):
            items = _rows_apart(self.source, self.source.reader, tasks)
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
    """Shared by all tasks of a pass: how an item becomes blocks, and the reduction.

    A task holds `task_nbytes` of memory, and the tasks of one process at most `room` together.
    """

    read: Callable[[Any], Iterable[Block]]
    reduction: Reduction[Any, Any]
    tell: Tell | None = None
    task_nbytes: int = 0
    room: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RemoteReads:
    """Reads a task's rows of a remote store; those of the task that follows are fetched meanwhile."""

    source: Source
    token: str
    limits: CacheLimits
    of_pass: str

    def __call__(self, item: tuple[RowRanges, RowRanges | None]) -> Iterable[Block]:
        cache, (rows, following) = cache_of(self.token), item
        cache.set_limits(self.limits)
        of_pass, furthest = cache.furthest
        furthest = furthest if of_pass == self.of_pass else -1
        cache.furthest = self.of_pass, max(furthest, rows.span.start)
        if following is not None and following.span.start <= furthest:
            following = None  # it has begun already: what is fetched now would be fetched twice
        return self.source.read_each(rows, following)


def remote_store_of(source: Source) -> RemoteStore | None:
    return source.reader.remote if isinstance(source.reader, ZarrReader) else None


@dataclass(frozen=True, slots=True, eq=False)
class RowsApart:
    """Reads rows of arrays in memory that come with their task: the same blocks as in one place."""

    source: Source

    def __call__(self, item: Sequence[Any]) -> Iterable[Block]:
        rows, blocks, *pieces = item
        return replace(self.source, reader=PieceReader(blocks, tuple(pieces))).read_each(rows)


def _rows_apart(source: Source, reader: ArrayReader, tasks: tuple[RowRanges, ...]) -> tuple[tuple[Any, ...], ...]:
    """Return items of tasks: rows, the blocks they lie in, and these blocks."""
    kept = [SharedRows(reader, block, reader.read(RowRanges.of((block,)))) for block in source.blocks]
    homes = [np.unique(source.pieces(rows)[1]).tolist() for rows in tasks]
    return tuple(
        (rows, tuple(kept[i].rows for i in own), *(kept[i] for i in own))
        for rows, own in zip(tasks, homes, strict=True)
    )


def map_blocks(context: PassContext, item: Any) -> Counted:
    # values that are not finite are looked for where they matter
    with task_memory(context.task_nbytes, context.room), np.errstate(all="ignore"):
        total = Counted(*measure(context.reduction, context.read(item)))
        if not total.n_rows:
            raise ValueError("a task without blocks")
        if context.tell is not None:
            context.tell(total.partial)
        return replace(total, moved=moved_by(context))


def moved_by(context: PassContext) -> Moved:
    """Return what came over the network in this process since the last call."""
    return cache_of(context.read.token).drain() if isinstance(context.read, RemoteReads) else NOTHING


def combine_partials(context: PassContext, parts: Sequence[Any]) -> Any:
    with np.errstate(all="ignore"):
        return context.reduction.combine(*parts)


def fan_in(split_every: int, partial_nbytes: int) -> int:
    """Return the partials that one task combines: fewer large ones, for a worker holds them all.

    Three at least: in pairs they take the scheduler twice as many tasks as rows do.
    """
    return min(split_every, max(3, _FAN_NBYTES // max(1, partial_nbytes)))


def plan_pass(name: str, source: Source, reduction: Reduction[Any, R], *, split_every: int = 8) -> PassPlan:
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
    """Validate, run, count the rows, save and finalize; return the result and the record."""
    started = time.perf_counter()
    job = plan.job_for(engine, memory_limit=memory_limit, cache=cache)
    counted = run_job(engine, job, observer)
    moved = counted.moved + moved_by(job.context)
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
    """Return the pass's result as a Dask Delayed: compute several together, visualise, persist."""
    # checksums that were put off would never be looked at
    plan = replace(plan, source=plan.source.checked_at_once())
    reader = plan.source.reader
    rows = (reader.features, reader.labels) if isinstance(reader, DaskReader) else ()
    root = build_graph(plan.job(lazy=True, apart=True)).delayed(*rows)
    return lazy_call(plan.reduction.finalize, root.partial)
