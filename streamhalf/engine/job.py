"""Jobs: items mapped to partials and combined in a fixed tree, by any engine; and jobs as graphs of Dask tasks.

The tree depends on the number of items and on `split_every` alone. Every engine combines the same
partials in the same order, so equal items give equal bits. The serial engine is the oracle.

No other module touches how Dask specifies graphs: `dask._task_spec` is private, and the public
`dask.delayed` takes half a millisecond a task. tests/engine/test_dask_graph.py holds what is relied upon.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import cloudpickle
from dask._task_spec import DataNode, List, Task, TaskRef
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.typing import Key

from streamhalf.data.block import RowRange
from streamhalf.data.chunk_cache import NOTHING, Moved
from streamhalf.engine.memory import WorkerLimit
from streamhalf.errors import DataError
from streamhalf.events import Observer, PassProgress, PassStarted

_MOST_UNPACKED = 4
_unpacked: dict[str, Any] = {}
_unpacking = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """A partial, the number of rows that went into it, and what they took over the network."""

    n_rows: int
    partial: Any
    moved: Moved = NOTHING


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """Rows in this process's memory, as part of an item: a cluster is sent them once in a run."""

    owner: object
    rows: RowRange
    value: Any

    @property
    def name(self) -> tuple[int, RowRange]:
        """Equal for the same rows of the same owner, as long as that lives."""
        return id(self.owner), self.rows


OnProgress: TypeAlias = Callable[[int], None]  # Called in the driving process with the rows of each task that is done


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Work for an engine: one task for each item, combined in a tree of `split_every` partials.

    leaf(context, item) gives a partial, combine(context, partials) that of neighbours, in their order. Items that are
    tuples may hold Dask Delayed objects and `SharedRows`; `rows` are those of each item. Memory has
    room for `at_once` tasks in one process (None: one on every thread). `detail` is shown beside
    the name.
    """

    name: str
    context: Any
    items: tuple[Any, ...]
    rows: tuple[int, ...]
    leaf: Callable[[Any, Any], Counted]
    combine: Callable[[Any, Sequence[Any]], Any]
    split_every: int = 8
    detail: str = ""
    at_once: int | None = None


def merge(context: Any, combine: Callable[[Any, Sequence[Any]], Any], parts: list[Counted]) -> Counted:
    if len(parts) == 1:
        return parts[0]
    partial = combine(context, [part.partial for part in parts])
    return Counted(sum(part.n_rows for part in parts), partial, sum((part.moved for part in parts), NOTHING))


class Engine(Protocol):
    """Runs jobs, whose items may hold Dask Delayed objects if it is `lazy`, and futures if it is `remote`."""

    lazy: bool
    remote: bool

    @property
    def n_threads(self) -> int:
        """Tasks that run at once in one worker process, and share its memory."""
        ...

    @property
    def n_processes(self) -> int:
        return 1

    def everywhere(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call a function once in every process that tasks run in; lost ones are left out."""
        call(*arguments)

    def worker_limits(self) -> tuple[WorkerLimit, ...]:
        """Limits of the workers of a cluster that have any."""
        return ()

    def run(self, job: Job, on_progress: OnProgress) -> Counted: ...


class SerialEngine(Engine):
    """One task after the other, in this thread."""

    n_threads = 1
    lazy = remote = False

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        """Run a job to its end, holding one path of the fixed tree in memory."""
        levels: list[list[Counted]] = [[]]
        for item, rows in zip(job.items, job.rows, strict=True):
            levels[0].append(job.leaf(job.context, item))
            on_progress(rows)
            for level, parts in enumerate(levels):
                if len(parts) < job.split_every:
                    break
                if level + 1 == len(levels):
                    levels.append([])
                levels[level + 1].append(merge(job.context, job.combine, parts))
                parts.clear()
        rest: list[Counted] = []
        for parts in levels:
            if parts or rest:
                rest = [merge(job.context, job.combine, [*parts, *rest])]
        return rest[0]


def run_job(engine: Engine, job: Job, observer: Observer) -> Counted:
    """Run a job with its progress as events; raise unless all rows arrived."""
    n_rows = sum(job.rows)
    observer(PassStarted(job.name, n_rows, len(job.items), job.detail))
    done = 0

    def on_progress(rows: int) -> None:
        nonlocal done
        done += rows
        observer(PassProgress(job.name, done, n_rows))

    counted = engine.run(job, on_progress)
    if counted.n_rows != n_rows:
        raise DataError(
            f"pass {job.name!r}: {counted.n_rows} rows arrived of {n_rows}; no verdict is given on partial data"
        )
    return counted


class LazyResult(Delayed):
    """A Delayed that Dask optimises together with arrays.

    Computed with arrays of the same rows it shares their chunks. What is optimised apart, as plain
    Delayed objects are, `dask.compute` also returns out of order when kinds alternate.
    """

    __slots__ = ()

    @property
    def __dask_optimize__(self) -> Any:
        from dask.array import Array

        return Array.__dask_optimize__


