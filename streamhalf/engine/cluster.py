"""Dask engines: threads in this process, or a `distributed` cluster through its client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import queue
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import dask.config
from dask import threaded
from dask.callbacks import Callback

from streamhalf.engine.dask_graph import build_graph
from streamhalf.engine.job import Counted, Engine, Job, OnProgress
from streamhalf.engine.memory import WorkerLimit
from streamhalf.errors import StreamhalfError

if TYPE_CHECKING:
    from distributed import Client, Future

logger = logging.getLogger("streamhalf")

_LOOK_SECONDS = 2.0
"""Without news for so long, the cluster is asked whether anybody still works."""

_GLANCE_SECONDS = 10.0
"""With news, it is asked so often: a worker may be lost or paused while others work."""

_STUCK_SECONDS = 300.0
"""A cluster without a working worker is given up after this: a batch queue may take minutes."""

RESUME = "passes that were saved stay saved: run again with --resume (with --checkpoint)"
"""What to do when a run has ended early."""


class ThreadsEngine(Engine):
    """Dask's threaded scheduler: chunks in parallel, one BLAS thread each."""

    lazy, remote = True, False

    def __init__(self, n_threads: int | None = None) -> None:
        self._n_threads = n_threads or available_cpus()

    @property
    def n_threads(self) -> int:
        """Threads of this process that tasks run in."""
        return self._n_threads

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        """Run a job to its end."""
        graph = build_graph(job)
        rows = dict(zip(graph.leaves, job.rows, strict=True))

        def posttask(key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
            if key in rows:
                on_progress(rows[key])

        with Callback(posttask=posttask):
            # a pool of its own: Dask keeps one for every number of threads it is ever asked for
            pool = ThreadPoolExecutor(min(self.n_threads, job.at_once or self.n_threads))
            try:
                result: Counted = threaded.get(graph.tasks, graph.root, pool=pool)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        return result


class ClusterEngine(Engine):
    """A `distributed` cluster: this machine's processes or a `dask scheduler` anywhere."""

    lazy = remote = True

    def __init__(self, client: Client) -> None:
        self.client = client
        self._watch = _Watch(client)

    @property
    def address(self) -> str:
        """Where the scheduler is."""
        return str(self.client.scheduler_info(n_workers=0)["address"])

    @property
    def n_threads(self) -> int:
        """Largest number of threads of any worker."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return max((int(worker["nthreads"]) for worker in workers), default=1)

    @property
    def n_processes(self) -> int:
        """Workers that are there now."""
        return max(1, int(self.client.scheduler_info(n_workers=0)["n_workers"]))

    def everywhere(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call something here and on every worker."""
        call(*arguments)
        with contextlib.suppress(Exception):  # a cluster that is gone has nothing to forget
            self.client.run(call, *arguments, on_error="ignore")

    def worker_limits(self) -> tuple[WorkerLimit, ...]:
        """What workers may use before they pause; one whose memory is not watched has no limit."""
        pause = dask.config.get("distributed.worker.memory.pause", None) or 1.0
        found = self.client.scheduler_info(n_workers=-1)["workers"].items()
        return tuple(
            WorkerLimit(address, int(worker["nthreads"]), int(pause * worker["memory_limit"]))
            for address, worker in found
            if worker.get("memory_limit")
        )

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
        wanted = weakref.WeakSet(futures)
        del futures, future  # a partial may go as soon as it is combined
        try:
            self._follow(job.name, done, final, rows, on_progress)
            result = self._outcome(job.name, final)
        except BaseException:
            for future in (*wanted, final):  # callbacks alone would keep their tasks wanted
                future.release()
            raise
        self._watch.look(job.name)
        for left in rows.values():  # news of the last leaves may come after that of the root
            on_progress(left)
        return result

    def _follow(
        self,
        name: str,
        done: queue.SimpleQueue[Future[Any]],
        final: Future[Any],
        rows: dict[Any, int],
        on_progress: OnProgress,
    ) -> None:
        """Tell of tasks as they end, until the last one has ended or one has failed."""
        watch = self._watch
        watch.idle_since = None
        while True:
            try:
                finished = done.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                watch.look(name)
                on_progress(0)  # whoever wants the run to end can say so
                continue
            if finished.key == final.key or finished.status in ("error", "cancelled"):
                return
            watch.idle_since = None
            watch.glance(name)
            on_progress(rows.pop(finished.key))

    def _outcome(self, name: str, final: Future[Any]) -> Counted:
        from distributed import KilledWorker

        try:
            result: Counted = final.result()
        except KilledWorker as error:
            raise StreamhalfError(
                f"pass {name!r}: {error.allowed_failures + 1} workers died one after the other on "
                "one task; the usual cause is memory (see the workers' logs): raise their "
                f"--memory-limit or store smaller chunks; {RESUME}"
            ) from error
        except (asyncio.CancelledError, concurrent.futures.CancelledError) as error:
            raise StreamhalfError(
                f"pass {name!r}: the connection to the scheduler was lost; {RESUME}"
            ) from error
        return result


class _Watch:
    """Looks at a cluster while it is silent: says what it waits for, and gives up in the end."""

    def __init__(self, client: Client) -> None:
        self.idle_since: float | None = None
        self._client = client
        self._seen = frozenset(client.scheduler_info(n_workers=-1)["workers"])
        self._paused: frozenset[str] = frozenset()
        self._looked = time.monotonic()

    def glance(self, name: str) -> None:
        """Look, if the last time is long ago."""
        if time.monotonic() - self._looked > _GLANCE_SECONDS:
            self.look(name)

    def look(self, name: str) -> None:
        """Note since when no worker works on a pass; Dask itself would wait for ever."""
        self._looked = time.monotonic()
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, TimeoutError, RuntimeError):
            return  # a lost scheduler cancels the futures, which is told elsewhere
        for lost in sorted(self._seen - found.keys()):
            logger.warning("pass %s: worker %s was lost; others do its work", name, lost)
        self._seen = frozenset(found)
        paused = {one for one, worker in found.items() if worker.get("status") == "paused"}
        for one in sorted(paused - self._paused):
            logger.warning("pass %s: worker %s is paused, short of memory", name, one)
        for one in sorted((self._paused - paused) & found.keys()):
            logger.warning("pass %s: worker %s works again", name, one)
        self._paused = frozenset(paused)
        if any(worker.get("status") == "running" for worker in found.values()):
            self.idle_since = None
            return
        now = time.monotonic()
        if self.idle_since is None:
            self.idle_since = now
            state = f"all {len(found)} workers are paused" if found else "there is no worker"
            logger.warning("pass %s: waiting for workers: %s", name, state)
        if now - self.idle_since > _STUCK_SECONDS:
            why = (
                f"all {len(found)} workers are paused, short of memory (raise their --memory-limit)"
                if found
                else "the cluster has no worker any more (start some with `dask worker`)"
            )
            raise StreamhalfError(
                f"pass {name!r}: nothing ran for {_STUCK_SECONDS:g} s: {why}; {RESUME}"
            )


def available_cpus() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
