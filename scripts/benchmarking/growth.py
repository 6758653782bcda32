"""How a fit grows: rows, workers, chunk sizes and tasks."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import streamhalf
from scripts.benchmarking.fits import DIM
from scripts.benchmarking.stores import BareReader, Folder
from scripts.benchmarking.tables import Criterion, Table
from scripts.benchmarking.timing import Ratio, take_turns
from streamhalf.config import RunConfig
from streamhalf.data.block import Block
from streamhalf.engine import open_engine
from streamhalf.engine.job import Counted, Job
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.candidates import CandidateSlabs


def measure_rows(folder: Folder, *, sizes: list[int], rounds: int) -> Table:
    """Time per row and peak memory of a worker, two workers of one thread."""
    lines, per_row, peaks = [], {}, {}
    for rows in sizes:
        store = folder.store(rows, DIM)
        with _workers(2) as client:
            seconds = take_turns({"fit": lambda s=store, c=client: _fit(s, client=c)}, rounds=rounds)["fit"]
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
    """One against two workers, threads against workers, and processes that share nothing."""
    store = folder.store(rows, DIM)
    fits: dict[str, list[streamhalf.FitResult]] = {"1 worker": [], "2 workers": [], "2 threads": []}
    seconds = take_turns(
        {
            "1 process": lambda: count_slabs(1),
            "2 processes": lambda: count_slabs(2),
            "1 worker": lambda: _fit_on_workers(store, 1, fits["1 worker"]),
            "2 workers": lambda: _fit_on_workers(store, 2, fits["2 workers"]),
            "2 threads": lambda: _fit_on_threads(store, 2, fits["2 threads"]),
        },
        rounds=rounds,
    )
    ratio = Ratio.of(seconds["1 worker"], seconds["2 workers"])
    threads = Ratio.of(seconds["1 worker"], seconds["2 threads"])
    machine = Ratio.of([2 * one for one in seconds["1 process"]], seconds["2 processes"])
    lines: list[tuple[Any, ...]] = []
    for name, results in fits.items():
        passes = [{one.name: one.seconds for one in result.passes} for result in results[1:]]
        long_ones = (float(np.median([one[long] for one in passes])) for long in _LONG_PASSES)
        lines.append((name, float(np.median(seconds[name])), *long_ones))
    return Table(
        "workers",
        f"Workers of one thread each, and threads of one process, {rows:,} rows, d = {DIM}",
        ("on", "fit, s", *(f"pass {name}, s" for name in _LONG_PASSES)),
        lines,
        [Criterion("two workers against one", ratio.median, 1.7, at_most=False)],
        f"Two workers: {ratio} times as fast as one; two threads: {threads}. The machine's own "
        "limit, measured in the same rounds: two processes that count slabs and share nothing, "
        f"{machine} times one.",
    )


_LONG_PASSES = ("final", "certificate")


def _fit_on_workers(store: str, count: int, results: list[streamhalf.FitResult]) -> float:
    """Seconds of a fit on fresh workers, once a short fit has warmed them up."""
    with _workers(count) as client:
        streamhalf.fit(store, client=client, eps=0.05, certificate_degree=0, seed=0)
        started = time.perf_counter()
        results.append(streamhalf.fit(store, client=client, seed=0))
        return time.perf_counter() - started


def _fit_on_threads(store: str, count: int, results: list[streamhalf.FitResult]) -> None:
    results.append(streamhalf.fit(store, scheduler="threads", n_workers=count, seed=0))


def count_slabs(n_processes: int) -> float:
    """Seconds that each of so many processes takes to count slabs of rows of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(n_processes, context) as pool:
        together = manager.Barrier(n_processes)
        return max(pool.map(time_slabs, [together] * n_processes))


def time_slabs(together: Any, turns: int = 200) -> float:
    """Seconds to count slabs so many times, begun when all others begin."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1 << 18, DIM), dtype=np.float32)
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    planes = tuple(Plane(normal).unit() for normal in rng.standard_normal((9, DIM)))
    slabs = CandidateSlabs(planes, 0.0035, 1000)
    slabs.map(block)
    together.wait()
    started = time.perf_counter()
    for _ in range(turns):
        slabs.map(block)
    return time.perf_counter() - started


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
    """Seconds of a task that does nothing: the scheduler's share of a pass."""
    lines = []
    two = RunConfig(n_workers=2)
    with open_engine("threads", two) as threads, open_engine("processes", two) as cluster:
        for count in counts:
            job = Job("tasks", None, tuple(range(count)), (1,) * count, _leaf, _combine)
            taken = []
            for engine in (threads, cluster):
                started, used = time.perf_counter(), time.process_time()
                total = engine.run(job, lambda rows: None)
                taken.append((time.perf_counter() - started, time.process_time() - used))
                assert total.n_rows == count
            (here, _), (there, scheduling) = taken
            each = (1e3 * seconds / count for seconds in (here, there, scheduling))
            lines.append((count, here, there, *each))
    return Table(
        "tasks",
        "A tree reduction of empty tasks, two workers",
        (
            "tasks",
            "threads, s",
            "cluster, s",
            "threads, ms a task",
            "cluster, ms a task",
            "of it work of client and scheduler, ms",
        ),
        lines,
    )


def _fit(store: str, **where: Any) -> None:
    streamhalf.fit(store, seed=0, **where)


def _leaf(context: Any, item: Any) -> Counted:
    return Counted(1, 0)


def _combine(context: Any, parts: Any) -> int:
    return 0


def _peak_mebibytes() -> float:
    """Of this program alone: what getrusage tells includes the process that started it."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


@contextmanager
def _workers(count: int) -> Iterator[Client]:
    """A client of a local cluster of one-thread workers."""
    with (
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
