"""Where a run runs: the scheduler is chosen, its engine opened, its workers checked and surveyed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.config
import numpy as np
from dask.utils import parse_timedelta
from threadpoolctl import threadpool_limits

from streamhalf.config import AUTO, SETTINGS, check_names, read_settings
from streamhalf.data.arrays import ArrayReader, DaskReader, PieceReader
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.data.clients import active_client, waitable
from streamhalf.data.source import Source
from streamhalf.data.zarr_groups import AccessCheck
from streamhalf.engine.cluster import (
    RESUME,
    ClusterEngine,
    ClusterOptions,
    ThreadsEngine,
    ask_for_worker,
    available_cpus,
    call_on_workers,
)
from streamhalf.engine.job import Engine, SerialEngine, run_job
from streamhalf.engine.memory import trim_memory
from streamhalf.engine.plan import PassPlan
from streamhalf.errors import DataError, StreamhalfError, UsageError
from streamhalf.events import ignore
from streamhalf.redact import one_line
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.labels import LabelCounts
from streamhalf.results import Notice, NoticeCode, WorkerRecord, installed_versions

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("streamhalf")

_WHERE = "the section `streamhalf` of Dask's configuration"

_DASK_SCHEDULERS = {
    "threads": ("threads", "threading"),
    "serial": ("sync", "synchronous", "single-threaded"),
    "processes": ("processes", "multiprocessing"),
}
"""By our schedulers, values of Dask's own setting `scheduler`."""

_OWN_MALLOC = {
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 128 << 20,
}
"""Of worker processes that end with the run: memory is used again. Dask has malloc give it back at
once, so that the kernel clears every page anew for each block of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Where a run runs; `notices` say so where the run itself does not name it."""

    target: str | Client
    notices: tuple[Notice, ...] = ()

    @property
    def name(self) -> str:
        """The word or the address."""
        if isinstance(self.target, str):
            return self.target
        return str(self.target.scheduler_info(n_workers=0)["address"])

    @classmethod
    def noticed(cls, target: str | Client, why: str) -> Chosen:
        """A choice with its notice."""
        place = cls(target).name
        return cls(target, (Notice.of(NoticeCode.RUNS_ON, place=place, why=why),))


def choose(scheduler: str, client: Client | None = None, source: Source | None = None) -> Chosen:
    """Choose where a run runs.

    A client goes before everything, then the setting `scheduler`. With "auto", in this order: the
    cluster that holds persisted data, what Dask's setting `scheduler` names, the active client,
    Dask's setting `scheduler-address`, threads.
    """
    if client is not None:
        return Chosen(waitable(client))
    if scheduler != AUTO:
        return Chosen(scheduler)
    if (held := _holder(source)) is not None:
        return Chosen.noticed(held, "which holds the data")
    word = str(dask.config.get("scheduler", None)).lower()
    for ours, words in _DASK_SCHEDULERS.items():
        if word in words:
            return Chosen(ours)
    if (active := active_client()) is not None:
        return Chosen.noticed(active, "the active client")
    if address := dask.config.get("scheduler-address", None):
        return Chosen.noticed(str(address), "named by Dask's scheduler-address")
    return Chosen("threads")


def dask_settings() -> dict[str, Any]:
    """Return the settings in the section `streamhalf` of Dask's configuration."""
    section = dask.config.get("streamhalf", None)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise UsageError(f"{_WHERE}: expected 'name: value' lines, got {type(section).__name__}")
    given = {str(name).replace("-", "_"): value for name, value in section.items()}
    check_names(given, SETTINGS, _WHERE)
    return read_settings(given)


def refuse_elsewhere(engine: Engine, source: Source | None) -> None:
    """Refuse to run on one cluster what another one holds."""
    held = _holder(source)
    if held is None or not isinstance(engine, ClusterEngine) or held is engine.client:
        return
    theirs, ours = (one.scheduler_info(n_workers=0) for one in (held, engine.client))
    if theirs["id"] != ours["id"]:
        raise UsageError(
            f"scheduler: the run is on {ours['address']}, but the data are persisted on "
            f"{theirs['address']}; leave client= and scheduler= out, or persist the data there"
        )


def _holder(source: Source | None) -> Client | None:
    """Return the client of the cluster that holds the data, if they are persisted."""
    reader = None if source is None else source.reader
    return reader.client if isinstance(reader, DaskReader) else None


