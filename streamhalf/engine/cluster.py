"""Dask engines: threads in this process, or a `distributed` cluster through its client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
import time
import warnings
from typing import TYPE_CHECKING, Any

from dask import threaded
from dask.callbacks import Callback

from streamhalf.engine.dask_graph import build_graph
from streamhalf.engine.job import Counted, Job, OnProgress
from streamhalf.errors import StreamhalfError

if TYPE_CHECKING:
    from distributed import Client, Future

_LOOK_SECONDS = 2.0
"""Without news for so long, the cluster is asked whether anybody still works."""

_STUCK_SECONDS = 300.0
"""A cluster without a working worker is given up after this: a batch queue may take minutes."""

_RESUME = "passes that were saved stay saved: run again with --resume (with --checkpoint)"


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
