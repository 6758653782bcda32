"""Simulate a pass on many workers: one scheduler, one link for each worker, the tree of partials.

Tasks and tree are those of the package. The scheduler handles one task at a time; a worker receives
over one link, one partial at a time, and combines where most of what it needs is. Seconds of a task
are the rows' own; those of the scheduler are measured (table "tasks" of docs/benchmark.md).

usage: scripts/scaling [--rows 1e9 1e11] [--workers 16 200 1000] [--partial-mib 1 22] [--check]
"""

from __future__ import annotations

import argparse
import functools
import heapq
import itertools
import operator
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamhalf.data.opening import open_source
from streamhalf.data.source import align_blocks
from streamhalf.engine.cluster import ClusterEngine
from streamhalf.engine.job import Counted, Job
from streamhalf.engine.plan import fan_in, plan_pass
from streamhalf.reductions.labels import LabelCounts

_MIB = 1 << 20
_DIM, _CHUNK_ROWS = 8, 1 << 18


@dataclass(frozen=True, slots=True)
class Machine:
    """A cluster; the defaults are those of the table in docs/cost.md."""

    workers: int
    threads: int = 4
    task_seconds: float = 1.3e-3
    """Work of client and scheduler for a task."""
    link: float = 1.25e9
    """Bytes a second that a worker receives: 10 Gbit/s."""
    latency: float = 2e-3
    """Until a message or the first byte of a partial is there."""
    merge: float = 2e9
    """Bytes of partials that a thread combines in a second."""