@contextlib.contextmanager
def open_engine(
    scheduler: str | Client, n_workers: int | None = None, options: ClusterOptions | None = None
) -> Iterator[Engine]:
    """Open an engine, and close it again.

    `scheduler` is "serial", "threads", "processes" (a local cluster of one-thread workers), the
    address or the scheduler file of a running Dask scheduler, or a `distributed` client.
    `n_workers` are the threads or processes of the local ones (None: one per core), `options` how
    the run behaves on a cluster.
    """
    if n_workers is not None and n_workers < 1:
        raise UsageError(f"n_workers: {n_workers} is out of range; use at least 1")
    # tasks are the parallelism: threads times BLAS threads must not exceed the cores, and the
    # driver's small eigenproblems only lose by them; set once, not inside tasks
    try:
        with threadpool_limits(limits=1), _open(scheduler, n_workers, options or ClusterOptions()) as engine:
            yield engine
    except OSError as error:
        if type(error).__name__ != "CommClosedError":  # Dask's, which takes a second to import
            raise
        raise StreamhalfError(f"scheduler: the connection to it was lost; {RESUME}") from error
    finally:
        trim_memory()


@contextlib.contextmanager
def _open(scheduler: str | Client, n_workers: int | None, options: ClusterOptions) -> Iterator[Engine]:
    if not isinstance(scheduler, str):
        with _on_cluster(scheduler, options) as engine:
            yield engine
    elif scheduler == "serial":
        yield SerialEngine()
    elif scheduler == "threads":
        yield ThreadsEngine(n_workers)
    elif scheduler == "processes":
        with _quiet_dask(), _local_cluster(n_workers or available_cpus()) as client:
            yield ClusterEngine(client, options)
    elif "://" in scheduler or os.path.isfile(scheduler):
        with _quiet_dask(), _connect(scheduler) as client, _on_cluster(client, options) as engine:
            yield engine
    else:
        raise UsageError(
            f"scheduler: {scheduler!r} is unknown; use serial, threads, processes, an address such "
            "as tcp://host:8786, or an existing scheduler file"
        )


@contextlib.contextmanager
def _on_cluster(client: Client, options: ClusterOptions) -> Iterator[ClusterEngine]:
    """Open an engine on a cluster that others use too, and leave it as it was found."""
    _wait_for_workers(client, options.worker_timeout)
    _check_workers(client)
    engine, ended = ClusterEngine(client, options), False
    try:
        yield engine
        ended = True
    finally:
        engine.close(trim=ended)


@contextlib.contextmanager
def _quiet_dask() -> Iterator[None]:
    """Restrict Dask's own log of a connection that is ours alone to critical messages.

    A lost scheduler is one error of ours; Dask would show several tracebacks before it.
    """
    import distributed  # noqa: F401  (its import sets the levels of its loggers)

    names = {"asyncio", "tornado.application"} | {
        name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"
    }
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


@contextlib.contextmanager
def _local_cluster(n_workers: int) -> Iterator[Client]:
    from distributed import Client, LocalCluster

    with (
        dask.config.set(_OWN_MALLOC),
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def _connect(scheduler: str) -> Client:
    from distributed import Client

    seconds = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))
    try:
        address = scheduler
        if "://" not in scheduler:  # a file; Dask itself starts a cluster here where it finds none
            address = json.loads(Path(scheduler).read_text(encoding="utf-8"))["address"]
            if not isinstance(address, str):
                raise TypeError(f"address {address!r}")
        return Client(address, timeout=seconds, set_as_default=False)
    except (OSError, TimeoutError, ValueError, LookupError, TypeError) as error:
        raise StreamhalfError(
            f"scheduler: cannot reach {scheduler} within {seconds:g} s "
            f"({type(error).__name__}); is `dask scheduler` running there? (the wait is Dask's "
            "distributed.comm.timeouts.connect)"
        ) from error


def _wait_for_workers(client: Client, seconds: float) -> None:
    """Wait until a cluster has a worker; a task that waits makes adaptive clusters start one."""
    found = client.scheduler_info(n_workers=0)
    if found["n_workers"]:
        return
    logger.warning("waiting for workers: none has joined %s yet", found["address"])
    asking = ask_for_worker(client)
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError as error:
        raise StreamhalfError(
            f"scheduler: no worker joined in {seconds:g} s (worker_timeout); start some with `dask "
            "worker` and the scheduler's address, or wait longer"
        ) from error
    finally:
        asking.release()


