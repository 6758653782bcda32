"""Jobs as graphs of Dask tasks: the one module that touches how Dask specifies graphs.

`dask._task_spec` is private: the public `dask.delayed` takes half a millisecond a task. What is
relied upon is held by tests/engine/test_dask_graph.py, which says what changed upstream.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dask._task_spec import DataNode, List, Task, TaskRef
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.typing import Key

from streamhalf.engine.job import Job, merge


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
    """What a function makes of a lazy result."""
    found = delayed(function, pure=False)(result)
    return LazyResult(found.key, found.__dask_graph__(), layer=found.__dask_layers__()[0])


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A job as Dask tasks."""

    tasks: dict[Key, Any]
    leaves: tuple[Key, ...]
    root: Key

    def layers(self) -> HighLevelGraph:
        """The tasks as one layer, which Dask takes as it is: a bare dict it would digest first."""
        return HighLevelGraph.from_collections(str(self.root), self.tasks)

    def delayed(self, *rows: Any) -> Delayed:
        """The root as a lazy object that can be computed with others.

        The arrays `rows` that its tasks read stay layers of their own: what else is computed of
        them at the same time shares their chunks.
        """
        theirs = {key for one in rows for key in one.__dask_graph__()}
        own = {key: task for key, task in self.tasks.items() if key not in theirs}
        layers = HighLevelGraph.from_collections(str(self.root), own, dependencies=rows)
        return Delayed(self.root, layers, layer=str(self.root))


def build_graph(job: Job) -> Graph:
    """The tasks of a job; names start with the job's readable name."""
    name = job.name.replace("-", "_")  # Dask ends the prefix it shows at a part such as "-1"
    token = uuid.uuid4().hex  # a pass that runs again must not meet results of another run
    tasks = _lazy_rows(job.items)
    context = DataNode(f"{name}-context-{token}", job.context)
    leaves = [
        Task(f"{name}-map-{token}-{i}", job.leaf, context.ref(), _argument(item))
        for i, item in enumerate(job.items)
    ]
    tasks |= {task.key: task for task in (context, *leaves)}
    nodes, level = leaves, 0
    while len(nodes) > 1:
        groups = [nodes[i : i + job.split_every] for i in range(0, len(nodes), job.split_every)]
        nodes = [
            group[0]
            if len(group) == 1
            else Task(
                f"{name}-combine-{token}-{level}-{i}",
                merge,
                context.ref(),
                job.combine,
                List(*(node.ref() for node in group)),
            )
            for i, group in enumerate(groups)
        ]
        tasks |= {task.key: task for task in nodes}
        level += 1
    return Graph(tasks, tuple(task.key for task in leaves), nodes[0].key)


def _argument(item: Any) -> Any:
    """An item as a task takes it: Dask Delayed objects in it become references to their tasks."""
    if not isinstance(item, tuple) or not any(isinstance(part, Delayed) for part in item):
        return item
    return List(*(TaskRef(part.key) if isinstance(part, Delayed) else part for part in item))


def _lazy_rows(items: tuple[Any, ...]) -> dict[Key, Any]:
    """The tasks behind all Dask Delayed objects in items; those of one array share one graph."""
    parts = (part for item in items if isinstance(item, tuple) for part in item)
    graphs = (part.__dask_graph__() for part in parts if isinstance(part, Delayed))
    distinct = {id(graph): graph for graph in graphs}
    return {key: task for graph in distinct.values() for key, task in graph.items()}