def lazy_call(function: Callable[[Any], Any], result: Delayed) -> LazyResult:
    found = delayed(function, pure=False)(result)
    return LazyResult(found.key, found.__dask_graph__(), layer=found.__dask_layers__()[0])


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A job as Dask tasks."""

    tasks: dict[Key, Any]
    leaves: tuple[Key, ...]
    root: Key

    def layers(self) -> HighLevelGraph:
        """Return the tasks as one layer, which Dask takes as it is: a dict it would digest."""
        return HighLevelGraph.from_collections(str(self.root), self.tasks)

    def delayed(self, *rows: Any) -> Delayed:
        """Return the root as a lazy object that can be computed with others.

        The arrays `rows` that its tasks read stay layers of their own: what else is computed of
        them at the same time shares their chunks.
        """
        theirs = {key for one in rows for key in one.__dask_graph__()}
        own = {key: task for key, task in self.tasks.items() if key not in theirs}
        layers = HighLevelGraph.from_collections(str(self.root), own, dependencies=rows)
        return Delayed(self.root, layers, layer=str(self.root))


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A pickled context that every task carries; a process unpickles it once and remembers the last few."""

    token: str
    content: bytes

    @classmethod
    def of(cls, context: Any) -> Packed:
        return cls(uuid.uuid4().hex, cloudpickle.dumps(context))

    def unpack(self) -> Any:
        with _unpacking:
            if self.token not in _unpacked:
                _unpacked[self.token] = cloudpickle.loads(self.content)
            while len(_unpacked) > _MOST_UNPACKED:
                del _unpacked[next(iter(_unpacked))]
            return _unpacked[self.token]


def new_run_id() -> str:
    return uuid.uuid4().hex[:16]


def build_graph(
    job: Job, run: str | None = None, *, n_contexts: int = 0, sent: Mapping[Any, Key] | None = None
) -> Graph:
    """Build the tasks of a job.

    Keys are ("streamhalf-<pass>-<run>", i): Dask's dashboard shows the tasks of a pass together,
    and those of two runs apart; a pass that runs again needs another `run`. Without `n_contexts`
    every task carries the context (or a `Packed` one); else so many tasks hold it, each for a run
    of neighbouring tasks: a worker that holds what tasks depend on attracts them all. `sent` has
    the keys of rows that a cluster holds already, by `SharedRows.name`.
    """
    run, n_items = run or new_run_id(), len(job.items)
    held = [DataNode((f"streamhalf-context-{job.name}-{run}", i), job.context) for i in range(n_contexts)]
    contexts = [held[i * n_contexts // n_items].ref() if held else job.context for i in range(n_items)]
    leaves = [
        Task((f"streamhalf-{job.name}-{run}", i), _leaf, job.leaf, context, _argument(item, sent))
        for i, (context, item) in enumerate(zip(contexts, job.items, strict=True))
    ]
    tasks = _lazy_rows(job.items) | {task.key: task for task in (*held, *leaves)}
    nodes, level, step = leaves, 0, job.split_every
    while len(nodes) > 1:
        groups, contexts = ([nodes[i : i + step] for i in range(0, len(nodes), step)], contexts[::step])
        name = f"streamhalf-combine-{job.name}-{run}"
        nodes = [
            group[0]
            if len(group) == 1
            else Task((name, level, i), _merge, context, job.combine, List(*(n.ref() for n in group)))
            for i, (group, context) in enumerate(zip(groups, contexts, strict=True))
        ]
        tasks |= {task.key: task for task in nodes}
        level += 1
    return Graph(tasks, tuple(task.key for task in leaves), nodes[0].key)


def _leaf(leaf: Callable[[Any, Any], Counted], context: Any, item: Any) -> Counted:
    return leaf(context.unpack() if isinstance(context, Packed) else context, item)


def _merge(context: Any, combine: Callable[..., Any], parts: list[Counted]) -> Counted:
    return merge(context.unpack() if isinstance(context, Packed) else context, combine, parts)


def _argument(item: Any, sent: Mapping[Any, Key] | None) -> Any:
    """Replace what others compute or hold by references to their keys."""

    def part_of(part: Any) -> Any:
        if isinstance(part, Delayed):
            return TaskRef(part.key)
        if isinstance(part, SharedRows):
            return part.value if sent is None else TaskRef(sent[part.name])
        return part

    if isinstance(item, tuple) and any(isinstance(part, Delayed | SharedRows) for part in item):
        return List(*map(part_of, item))
    return item


def _lazy_rows(items: tuple[Any, ...]) -> dict[Key, Any]:
    """Return the tasks behind all Delayed objects in items; those of one array share one graph."""
    parts = (part for item in items if isinstance(item, tuple) for part in item)
    graphs = (part.__dask_graph__() for part in parts if isinstance(part, Delayed))
    distinct = {id(graph): graph for graph in graphs}
    return {key: task for graph in distinct.values() for key, task in graph.items()}