def _check_workers(client: Client) -> None:
    """Refuse workers that would compute something else."""
    for package in ("streamhalf", "numpy"):
        wanted = importlib.metadata.version(package)
        found = call_on_workers(client, importlib.metadata.version, package)
        for worker, version in sorted(found.items()):
            if version != wanted and not isinstance(version, OSError):  # a worker just lost
                has = f"version {version}" if isinstance(version, str) else "none"
                raise StreamhalfError(
                    f"scheduler: worker {worker} has {package} {has}, this process has version "
                    f"{wanted}; install the same on every worker"
                )


def check_access(engine: Engine, check: AccessCheck | None) -> None:
    """Refuse a store that a worker cannot reach, before a task fails on it."""
    if check is None or not isinstance(engine, ClusterEngine):
        return
    for worker, found in sorted(call_on_workers(engine.client, check.problem).items()):
        if isinstance(found, OSError):
            continue  # a worker that has just been lost, as any may be
        if isinstance(found, BaseException):
            found = f"cannot look at {check.name}: {one_line(found)}"
        if found is not None:
            raise DataError(f"worker {worker} {found}")


_TRIED_ROWS = 1 << 15  # enough to time a statistic


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """The blocks that processes read one of each, and the statistics that are timed on its rows."""

    source: Source
    reductions: Mapping[str, Reduction[Any, Any]]

    def of(self, engine: Engine) -> tuple[WorkerRecord, ...]:
        """Return what the processes of an engine found, in the order of their addresses."""
        if isinstance(engine, ClusterEngine):
            return self._of_cluster(engine)
        return (self.look("this process", engine.n_threads, None, self.source.blocks[0]),)

    def look(self, address: str, n_threads: int, memory_nbytes: int | None, rows: RowRange | None) -> WorkerRecord:
        """Read rows in this process, and time the statistics on them."""
        started = time.perf_counter()
        blocks = [] if rows is None else list(self.source.read_each(RowRanges.of((rows,))))
        seconds, n_rows = time.perf_counter() - started, sum(block.n_rows for block in blocks)
        return WorkerRecord(
            address=address,
            n_threads=n_threads,
            memory_nbytes=memory_nbytes,
            versions=installed_versions(),
            rows_read=n_rows,
            bytes_read=n_rows * self.source.row_nbytes,
            seconds=seconds,
            work={name: _seconds_a_row(one, blocks) for name, one in self.reductions.items()},
        )

    def _of_cluster(self, engine: ClusterEngine) -> tuple[WorkerRecord, ...]:
        limits = {one.address: one.room for one in engine.worker_limits()}
        found = engine.client.scheduler_info(n_workers=-1)["workers"]
        threads = {address: int(worker["nthreads"]) for address, worker in sorted(found.items())}
        blocks: dict[str, RowRange | None] = dict.fromkeys(threads)
        survey, own = self, self.source.blocks
        if isinstance(self.source.reader, DaskReader | ArrayReader):
            # rows come by a graph: persisted ones may not travel, and those in memory need not
            plan = PassPlan("dry-run", self.source, LabelCounts(), RowRanges.of((own[0],)))
            run_job(engine, plan.job_for(engine), ignore)
            survey = replace(self, source=replace(self.source, reader=PieceReader()))
        else:
            blocks = {one: own[i % len(own)] for i, one in enumerate(threads)}

        async def look(dask_worker: Any) -> WorkerRecord:  # the worker's event loop goes on
            one = dask_worker.address
            known = (threads.get(one, 1), limits.get(one), blocks.get(one))
            return await asyncio.to_thread(survey.look, one, *known)

        answers = engine.client.run(look, workers=list(threads), on_error="return")
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, StreamhalfError):
                raise DataError(f"worker {worker}: {answer}") from answer
            if isinstance(answer, BaseException):
                raise DataError(
                    f"worker {worker} cannot read rows of {self.source.name}: {one_line(answer)}"
                ) from answer
        return tuple(answers[worker] for worker in sorted(answers))


def _seconds_a_row(reduction: Reduction[Any, Any], blocks: list[Block]) -> float:
    """Time a statistic; 0 where there are no rows."""
    rows = [block.take(np.arange(min(_TRIED_ROWS, block.n_rows))) for block in blocks[:1]]
    if not rows or not rows[0].n_rows:
        return 0.0
    started = time.perf_counter()
    reduction.map(rows[0])
    return (time.perf_counter() - started) / rows[0].n_rows