@dataclass(slots=True)
class Found:
    """Cost of a simulated pass."""

    seconds: float = 0.0
    scheduler: float = 0.0
    received: dict[int, int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    peak: int = 0

    def hold(self, worker: int, nbytes: int) -> None:
        """A worker has more partials, or less."""
        self.held[worker] = self.held.get(worker, 0) + nbytes
        self.peak = max(self.peak, self.held[worker])


def tree(n_leaves: int, fan: int) -> list[tuple[int, ...]]:
    """Children of every combining task; these are numbered after the leaves."""
    children: list[tuple[int, ...]] = []
    nodes = list(range(n_leaves))
    while len(nodes) > 1:
        above = []
        for group in (nodes[i : i + fan] for i in range(0, len(nodes), fan)):
            if len(group) > 1:
                above.append(n_leaves + len(children))
                children.append(tuple(group))
            else:
                above.append(group[0])
        nodes = above
    return children


class Simulation:
    """Events of one pass, in the order of time."""

    def __init__(self, machine: Machine, work: list[float], fan: int, partial: int) -> None:
        self.machine, self.work, self.partial = machine, work, partial
        self.children = tree(len(work), fan)
        self.parent = {child: len(work) + i for i, group in enumerate(self.children) for child in group}
        self.missing = [len(group) for group in self.children]
        self.home: dict[int, int] = {}
        self.link_free = [0.0] * machine.workers
        self.waiting: list[deque[int]] = [deque() for _ in range(machine.workers)]
        self.idle = deque(worker for _ in range(machine.threads) for worker in range(machine.workers))
        self.leaves = iter(range(len(work)))
        self.events: list[tuple[float, int, str, int, int]] = []
        self.ticket = itertools.count()
        self.scheduler_free = 0.0
        self.found = Found()

    def run(self) -> Found:
        """Until the last partial is there."""
        self.row_split(0.0)
        while self.events:
            now, _, kind, worker, task = heapq.heappop(self.events)
            self.found.seconds = now
            if kind == "arrived":
                self.waiting[worker].append(task)
                if worker in self.idle:
                    self.idle.remove(worker)
                    self.begin(now, worker)
            else:
                self.end(now, worker, task)
        return self.found

    def schedule(self, now: float) -> float:
        """When the scheduler, which does one thing at a time, has handled a task."""
        cost = self.machine.task_seconds
        self.scheduler_free = max(now, self.scheduler_free) + cost
        self.found.scheduler += cost
        return self.scheduler_free

    def to_transformed(self, when: float, kind: str, worker: int, task: int) -> None:
        """Something will happen."""
        heapq.heappush(self.events, (when, next(self.ticket), kind, worker, task))

    def row_split(self, now: float) -> None:
        """Leaves to threads that have nothing to do."""
        while self.idle and (leaf := next(self.leaves, None)) is not None:
            worker = self.idle.popleft()
            begin = self.schedule(now) + self.machine.latency
            self.to_transformed(begin + self.work[leaf], "done", worker, leaf)

    def begin(self, now: float, worker: int) -> None:
        """A free thread combines what has arrived, or takes a leaf."""
        if self.waiting[worker]:
            task = self.waiting[worker].popleft()
            size = len(self.children[task - len(self.work)])
            self.to_transformed(now + size * self.partial / self.machine.merge, "done", worker, task)
            return
        self.idle.append(worker)
        self.row_split(now)

    def end(self, now: float, worker: int, task: int) -> None:
        """A task is done: the one above may begin, and its thread is free."""
        self.home[task] = worker
        self.found.hold(worker, self.partial)
        if task >= len(self.work):  # what it was made of is forgotten
            for child in self.children[task - len(self.work)]:
                self.found.hold(self.home[child], -self.partial)
                if self.home[child] != worker:
                    self.found.hold(worker, -self.partial)
        above = self.parent.get(task)
        if above is not None:
            index = above - len(self.work)
            self.missing[index] -= 1
            if not self.missing[index]:
                self.move(self.schedule(now), above)
        self.begin(now, worker)

    def move(self, now: float, task: int) -> None:
        """Bring partials to the worker that has most of them, or least to receive."""
        homes = [self.home[child] for child in self.children[task - len(self.work)]]
        worker = min(homes, key=lambda one: (-homes.count(one), self.link_free[one]))
        nbytes = sum(self.partial for home in homes if home != worker)
        self.found.received[worker] = self.found.received.get(worker, 0) + nbytes
        self.found.hold(worker, nbytes)
        start = max(now + self.machine.latency, self.link_free[worker])
        self.link_free[worker] = start + nbytes / self.machine.link
        self.to_transformed(self.link_free[worker], "arrived", worker, task)


def task_rows(rows: int) -> list[int]:
    """Rows of each task of a pass over all rows of a store as `synth` writes it."""
    opened = open_source((np.zeros((2, _DIM), np.float32), np.array([1, -1], np.int8)))
    blocks = align_blocks(rows, _CHUNK_ROWS, 4 * _DIM)
    plan = plan_pass("all", replace(opened, blocks=blocks), LabelCounts())
    return [task.n_rows for task in plan.tasks()]


def simulate(machine: Machine, work: list[float], fan: int, partial: int, seed: int = 0) -> Found:
    """A pass whose tasks take so long, give or take a fifth."""
    uneven = np.random.default_rng(seed).uniform(0.8, 1.2, len(work))
    return Simulation(machine, (np.array(work) * uneven).tolist(), fan, partial).run()


def check(partial_mib: float) -> None:
    """The simulation beside a cluster on this machine whose tasks sleep."""
    from distributed import Client, LocalCluster

    n_tasks, seconds, partial = 400, 0.05, int(partial_mib * _MIB)

    def leaf(context: None, item: int) -> Counted:
        time.sleep(seconds)
        return Counted(1, np.zeros(partial // 8))

    def combine(context: None, parts: Sequence[Any]) -> Any:
        return functools.reduce(operator.add, parts)

    fan = fan_in(8, partial)
    items = tuple(range(n_tasks))
    job = Job("check", None, items, (1,) * n_tasks, leaf, combine, split_every=fan)
    with LocalCluster(2, threads_per_worker=4, dashboard_address=":0") as cluster, Client(cluster) as client:
        engine = ClusterEngine(client)
        engine.run(job, lambda rows: None)
        started = time.perf_counter()
        engine.run(job, lambda rows: None)
        measured = time.perf_counter() - started
    found = simulate(Machine(2, link=1e9), [seconds] * n_tasks, fan, partial)
    print(f"{n_tasks} tasks of {seconds} s on 2 workers of 4 threads, partials of {partial_mib} MiB:")
    print(f"simulated {found.seconds:.2f} s, measured {measured:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scaling", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, nargs="+", default=[1e9, 1e10, 1e11, 1e12])
    parser.add_argument("--workers", type=int, nargs="+", default=[16, 200, 1000])
    parser.add_argument("--partial-mib", type=float, nargs="+", default=[1, 22])
    parser.add_argument("--row-ns", type=float, default=240.0, help="of a thread, final pass, d = 8")
    parser.add_argument("--check", action="store_true", help="beside a real cluster of two workers")
    options = parser.parse_args()
    if options.check:
        check(options.partial_mib[0])
        return
    print(
        "| rows | workers | tasks | partials, MiB | fan-in | seconds | at best | "
        "scheduler busy, s | received by one worker, MiB | partials held by one, MiB |\n"
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    for rows, workers, mib in itertools.product(options.rows, options.workers, options.partial_mib):
        sizes, partial = task_rows(int(rows)), int(mib * _MIB)
        work = [1e-9 * options.row_ns * size for size in sizes]
        for fan in sorted({8, fan_in(8, partial)}):
            machine = Machine(workers)
            found = simulate(machine, work, fan, partial)
            best = sum(work) / (workers * machine.threads)
            most = max(found.received.values(), default=0)
            print(
                f"| {rows:.0e} | {workers:,} x {machine.threads} | {len(work):,} | {mib:g} | {fan} "
                f"| {found.seconds:,.3g} | {best:,.3g} | {found.scheduler:.3g} "
                f"| {most / _MIB:,.0f} | {found.peak / _MIB:,.0f} |"
            )


if __name__ == "__main__":
    main()
