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

from streamhalf.config import AUTO, SETTINGS, RunConfig, check_names, read_settings
from streamhalf.data.arrays import ArrayReader, DaskReader, PieceReader
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.data.clients import active_client, waitable
from streamhalf.data.source import Source
from streamhalf.data.zarr_groups import AccessCheck
from streamhalf.engine.cluster import (
    RESUME,
    ClusterEngine,
    ThreadsEngine,
    address_of,
    ask_for_worker,
    available_cpus,
    call_on_workers,
    workers_of,
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
# Our schedulers, by values of Dask's own setting `scheduler`
_DASK_SCHEDULERS = {
    **dict.fromkeys(("threads", "threading"), "threads"),
    **dict.fromkeys(("sync", "synchronous", "single-threaded"), "serial"),
    **dict.fromkeys(("processes", "multiprocessing"), "processes"),
}
# Of worker processes that end with the run: memory is used again. Dask has malloc give it back at once, so that the
# kernel clears every page anew for each block of rows.
_OWN_MALLOC = {
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 128 << 20,
}


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Where a run runs, and `why`, where the run itself does not name it."""

    target: str | Client
    why: str = ""

    @property
    def name(self) -> str:
        """The word or the address."""
        return self.target if isinstance(self.target, str) else address_of(self.target)

    @property
    def notices(self) -> tuple[Notice, ...]:
        return (Notice.of(NoticeCode.RUNS_ON, place=self.name, why=self.why),) if self.why else ()


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
        return Chosen(held, "which holds the data")
    word = str(dask.config.get("scheduler", None)).lower()
    if word in _DASK_SCHEDULERS:
        return Chosen(_DASK_SCHEDULERS[word])
    if (active := active_client()) is not None:
        return Chosen(active, "the active client")
    if address := dask.config.get("scheduler-address", None):
        return Chosen(str(address), "named by Dask's scheduler-address")
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
def open_engine(scheduler: str | Client, config: RunConfig | None = None) -> Iterator[Engine]:
    """Open an engine, and close it again.

    `scheduler` is "serial", "threads", "processes" (a local cluster of one-thread workers), the
    address or the scheduler file of a running Dask scheduler, or a `distributed` client.
    """
    # tasks are the parallelism: threads times BLAS threads must not exceed the cores, and the
    # driver's small eigenproblems only lose by them; set once, not inside tasks
    try:
        with threadpool_limits(limits=1), _open(scheduler, config or RunConfig()) as engine:
            yield engine
    except OSError as error:
        if type(error).__name__ != "CommClosedError":  # Dask's, which takes a second to import
            raise
        raise StreamhalfError(f"scheduler: the connection to it was lost; {RESUME}") from error
    finally:
        trim_memory()


@contextlib.contextmanager
def _open(scheduler: str | Client, config: RunConfig) -> Iterator[Engine]:
    if not isinstance(scheduler, str):
        with _on_cluster(scheduler, config) as engine:
            yield engine
    elif scheduler == "serial":
        yield SerialEngine()
    elif scheduler == "threads":
        yield ThreadsEngine(config.n_workers)
    elif scheduler == "processes":
        with _quiet_dask(), _local_cluster(config.n_workers or available_cpus()) as client:
            yield ClusterEngine(client, config)
    elif "://" in scheduler or os.path.isfile(scheduler):
        with _quiet_dask(), _connect(scheduler) as client, _on_cluster(client, config) as engine:
            yield engine
    else:
        raise UsageError(
            f"scheduler: {scheduler!r} is unknown; use serial, threads, processes, an address such "
            "as tcp://host:8786, or an existing scheduler file"
        )


@contextlib.contextmanager
def _on_cluster(client: Client, config: RunConfig) -> Iterator[ClusterEngine]:
    """Open an engine on a cluster that others use too, and leave it as it was found."""
    _wait_for_workers(client, config.worker_timeout)
    _check_workers(client)
    engine, ended = ClusterEngine(client, config), False
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


def survey_workers(
    engine: Engine, source: Source, reductions: Mapping[str, Reduction[Any, Any]]
) -> tuple[WorkerRecord, ...]:
    """Have every process of an engine read one block and time the statistics on its rows."""
    if not isinstance(engine, ClusterEngine):
        return (_survey(source, reductions, "this process", engine.n_threads, None, source.blocks[0]),)
    threads = {address: int(worker["nthreads"]) for address, worker in sorted(workers_of(engine.client).items())}
    limits = {one.address: one.room for one in engine.worker_limits()}
    blocks = {address: source.blocks[i % len(source.blocks)] for i, address in enumerate(threads)}
    name = source.name
    if isinstance(source.reader, DaskReader | ArrayReader):
        # rows come by a graph: persisted ones may not travel, and those in memory need not
        plan = PassPlan("dry-run", source, LabelCounts(), RowRanges.of((source.blocks[0],)))
        run_job(engine, plan.job_for(engine), ignore)
        source, blocks = replace(source, reader=PieceReader()), {}

    async def look(dask_worker: Any) -> WorkerRecord:  # the worker's event loop goes on
        one = dask_worker.address
        known = (one, threads.get(one, 1), limits.get(one), blocks.get(one))
        return await asyncio.to_thread(_survey, source, reductions, *known)

    answers = engine.client.run(look, workers=list(threads), on_error="return")
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, StreamhalfError):
            raise DataError(f"worker {worker}: {answer}") from answer
        if isinstance(answer, BaseException):
            raise DataError(f"worker {worker} cannot read rows of {name}: {one_line(answer)}") from answer
    return tuple(answers[worker] for worker in sorted(answers))


def _survey(
    source: Source,
    reductions: Mapping[str, Reduction[Any, Any]],
    address: str,
    n_threads: int,
    memory_nbytes: int | None,
    rows: RowRange | None,
) -> WorkerRecord:
    started = time.perf_counter()
    blocks = [] if rows is None else list(source.read_each(RowRanges.of((rows,))))
    seconds, n_rows = time.perf_counter() - started, sum(block.n_rows for block in blocks)
    return WorkerRecord(
        address=address,
        n_threads=n_threads,
        memory_nbytes=memory_nbytes,
        versions=installed_versions(),
        rows_read=n_rows,
        bytes_read=n_rows * source.row_nbytes,
        seconds=seconds,
        work={name: _seconds_a_row(one, blocks) for name, one in reductions.items()},
    )


def _seconds_a_row(reduction: Reduction[Any, Any], blocks: list[Block]) -> float:
    """Time a statistic; 0 where there are no rows."""
    if not blocks or not blocks[0].n_rows:
        return 0.0
    rows = blocks[0].take(np.arange(min(_TRIED_ROWS, blocks[0].n_rows)))
    started = time.perf_counter()
    reduction.map(rows)
    return (time.perf_counter() - started) / rows.n_rows
