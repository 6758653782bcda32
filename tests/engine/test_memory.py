"""The memory model: what there is on machines of all kinds, and who waits for it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from distributed import Client

import streamhalf
from streamhalf import MemoryBudgetError
from streamhalf.engine import memory
from streamhalf.engine.cluster import ThreadsEngine
from streamhalf.engine.memory import (
    PROCESS_NBYTES,
    WorkerLimit,
    at_once,
    cache_nbytes,
    fewer_at_once,
    own_memory,
    room_of,
    task_memory,
)
from streamhalf.results import Notice, NoticeCode
from tests.conftest import make_rows

MIB, GIB = 1 << 20, 1 << 30


class WorkersEngine(ThreadsEngine):
    """Threads that say they were workers of a cluster."""

    remote = True

    def __init__(self, *workers: WorkerLimit) -> None:
        super().__init__(max((one.n_threads for one in workers), default=1))
        self._workers = workers

    def worker_limits(self) -> tuple[WorkerLimit, ...]:
        return self._workers


def pretend(monkeypatch: pytest.MonkeyPatch, *, total: int, available: int, groups: str = "") -> None:
    """A machine of so much memory."""
    found = SimpleNamespace(total=total, available=available)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: found)
    if not groups:
        monkeypatch.setattr(memory, "_OWN_GROUP", Path("nowhere"))


@pytest.mark.parametrize(
    ("total", "available", "room"),
    [(2 * GIB, 1500 * MIB, 1200 * MIB), (96 * GIB, 90 * GIB, 72 * GIB), (2 * GIB, 0, 0.8 * GIB)],
)
def test_own_memory__is_what_is_available_and_half_of_the_machine_at_least(
    monkeypatch: pytest.MonkeyPatch, total: int, available: int, room: float
) -> None:
    pretend(monkeypatch, total=total, available=available)
    assert own_memory() == int(room)


def write_group(folder: Path, version: int, limit: str, used: int, cached: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current", "inactive_file")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon {used}\n{names[2]} {cached}\n")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("inside", [True, False], ids=["own", "parent"])
def test_own_memory__respects_control_groups(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int, inside: bool
) -> None:
    pretend(monkeypatch, total=64 * GIB, available=60 * GIB, groups="some")
    root = tmp_path / "cgroup" / ("memory" if version == 1 else "")
    none = "max" if version == 2 else str(2**63 - 4096)
    limits = (str(2 * GIB), none) if inside else (none, str(2 * GIB))
    write_group(root / "outer" / "own", version, limits[0], GIB // 2, GIB // 4)
    write_group(root / "outer", version, limits[1], GIB // 2, GIB // 4)
    member = tmp_path / "member"
    kinds = "memory" if version == 1 else ""
    member.write_text(f"3:cpu:/elsewhere\n{4 if kinds else 0}:{kinds}:/outer/own\n")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "_OWN_GROUP", member)
    assert own_memory() == int(0.8 * 1.75 * GIB)
    member.write_text("no group at all\n")
    assert own_memory() == int(0.8 * 60 * GIB)


def test_own_memory__of_a_container_whose_path_is_that_of_the_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, total=64 * GIB, available=60 * GIB, groups="some")
    write_group(tmp_path / "cgroup", 2, str(GIB), GIB, 0)
    (tmp_path / "member").write_text("0::/kubepods/pod7/container\n")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "_OWN_GROUP", tmp_path / "member")
    assert own_memory() == int(0.8 * GIB / 2)


def test_own_memory__of_a_system_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: 1 / 0)
    monkeypatch.setattr(memory, "_OWN_GROUP", Path("nowhere"))
    monkeypatch.setitem(sys.modules, "resource", None)
    assert own_memory() == 2 * GIB


def test_own_memory__respects_a_limit_of_the_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    pretend(monkeypatch, total=64 * GIB, available=60 * GIB)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (4 * GIB, 4 * GIB))
    assert own_memory() == int(0.8 * 2 * GIB)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)
    assert own_memory() == int(0.8 * 60 * GIB)


def test_room__of_workers_is_that_of_the_smallest_and_memory_limit_caps_it() -> None:
    engine = WorkersEngine(WorkerLimit("a", 16, 8 * GIB), WorkerLimit("b", 4, GIB))
    assert room_of(engine, "auto") == GIB - PROCESS_NBYTES
    assert room_of(engine, 300 * MIB) == 300 * MIB
    assert room_of(engine, 64 * GIB) == GIB - PROCESS_NBYTES
    # workers without a limit
    assert room_of(WorkersEngine(), "auto") == 2 * GIB
    assert room_of(WorkersEngine(), 4 * GIB) == 4 * GIB


def test_at_once__refuses_a_task_that_does_not_fit_and_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = WorkersEngine(WorkerLimit("tcp://b", 4, GIB))
    assert at_once(engine, "fit", 170 * MIB, "auto") == 4
    assert at_once(engine, "fit", 340 * MIB, "auto") == 2
    with pytest.raises(MemoryBudgetError, match="fit needs about 900 MiB for one task, and worker"):
        at_once(engine, "fit", 900 * MIB, "auto")
    known = "memory_limit is 300 MiB; raise it, or store smaller chunks"
    with pytest.raises(MemoryBudgetError, match=known):
        at_once(engine, "fit", 900 * MIB, 300 * MIB)
    pretend(monkeypatch, total=GIB, available=GIB)
    with pytest.raises(MemoryBudgetError, match="and this process has 819 MiB; use a machine or container"):
        at_once(ThreadsEngine(2), "fit", 900 * MIB, "auto")


def test_fewer_at_once__says_how_many_of_how_many() -> None:
    engine = WorkersEngine(WorkerLimit("b", 16, 2 * GIB))
    room = 2 * GIB - PROCESS_NBYTES
    found = fewer_at_once(engine, "fit", 500 * MIB, "auto")
    assert found == (Notice.of(NoticeCode.FEWER_AT_ONCE, at_once=3, threads=16, size=500 * MIB, room=room),)
    assert fewer_at_once(engine, "fit", 10 * MIB, "auto") == ()


def test_cache__has_half_of_what_tasks_leave() -> None:
    assert cache_nbytes(10 * MIB, 2, 3 * MIB) == 2 * MIB
    assert cache_nbytes(5 * MIB, 2, 3 * MIB) == 0


class Crowd:
    """Threads that take memory, and how much of it they held together at most."""

    def __init__(self, room: int) -> None:
        self.room, self.held, self.most, self.order = room, 0, 0, list[int]()
        self._lock = threading.Lock()

    def work(self, number: int, nbytes: int, until: threading.Event | None = None) -> None:
        with task_memory(nbytes, self.room):
            with self._lock:
                self.held += nbytes
                self.most = max(self.most, self.held)
                self.order.append(number)
            if until is not None:
                assert until.wait(30)
            with self._lock:
                self.held -= nbytes

    def run(self, *sizes: int) -> None:
        threads = [threading.Thread(target=self.work, args=one) for one in enumerate(sizes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)


def test_task_memory__is_never_more_than_the_room() -> None:
    crowd = Crowd(10)
    crowd.run(*[3, 7, 1, 10, 4] * 20)
    assert crowd.most <= 10
    assert len(crowd.order) == 100


def test_task_memory__lets_in_what_is_too_large_alone_and_what_is_inside() -> None:
    crowd = Crowd(10)
    crowd.run(50, 50, 1)
    assert crowd.most == 50
    with task_memory(10, 10):
        crowd.work(0, 10)  # in the same thread: to wait would be for ever
    with task_memory(10, 0):  # the room is not known
        pass


def test_task_memory__serves_in_the_order_of_arrival_and_survives_errors() -> None:
    crowd, first = Crowd(10), threading.Event()
    threads = [threading.Thread(target=crowd.work, args=(0, 10, first))]
    threads[0].start()
    for number in range(1, 6):
        while len(memory._line) < number - 1 or not crowd.order:
            pass
        threads.append(threading.Thread(target=crowd.work, args=(number, 10)))
        threads[-1].start()
    while len(memory._line) < 5:
        pass
    first.set()
    for thread in threads:
        thread.join(60)
    assert crowd.order == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="of a task"), task_memory(10, 10):
        raise ValueError("of a task")
    assert memory._held == [0]
    assert not memory._line


def test_task_memory__ends_a_wait_that_would_be_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that waits for tasks of its own, in other threads."""
    monkeypatch.setattr(memory, "_PATIENCE", 0.1)
    crowd = Crowd(10)
    with task_memory(8, 10):
        crowd.run(8, 8, 8)
    assert len(crowd.order) == 3
    assert memory._held == [0]


def test_tasks__leave_a_worker_as_it_was(client: Client) -> None:
    def settings() -> tuple[float, float]:
        """The switch interval, and what freed buffers of 24 MiB leave in use, in MiB."""
        process = psutil.Process()
        before = process.memory_info().rss
        for _ in range(3):
            np.ones(24 << 20, dtype=np.uint8)
        return sys.getswitchinterval(), (process.memory_info().rss - before) / 2**20

    X, y = make_rows(400, 2)
    streamhalf.test((X, y), client=client)
    for interval, kept in client.run(settings).values():
        assert interval == pytest.approx(0.005)
        assert kept < 12
