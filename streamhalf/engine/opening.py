"""`open_engine`: from a word or an address to an engine, closed again at the end."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import dask.config
from dask.utils import parse_timedelta
from threadpoolctl import threadpool_limits

from streamhalf.data.access_check import AccessCheck
from streamhalf.engine.cluster import (
    RESUME,
    ClusterEngine,
    ClusterOptions,
    ThreadsEngine,
    ask_for_worker,
    available_cpus,
    call_on_workers,
)
from streamhalf.engine.job import Engine
from streamhalf.engine.local import SerialEngine
from streamhalf.engine.process import eager_switching
from streamhalf.errors import DataError, StreamhalfError, UsageError
from streamhalf.redact import one_line

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("streamhalf")

_OWN_MALLOC = {
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 128 << 20,
}
"""Of worker processes that end with the run: buffers of chunks are used again. Dask has malloc give
them back at once, so that the kernel clears every page anew for each chunk."""


@contextlib.contextmanager
def open_engine(
    scheduler: str | Client,
    n_workers: int | None = None,
    options: ClusterOptions | None = None,
) -> Iterator[Engine]:
    """Open an engine.

    Parameters
    ----------
    scheduler
        "serial", "threads", "processes" (a local cluster of one-thread workers), the address or
        the scheduler file of a running Dask scheduler, or a `distributed` client.
    n_workers
        Threads or processes for the local ones; None means one per core.
    options
        How the run behaves on a cluster.
    """
    options = options or ClusterOptions()
    if n_workers is not None and n_workers < 1:
        raise UsageError(f"n_workers: {n_workers} is out of range; use at least 1")
    # tasks are the parallelism: threads times BLAS threads must not exceed the cores, and the
    # driver's small eigenproblems only lose by them; set once, not inside tasks
    try:
        with (
            threadpool_limits(limits=1),
            eager_switching(),
            _open(scheduler, n_workers, options) as engine,
        ):
            yield engine
    except OSError as error:
        if type(error).__name__ != "CommClosedError":  # Dask's, which takes a second to import
            raise
        raise StreamhalfError(f"scheduler: the connection to it was lost; {RESUME}") from error


@contextlib.contextmanager
def _open(
    scheduler: str | Client, n_workers: int | None, options: ClusterOptions
) -> Iterator[Engine]:
    if not isinstance(scheduler, str):
        with _on_cluster(scheduler, options) as engine:
            yield engine
    elif scheduler == "serial":
        yield SerialEngine()
    elif scheduler == "threads":
        yield ThreadsEngine(n_workers)
    elif scheduler == "processes":
        with _hushed(), _local_cluster(n_workers or available_cpus()) as client:
            yield ClusterEngine(client, options)
    elif "://" in scheduler or os.path.isfile(scheduler):
        with (
            _hushed(),
            _connect(scheduler) as client,
            _on_cluster(client, options) as engine,
        ):
            yield engine
    else:
        raise UsageError(
            f"scheduler: {scheduler!r} is unknown; use serial, threads, processes, an address such "
            "as tcp://host:8786, or an existing scheduler file"
        )


@contextlib.contextmanager
def _on_cluster(client: Client, options: ClusterOptions) -> Iterator[ClusterEngine]:
    """An engine on a cluster that others use too, which is left as it was found."""
    wait_for_workers(client, options.worker_timeout)
    check_workers(client)
    engine, ended = ClusterEngine(client, options), False
    try:
        yield engine
        ended = True
    finally:
        engine.close(trim=ended)


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Keep Dask's own log of a connection that is ours alone to what is critical.

    A lost scheduler has its sentence; Dask would show several tracebacks before it.
    """
    import distributed  # noqa: F401  (its import sets the levels of its loggers)

    names = ("asyncio", "tornado.application", *logging.root.manager.loggerDict)
    loggers = [
        logging.getLogger(name)
        for name in dict.fromkeys(names)
        if name in names[:2] or name.partition(".")[0] == "distributed"
    ]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)


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


def check_access(engine: Engine, check: AccessCheck | None) -> None:
    """Refuse a store that a worker cannot see, before a task fails on it."""
    if check is None or not isinstance(engine, ClusterEngine):
        return
    for worker, found in sorted(call_on_workers(engine.client, check.problem).items()):
        if isinstance(found, OSError):
            continue  # a worker that has just been lost, as any may be
        if isinstance(found, BaseException):
            found = f"cannot look at {check.name}: {one_line(found)}"
        if found is not None:
            raise DataError(f"worker {worker} {found}")


def wait_for_workers(client: Client, seconds: float) -> None:
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


def check_workers(client: Client) -> None:
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
