"""`open_engine`: from a word or an address to an engine, closed again at the end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from streamhalf.data.sight import Sight
from streamhalf.engine.cluster import RESUME, ClusterEngine, ThreadsEngine, available_cpus
from streamhalf.engine.job import Engine
from streamhalf.engine.local import SerialEngine
from streamhalf.engine.process import eager_switching
from streamhalf.errors import DataError, StreamhalfError, UsageError
from streamhalf.names import one_line

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("streamhalf")

_CONNECT_SECONDS = 20
_WORKER_SECONDS = 60


@contextlib.contextmanager
def open_engine(scheduler: str | Client, n_workers: int | None = None) -> Iterator[Engine]:
    """Open an engine.

    Parameters
    ----------
    scheduler
        "serial", "threads", "processes" (a local cluster of one-thread workers), the address or
        the scheduler file of a running Dask scheduler, or a `distributed` client.
    n_workers
        Threads or processes for the local ones; None means one per core.
    """
    if n_workers is not None and n_workers < 1:
        raise UsageError(f"n_workers: {n_workers} is out of range; use at least 1")
    # tasks are the parallelism: threads times BLAS threads must not exceed the cores, and the
    # driver's small eigenproblems only lose by them; set once, not inside tasks
    try:
        with threadpool_limits(limits=1), eager_switching(), _open(scheduler, n_workers) as engine:
            yield engine
    except OSError as error:
        if type(error).__name__ != "CommClosedError":  # Dask's, which takes a second to import
            raise
        raise StreamhalfError(f"scheduler: the connection to it was lost; {RESUME}") from error


@contextlib.contextmanager
def _open(scheduler: str | Client, n_workers: int | None) -> Iterator[Engine]:
    if not isinstance(scheduler, str):
        check_workers(scheduler)
        yield ClusterEngine(scheduler)
    elif scheduler == "serial":
        yield SerialEngine()
    elif scheduler == "threads":
        yield ThreadsEngine(n_workers)
    elif scheduler == "processes":
        with _hushed(), _local_cluster(n_workers or available_cpus()) as client:
            yield ClusterEngine(client)
    elif "://" in scheduler or os.path.isfile(scheduler):
        with _hushed(), _connect(scheduler) as client:
            check_workers(client)
            yield ClusterEngine(client)
    else:
        raise UsageError(
            f"scheduler: {scheduler!r} is unknown; use serial, threads, processes, an address such "
            "as tcp://host:8786, or an existing scheduler file"
        )


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
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def _connect(scheduler: str) -> Client:
    from distributed import Client

    try:
        address = scheduler
        if "://" not in scheduler:  # a file; Dask itself starts a cluster here where it finds none
            address = json.loads(Path(scheduler).read_text(encoding="utf-8"))["address"]
            if not isinstance(address, str):
                raise TypeError(f"address {address!r}")
        return Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError, LookupError, TypeError) as error:
        raise StreamhalfError(
            f"scheduler: cannot reach {scheduler} within {_CONNECT_SECONDS} s "
            f"({type(error).__name__}); is `dask scheduler` running there?"
        ) from error


def check_sight(engine: Engine, sight: Sight | None) -> None:
    """Refuse a store that a worker cannot see, before a task fails on it."""
    if sight is None or not isinstance(engine, ClusterEngine):
        return

    async def look() -> str | None:  # the worker's event loop goes on
        return await asyncio.to_thread(sight.trouble)

    for worker, found in sorted(engine.client.run(look, on_error="return").items()):
        if isinstance(found, OSError):
            continue  # a worker that has just been lost, as any may be
        if isinstance(found, BaseException):
            found = f"cannot look at {sight.name}: {one_line(found)}"
        if found is not None:
            raise DataError(f"worker {worker} {found}")


def check_workers(client: Client) -> None:
    """Refuse a cluster without workers, or with workers that would compute something else."""
    found = client.scheduler_info(n_workers=0)
    if not found["n_workers"]:
        logger.warning("waiting for workers: none has joined %s yet", found["address"])
    try:
        client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except TimeoutError as error:
        raise StreamhalfError(
            f"scheduler: no worker joined in {_WORKER_SECONDS} s; start some with `dask worker` "
            "and the scheduler's address"
        ) from error
    for package in ("streamhalf", "numpy"):
        wanted = importlib.metadata.version(package)
        found = client.run(importlib.metadata.version, package, on_error="return")
        for worker, version in sorted(found.items()):
            if version != wanted and not isinstance(version, OSError):  # a worker just lost
                has = f"version {version}" if isinstance(version, str) else "none"
                raise StreamhalfError(
                    f"scheduler: worker {worker} has {package} {has}, this process has version "
                    f"{wanted}; install the same on every worker"
                )
