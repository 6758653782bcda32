"""How a fit grows: rows, workers, chunk sizes and tasks."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import streamhalf
from scripts.benchmarking.fits import DIM
from scripts.benchmarking.stores import BareReader, Folder
from scripts.benchmarking.tables import Criterion, Table
from scripts.benchmarking.timing import Ratio, take_turns
from streamhalf.engine import open_engine
from streamhalf.engine.job import Counted, Job


def measure_rows(folder: Folder, *, sizes: list[int], rounds: int) -> Table:
    """Time per row and peak memory of a worker, two workers of one thread."""
    lines, per_row, peaks = [], {}, {}
    for rows in sizes:
        store = folder.store(rows, DIM)
        with _workers(2) as client:
            seconds = take_turns(
                {"fit": lambda s=store, c=client: _fit(s, client=c)}, rounds=rounds
            )["fit"]
            peak = max(client.run(_peak_mebibytes).values())
        per_row[rows] = 1e9 * float(np.median(seconds)) / rows
        peaks[rows] = peak
        lines.append((rows, float(np.median(seconds)), per_row[rows], peak))
    criteria = [Criterion("peak memory of a worker, MiB", max(peaks.values()), 2048.0)]
    if {10**7, 10**8} <= set(sizes):
        growth = per_row[10**8] / per_row[10**7]
        criteria.append(Criterion("time per row, 1e8 against 1e7 rows", growth, 1.15))
    return Table(
        "growth",
        f"Growth with the rows, d = {DIM}, two workers of one thread",
        ("rows", "seconds", "ns per row", "peak memory of a worker, MiB"),
        lines,
        criteria,
    )


def measure_workers(folder: Folder, *, rows: int, rounds: int) -> Table:
    """One against two workers, each bound to a core: unbound, one reads ahead on the other core."""
    store = folder.store(rows, DIM)
    with _workers(1) as one, _workers(2) as two:
        for client in (one, two):
            for core, worker in enumerate(client.scheduler_info(n_workers=-1)["workers"]):
                client.run(_bind, {core}, workers=[worker])
        seconds = take_turns(
            {
                "1 worker": lambda: _fit(store, client=one),
                "2 workers": lambda: _fit(store, client=two),
            },
            rounds=rounds,
        )
    ratio = Ratio.of(seconds["1 worker"], seconds["2 workers"])
    return Table(
        "workers",
        f"One against two workers of one thread and one core, {rows:,} rows, d = {DIM}",
        ("workers", "seconds"),
        [(name, float(np.median(taken))) for name, taken in seconds.items()],
        [Criterion("two workers against one", ratio.median, 1.7, at_most=False)],
        f"Two workers: {ratio} times one.",
    )


def _bind(cores: set[int]) -> None:
    """Bind all threads of this process to cores; threads to come inherit it."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)


def measure_chunks(folder: Folder, *, rows: int, rounds: int) -> Table:
    """The same rows in stored chunks of several sizes."""
    lines = []
    for power in (14, 16, 18, 20):
        store = folder.store(rows, DIM, chunk_rows=1 << power)
        with BareReader() as bare_reader:
            seconds = take_turns(
                {
                    "bare": lambda s=store: bare_reader.seconds(s),
                    "fit": lambda s=store: _fit(s, scheduler="threads", n_workers=2),
                },
                rounds=rounds,
            )
        bare, fit = (float(np.median(seconds[name])) for name in ("bare", "fit"))
        lines.append((f"2^{power}", -(-rows // 2**power), bare, fit, fit / bare))
    return Table(
        "chunks",
        f"Rows in a stored chunk, {rows:,} rows, d = {DIM}, two threads",
        ("rows in a chunk", "chunks", "bare read, s", "fit, s", "fit / bare read"),
        lines,
    )


def measure_tasks(*, counts: list[int]) -> Table:
    """What a task costs that does nothing: the scheduler's share of a pass."""
    lines = []
    with open_engine("threads", 2) as threads, open_engine("processes", 2) as cluster:
        for count in counts:
            job = Job("tasks", None, tuple(range(count)), (1,) * count, _leaf, _combine)
            taken = []
            for engine in (threads, cluster):
                started = time.perf_counter()
                total = engine.run(job, lambda rows: None)
                taken.append(time.perf_counter() - started)
                assert total.n_rows == count
            lines.append((count, *taken, *(1e3 * seconds / count for seconds in taken)))
    return Table(
        "tasks",
        "A tree reduction of empty tasks, two workers",
        ("tasks", "threads, s", "cluster, s", "threads, ms a task", "cluster, ms a task"),
        lines,
    )


def _fit(store: str, **where: Any) -> None:
    streamhalf.fit(store, **where)


def _leaf(context: Any, item: Any) -> Counted:
    return Counted(1, 0)


def _combine(context: Any, left: Any, right: Any) -> int:
    return 0


def _peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def _workers(count: int) -> Iterator[Client]:
    """A client of a local cluster of one-thread workers."""
    with (
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
