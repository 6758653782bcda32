"""Jobs as graphs of Dask tasks: the one module that touches how Dask specifies graphs.

`dask._task_spec` is private: the public `dask.delayed` takes half a millisecond a task.
tests/engine/test_dask_graph.py holds what is relied upon, and says what changed upstream.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cloudpickle
from dask._task_spec import DataNode, List, Task, TaskRef
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.typing import Key

from streamhalf.engine.job import Counted, Job, SharedRows, merge

_MOST_UNPACKED = 4
_unpacked: dict[str, Any] = {}
_unpacking = threading.Lock()


class LazyResult(Delayed):
    """A Delayed that Dask optimises together with arrays.

    Computed with arrays of the same rows it shares their chunks. What is optimised apart, as plain
    Delayed objects are, `dask.compute` also returns out of order when kinds alternate.
    """

    __slots__ = ()

    @property
    def __dask_optimize__(self) -> Any:
        """That of arrays."""
        from dask.array import Array

        return Array.__dask_optimize__


def lazy_call(function: Callable[[Any], Any], result: Delayed) -> LazyResult:
    """Apply a function to a lazy result, lazily."""
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
    """A pickled context that every task carries; a process unpickles it once."""

    token: str
    content: bytes

    @classmethod
    def of(cls, context: Any) -> Packed:
        """Pickle a context."""
        return cls(uuid.uuid4().hex, cloudpickle.dumps(context))

    def unpack(self) -> Any:
        """Return the context; a process remembers the last few."""
        with _unpacking:
            if self.token not in _unpacked:
                _unpacked[self.token] = cloudpickle.loads(self.content)
            while len(_unpacked) > _MOST_UNPACKED:
                del _unpacked[next(iter(_unpacked))]
            return _unpacked[self.token]


def new_run_id() -> str:
    """Return a name for the tasks of one run."""
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
