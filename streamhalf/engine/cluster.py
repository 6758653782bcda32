"""Dask engines: threads in this process, or a `distributed` cluster through its client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import logging
import os
import queue
import time
import uuid
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dask.config
from dask import threaded
from dask.callbacks import Callback
from dask.sizeof import sizeof

from streamhalf.config import RunConfig
from streamhalf.engine.job import Counted, Engine, Graph, Job, OnProgress, Packed, SharedRows, build_graph, new_run_id
from streamhalf.engine.memory import WorkerLimit, mib, trim_memory
from streamhalf.errors import StreamhalfError

if TYPE_CHECKING:
    from distributed import Client, Future

logger = logging.getLogger("streamhalf")
_LOOK_SECONDS = 2.0  # without news, after which the cluster is asked who still works
_GLANCE_SECONDS = 10.0  # with news: a worker may be lost or paused while others work
_BUSY_FACTOR = 10  # times as long a pass may be without progress where workers do execute tasks
_EXECUTING = ("executing", "long-running", "cancelled", "resumed")  # tasks that take a thread
_SCATTER_NBYTES = 64 << 20  # of rows in memory at a time: most go through the scheduler
_EMBEDDED_NBYTES = 1 << 15  # a larger context is not carried by every task
_MOST_ATTEMPTS = 5  # of one pass, where workers were lost that held rows in memory
# The remedy when a run has ended early
RESUME = "passes that were saved stay saved: run again with --resume (with --checkpoint)"


class ThreadsEngine(Engine):
    """Dask's threaded scheduler: chunks in parallel, one BLAS thread each."""

    lazy, remote = True, False

    def __init__(self, n_threads: int | None = None) -> None:
        self._n_threads = n_threads or available_cpus()

    @property
    def n_threads(self) -> int:
        return self._n_threads

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        graph = build_graph(job)
        rows = dict(zip(graph.leaves, job.rows, strict=True))

        def posttask(key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
            if key in rows:
                on_progress(rows[key])

        # a pool of its own: Dask keeps one for every number of threads it is ever asked for
        pool = ThreadPoolExecutor(min(self.n_threads, job.at_once or self.n_threads))
        try:
            with Callback(posttask=posttask):
                result: Counted = threaded.get(graph.tasks, graph.root, pool=pool)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return result


class ClusterEngine(Engine):
    """A `distributed` cluster: this machine's processes or a `dask scheduler` anywhere."""

    lazy = remote = True

    def __init__(self, client: Client, config: RunConfig | None = None) -> None:
        self.client = client
        self.config = config or RunConfig()
        self._run_id = new_run_id()
        self._names: Counter[str] = Counter()
        self._watch = _Watch(client, self.config)
        self._sent: dict[Any, tuple[SharedRows, Future[Any]]] = {}

    @property
    def n_threads(self) -> int:
        """Largest number of threads of any worker."""
        return max(self._threads().values(), default=1)

    @property
    def n_processes(self) -> int:
        return max(1, int(self.client.scheduler_info(n_workers=0)["n_workers"]))

    def everywhere(self, call: Callable[..., None], *arguments: Any) -> None:
        call(*arguments)
        with contextlib.suppress(Exception):  # a cluster that is gone has nothing to forget
            call_on_workers(self.client, call, *arguments)

    def worker_limits(self) -> tuple[WorkerLimit, ...]:
        """Limits at which workers pause; one whose memory is not watched has none."""
        pause = dask.config.get("distributed.worker.memory.pause", None) or 1.0
        return tuple(
            WorkerLimit(address, int(worker["nthreads"]), int(pause * worker["memory_limit"]))
            for address, worker in workers_of(self.client).items()
            if worker.get("memory_limit")
        )

    def _threads(self) -> dict[str, int]:
        return {address: int(worker["nthreads"]) for address, worker in workers_of(self.client).items()}

    def close(self, *, trim: bool) -> None:
        """Drop the rows that workers hold for this run; with `trim`, give free memory back."""
        self._sent.clear()
        if trim and self.client.status == "running":
            with contextlib.suppress(Exception):
                call_on_workers(self.client, trim_memory)

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        """Run a job to its end; rows that lost workers held are sent again."""
        left = dict(enumerate(job.rows))
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            try:
                return self._attempt(job, left, on_progress)
            except (asyncio.CancelledError, concurrent.futures.CancelledError) as error:
                gone = self._forget_lost()
                if not gone or attempt == _MOST_ATTEMPTS or self.client.status != "running":
                    raise StreamhalfError(
                        f"pass {job.name!r}: the connection to the scheduler was lost; {RESUME}"
                    ) from error
            logger.warning("pass %s: %d blocks of rows were lost and are sent again", job.name, gone)
        raise AssertionError

    def _attempt(self, job: Job, left: dict[int, int], on_progress: OnProgress) -> Counted:
        """Submit a job and follow it; `left` has the rows of tasks not yet reported."""
        self._watch.begin()
        sent = self._send(job)
        graph = self._graph(job, sent)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
            keys = [*graph.leaves, graph.root]
            *futures, final = self.client.get(graph.layers(), keys, sync=False)
        done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        for future in (*futures, final):
            future.add_done_callback(done.put)
        wanted = weakref.WeakSet(futures)
        del futures, future  # a partial may go as soon as it is combined

        from distributed import KilledWorker

        try:
            self._follow(job.name, done, final, lambda key: on_progress(left.pop(key[1], 0)))
            result: Counted = final.result()
        except BaseException as error:
            for future in (*wanted, final):  # callbacks alone would keep their tasks wanted
                future.release()
            if isinstance(error, KilledWorker):
                raise StreamhalfError(
                    f"pass {job.name!r}: {error.allowed_failures + 1} workers died one after the other on "
                    "one task; the usual cause is memory (see the workers' logs): raise their "
                    f"--memory-limit or store smaller chunks; {RESUME}"
                ) from error
            raise
        self._watch.begin()
        self._watch.look(job.name)
        for i in list(left):  # news of the last leaves may come after that of the root
            on_progress(left.pop(i))
        return result

    def _graph(self, job: Job, sent: dict[Any, Any]) -> Graph:
        """Build the tasks of a job, with a context that keeps no worker from taking them."""
        self._names[job.name] += 1
        again = self._names[job.name]
        run = self._run_id if again == 1 else f"{self._run_id}-{again}"
        packed = Packed.of(job.context)
        if len(packed.content) <= _EMBEDDED_NBYTES:
            return build_graph(replace(job, context=packed), run, sent=sent)
        # Dask itself spreads tasks that are many more than threads, whatever they all depend on
        threads, n_items = self._threads(), len(job.items)
        few = n_items <= 2 * sum(threads.values())
        return build_graph(job, run, n_contexts=min(n_items, len(threads)) if few else 1, sent=sent)

    def _send(self, job: Job) -> dict[Any, Any]:
        """Send rows in memory that workers do not hold yet; return the keys of all, by name."""
        parts = (part for item in job.items if isinstance(item, tuple) for part in item)
        shared = {part.name: part for part in parts if isinstance(part, SharedRows)}
        fresh = [one for name, one in shared.items() if name not in self._sent]
        portion: dict[Any, SharedRows] = {}
        nbytes = 0
        for one in fresh:
            portion[(f"streamhalf-rows-{self._run_id}", uuid.uuid4().hex)] = one
            nbytes += sizeof(one.value)
            if nbytes >= _SCATTER_NBYTES or one is fresh[-1]:
                self._scatter(job.name, portion)
                portion, nbytes = {}, 0
        return {name: self._sent[name][1].key for name in shared}

    def _scatter(self, name: str, portion: dict[Any, SharedRows]) -> None:
        values, asking = {key: one.value for key, one in portion.items()}, None
        for attempt in itertools.count(1):
            try:
                futures = self.client.scatter(values, timeout=_LOOK_SECONDS)
                break
            except TimeoutError:  # no worker takes data now
                asking = asking or ask_for_worker(self.client)
                self._watch.look(name)
            except OSError:  # a worker was lost meanwhile
                if attempt >= _MOST_ATTEMPTS or self.client.status != "running":
                    raise
                time.sleep(_LOOK_SECONDS / 2)
        self._sent |= {one.name: (one, futures[key]) for key, one in portion.items()}

    def _forget_lost(self) -> int:
        """Forget rows that no worker holds any more; return how many blocks these are."""
        lost = [name for name, (_, future) in self._sent.items() if future.status != "finished"]
        for name in lost:
            del self._sent[name]
        return len(lost)

    def _follow(
        self, name: str, done: queue.SimpleQueue[Future[Any]], final: Future[Any], tell: Callable[[Any], None]
    ) -> None:
        """Report tasks as they end, until the last one has ended or one has failed."""
        while True:
            try:
                finished = done.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._watch.look(name)
                tell((name, -1))  # an observer may cancel the run
                continue
            if finished.key == final.key or finished.status in ("error", "cancelled", "lost"):
                return
            self._watch.glance(name)
            tell(finished.key)


class _Watch:
    """Watches a cluster while a pass runs: reports waits, and ends a pass without progress."""

    def __init__(self, client: Client, config: RunConfig) -> None:
        self._client, self._config = client, config
        self._seen = frozenset(workers_of(client))
        self._paused: frozenset[str] = frozenset()
        self.begin()

    def begin(self) -> None:
        """Note that a pass begins, or that a task of it has ended."""
        self._progress = self._active = self._looked = time.monotonic()
        self._said = False

    def glance(self, name: str) -> None:
        """Note that a task has ended; look again after a while."""
        looked = self._looked
        self.begin()
        self._looked = looked
        if time.monotonic() - looked > _GLANCE_SECONDS:
            self.look(name)

    def look(self, name: str) -> None:
        """Report lost and paused workers; end a pass without progress, which Dask would not."""
        self._looked = time.monotonic()
        try:
            found = workers_of(self._client)
        except (OSError, TimeoutError, RuntimeError):
            return  # a lost scheduler cancels the futures
        paused = {one for one, worker in found.items() if worker.get("status") == "paused"}
        for told, workers in (
            ("was lost; others do its work", self._seen - found.keys()),
            ("is paused, short of memory", paused - self._paused),
            ("works again", (self._paused - paused) & found.keys()),
        ):
            for one in sorted(workers):
                logger.warning("pass %s: worker %s %s", name, one, told)
        if found and not self._seen:
            self.begin()  # the wait for workers is over
        self._seen, self._paused = frozenset(found), frozenset(paused)
        if not self._said and len(paused) == len(found):
            state = f"all {len(found)} workers are paused" if found else "there is no worker"
            logger.warning("pass %s: waiting for workers: %s", name, state)
            self._said = True
        self._check_progress(name, found)

    def _check_progress(self, name: str, found: Mapping[str, Any]) -> None:
        now = time.monotonic()
        # as workers told last, cancelled tasks included
        counts = [worker.get("metrics", {}).get("task_counts", {}) for worker in found.values()]
        executing = sum(int(one.get(state, 0)) for one in counts for state in _EXECUTING)
        if executing:
            self._active = now
        silent, idle = now - self._progress, now - self._active
        setting = "stall_timeout" if found else "worker_timeout"
        limit: float = getattr(self._config, setting)
        reason = self._reason(found, executing)
        if idle > limit or silent > _BUSY_FACTOR * limit:
            raise StreamhalfError(
                f"pass {name!r}: no task has ended for {silent:.0f} s: {reason}; to wait longer, "
                f"raise {setting} ({limit:g} s); {RESUME}"
            )
        if silent > limit / 2 and not self._said:
            logger.warning("pass %s: no task has ended for %.0f s: %s", name, silent, reason)
            self._said = True

    def _reason(self, found: Mapping[str, Any], executing: int) -> str:
        if not found:
            return "the cluster has no worker any more (start some with `dask worker`)"
        if self._paused:
            one = min(self._paused)
            used, limit = found[one]["metrics"]["memory"], found[one]["memory_limit"]
            which = "all workers" if len(self._paused) == len(found) else f"worker {one}"
            return (
                f"{len(self._paused)} of {len(found)} workers are paused, short of memory ({one} "
                f"uses {mib(used)} of {mib(limit)}); raise the --memory-limit of {which}, or add "
                "workers"
            )
        if executing:
            return (
                f"{executing} tasks are executing on {len(found)} workers, of this run or of "
                "others; see the dashboard for what they wait for"
            )
        return f"{len(found)} workers execute nothing; see the dashboard and the workers' logs"


def address_of(client: Client) -> str:
    """Return where the scheduler is."""
    return str(client.scheduler_info(n_workers=0)["address"])


def workers_of(client: Client) -> dict[str, Any]:
    """Return what the scheduler tells of each worker, by address."""
    found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    return found


def ask_for_worker(client: Client) -> Future[Any]:
    """Submit a task, for which adaptive clusters start a worker as long as it is kept."""
    return client.submit(os.getpid, key=(f"streamhalf-start-{new_run_id()}", 0))


def call_on_workers(client: Client, call: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Call a function on every worker, in a thread beside its event loop; return errors too."""

    async def beside() -> Any:  # sent by value: what a worker lacks is an error of the call
        import asyncio

        return await asyncio.to_thread(call, *arguments)

    found: dict[str, Any] = client.run(beside, on_error="return")
    return found


def available_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
