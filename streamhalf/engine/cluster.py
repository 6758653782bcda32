"""Dask engines: threads in this process, or a `distributed` cluster through its client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
import time
import uuid
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask import threaded
from dask._task_spec import DataNode, List, Task, TaskRef  # Dask's specification of graphs
from dask.callbacks import Callback
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.typing import Key

from streamhalf.engine.job import Counted, Job, OnProgress, merge
from streamhalf.errors import StreamhalfError

if TYPE_CHECKING:
    from distributed import Client, Future

_LOOK_SECONDS = 2.0
"""Without news for so long, the cluster is asked whether anybody still works."""

_STUCK_SECONDS = 300.0
"""A cluster without a working worker is given up after this: a batch queue may take minutes."""

_RESUME = "passes that were saved stay saved: run again with --resume (with --checkpoint)"


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A job as Dask tasks: built directly, for `dask.delayed` takes half a millisecond a task."""

    tasks: dict[Key, Any]
    leaves: tuple[Key, ...]
    root: Key

    def layers(self) -> HighLevelGraph:
        """The tasks as one layer, which Dask takes as it is: a bare dict it would digest first."""
        return HighLevelGraph.from_collections(str(self.root), self.tasks)

    def delayed(self) -> Delayed:
        """The root as a lazy object that can be computed with others."""
        return Delayed(self.root, self.layers(), layer=str(self.root))


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


class ThreadsEngine:
    """Dask's threaded scheduler: chunks in parallel, one BLAS thread each."""

    lazy = True

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads or available_cpus()

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        """Run a job to its end."""
        graph = build_graph(job)
        rows = dict(zip(graph.leaves, job.rows, strict=True))

        def posttask(key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
            if key in rows:
                on_progress(rows[key])

        with Callback(posttask=posttask):
            result: Counted = threaded.get(graph.tasks, graph.root, num_workers=self.n_threads)
        return result


class ClusterEngine:
    """A `distributed` cluster: this machine's processes or a `dask scheduler` anywhere."""

    lazy = True

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def n_threads(self) -> int:
        """Largest number of threads of any worker."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return max((int(worker["nthreads"]) for worker in workers), default=1)

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        """Run a job to its end; lost workers are replaced by others, a lost scheduler is not."""
        graph = build_graph(job)
        with warnings.catch_warnings():
            # arrays in memory travel with the graph: the only way a lost worker can be replaced
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            keys = [*graph.leaves, graph.root]
            *futures, final = self.client.get(graph.layers(), keys, sync=False)
        rows = dict(zip(graph.leaves, job.rows, strict=True))
        done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        for future in (*futures, final):
            future.add_done_callback(done.put)
        del futures, future  # a partial may go as soon as it is combined
        idle_since = None
        while True:
            try:
                finished = done.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                idle_since = self._look(job.name, idle_since)
                continue
            if finished.key == final.key or finished.status in ("error", "cancelled"):
                break
            idle_since = None
            on_progress(rows.pop(finished.key))
        result = self._outcome(job.name, final)
        for left in rows.values():  # news of the last leaves may come after that of the root
            on_progress(left)
        return result

    def _look(self, name: str, idle_since: float | None) -> float | None:
        """Since when no worker works, None if one does; Dask itself would wait for ever."""
        try:
            found = self.client.scheduler_info(n_workers=-1)["workers"].values()
        except (OSError, TimeoutError, RuntimeError):
            return idle_since  # a lost scheduler cancels the futures, which is told elsewhere
        if any(worker.get("status") == "running" for worker in found):
            return None
        now = time.monotonic()
        if idle_since is not None and now - idle_since > _STUCK_SECONDS:
            why = (
                f"all {len(found)} workers are paused, short of memory (raise their --memory-limit)"
                if found
                else "the cluster has no worker any more (start some with `dask worker`)"
            )
            raise StreamhalfError(
                f"pass {name!r}: nothing ran for {_STUCK_SECONDS:g} s: {why}; {_RESUME}"
            )
        return idle_since or now

    def _outcome(self, name: str, final: Future[Any]) -> Counted:
        from distributed import KilledWorker

        try:
            result: Counted = final.result()
        except KilledWorker as error:
            raise StreamhalfError(
                f"pass {name!r}: {error.allowed_failures + 1} workers died one after the other on "
                "one task; the usual cause is memory (see the workers' logs): raise their "
                f"--memory-limit or store smaller chunks; {_RESUME}"
            ) from error
        except (asyncio.CancelledError, concurrent.futures.CancelledError) as error:
            raise StreamhalfError(
                f"pass {name!r}: the connection to the scheduler was lost; {_RESUME}"
            ) from error
        return result


def available_cpus() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
