"""Machines and workers of other sizes than these: an answer every time, and the same one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster

import streamhalf
from streamhalf.engine import memory
from streamhalf.engine.plan import PassPlan
from streamhalf.events import Event, RunStarted
from streamhalf.results import Notice, NoticeCode
from tests.conftest import StoreWriter

MIB, GIB = 1 << 20, 1 << 30

Pretend = Callable[[int, int], None]

QUICK: dict[str, Any] = {"certificate_effort": 0.01, "certificate_degree": 2}


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Have Python believe in a machine of so many cores, and so many bytes of memory."""
    before = psutil.virtual_memory()

    def be(cores: int, nbytes: int) -> None:
        found = before._replace(total=nbytes, available=3 * nbytes // 4)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: found)
        monkeypatch.setattr(memory, "_OWN_GROUP", Path("no such file"))
        monkeypatch.setattr(os, "cpu_count", lambda: cores)
        monkeypatch.setattr(os, "process_cpu_count", lambda: cores, raising=False)
        known = lambda pid: set(range(cores))  # noqa: E731
        monkeypatch.setattr(os, "sched_getaffinity", known, raising=False)

    return be


SHAPES = {"1 x 16": (1, 16, "2GiB"), "2 x 8": (2, 8, "1700MiB")}


@contextmanager
def open_workers(n_workers: int, n_threads: int, memory_limit: str) -> Iterator[Client]:
    """A cluster that is there for one test: each of its processes takes 170 MiB."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=n_threads, memory_limit=memory_limit, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def make_rows(n_rows: int, dim: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(dim)
    X = rng.standard_normal((n_rows, dim), dtype=np.float32)
    y = np.where(X[:, 0] + 0.3 * X[:, 1] >= 0.1, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < 0.05] *= -1
    return X, y


def fit(data: Any, **parameters: Any) -> tuple[Any, list[Event]]:
    """Results that must not depend on the machine, and the notices of a run."""
    events: list[Event] = []
    found = streamhalf.fit(data, seed=3, observer=events.append, **(QUICK | parameters))
    opt = None if found.certificate is None else found.certificate.opt
    return (found.verdict, found.halfspace, found.error, found.opt, opt), events


def fewer(events: list[Event]) -> list[Notice]:
    """Notices about threads that memory keeps idle."""
    (started,) = [one for one in events if isinstance(one, RunStarted)]
    return [one for one in started.notices if one.code is NoticeCode.FEWER_AT_ONCE]


MACHINES = ((1, 2 * GIB), (2, 8 * GIB), (8, 2 * GIB), (32, 4 * GIB), (96, 256 * GIB))


def assert_same_on(store: Path, expected: Any, pretend: Pretend, machines: Any) -> None:
    for cores, nbytes in machines:
        pretend(cores, nbytes)
        found, events = fit(store)
        assert found == expected
        told = fewer(events)
        assert len(told) <= 1  # one notice for all passes
        assert all(one["at_once"] < one["threads"] == cores for one in told)
        if (cores, nbytes) == (32, 4 * GIB):
            assert told


@pytest.mark.parametrize(
    ("dim", "n_rows", "chunk_rows", "machines"), [(10, 20_000, 1 << 13, MACHINES), (40, 6_000, 1 << 18, MACHINES[3:4])]
)
def test_fit__says_the_same_on_every_machine(
    pretend: Pretend, write_store: StoreWriter, dim: int, n_rows: int, chunk_rows: int, machines: Any
) -> None:
    store = write_store(*make_rows(n_rows, dim), chunk_rows=chunk_rows, compressors=None)
    expected, _ = fit(store, scheduler="serial")
    assert expected[0] is not None
    assert_same_on(store, expected, pretend, machines)


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "chunk_rows"), [(10, 1 << 14), (20, 1 << 16), (40, 1 << 18), (100, 1 << 14)])
def test_fit__says_the_same_on_every_machine_at_length(
    pretend: Pretend, write_store: StoreWriter, dim: int, chunk_rows: int
) -> None:
    store = write_store(*make_rows(300_000 if dim < 40 else 60_000, dim), chunk_rows=chunk_rows)
    expected, _ = fit(store, scheduler="serial")
    assert_same_on(store, expected, pretend, MACHINES)
    for shape in SHAPES.values():
        with open_workers(*shape) as client:
            assert fit(store, client=client)[0] == expected


@pytest.mark.parametrize("dim", [2, 8, 70])
def test_plan__has_room_for_every_pass(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check before the first pass covers every pass."""
    taken: dict[str, int] = {}
    original = PassPlan.task_nbytes

    def note(plan: PassPlan) -> int:
        taken[plan.name] = original(plan)
        return taken[plan.name]

    monkeypatch.setattr(PassPlan, "task_nbytes", note)
    data = make_rows(40_000 if dim < 70 else 10_000, dim)
    planned = streamhalf.plan(data, seed=3).memory_nbytes
    for more in ({}, {"feature_transform": "isotropic", "certificate_degree": "auto"}):
        fit(data, scheduler="serial", **more)
    assert {"sample", "final", "certificate"} <= taken.keys()
    assert max(taken.values()) <= 1.001 * planned
    # so little that the smallest machines have it
    assert planned <= 0.8 * GIB - memory.PROCESS_NBYTES


def test_large_chunks__are_refused_before_anything_is_read(write_store: StoreWriter) -> None:
    store = write_store(*make_rows(200_000, 16), chunk_rows=200_000)  # compressed, 12 MiB
    events: list[Event] = []
    for command in (streamhalf.fit, streamhalf.dry_run):
        with pytest.raises(streamhalf.MemoryBudgetError, match="the limit memory_limit is 50 MiB"):
            command(store, memory_limit="50 MiB", observer=events.append)
    with (
        open_workers(1, 8, "400MiB") as client,
        pytest.raises(streamhalf.MemoryBudgetError, match="for one task, and worker tcp://"),
    ):
        streamhalf.fit(store, client=client, observer=events.append)
    assert events == []


def test_synth_and_predict__wait_for_memory_too(
    pretend: Pretend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(8, 2 * GIB)
    events: list[Event] = []
    spec: dict[str, Any] = {"rows": 1 << 20, "dim": 8, "marginal": "gaussian", "noise": "none"}
    monkeypatch.setenv("STREAMHALF_MEMORY_LIMIT", "100MiB")
    streamhalf.synth(tmp_path / "x.zarr", chunk_rows=1 << 17, observer=events.append, **spec)
    (told,) = fewer(events)
    assert (told["at_once"], told["threads"], told["room"]) == (2, 8, 100 * MIB)
    events.clear()
    model = streamhalf.Halfspace((1.0,) * 8)
    streamhalf.predict(tmp_path / "x.zarr", model=model, out=tmp_path / "y.zarr", observer=events.append)
    (told,) = fewer(events)
    assert told["at_once"] < told["threads"] == 8
    monkeypatch.setenv("STREAMHALF_MEMORY_LIMIT", "10MiB")
    with pytest.raises(streamhalf.MemoryBudgetError, match=r"predict needs about .* raise it"):
        streamhalf.predict(tmp_path / "x.zarr", model=model, out=tmp_path / "z.zarr")
    with pytest.raises(streamhalf.MemoryBudgetError, match=r"synth needs about .* raise it"):
        streamhalf.synth(tmp_path / "x.zarr", overwrite=True, **spec)
    # nothing was written, and nothing replaced
    assert not (tmp_path / "z.zarr").exists()
    assert streamhalf.open_source(tmp_path / "x.zarr").n_rows == 1 << 20


@pytest.mark.parametrize(
    ("n_rows", "limit"), [(600_000, "700MiB"), pytest.param(15_500_000, "1GiB", marks=pytest.mark.slow)]
)
def test_fits__of_a_store_and_of_lazy_rows_end_on_small_workers(n_rows: int, limit: str, tmp_path: Path) -> None:
    shape: dict[str, Any] = {"dim": 16, "marginal": "gaussian", "noise": "random", "rate": 0.05}
    streamhalf.synth(tmp_path / "x.zarr", rows=20_000, chunk_rows=4_000, **shape)
    options: dict[str, Any] = {"eps": 0.25, "certificate_degree": 0, "seed": 0}
    chunks = (50_000, 16)
    X = da.random.default_rng(0).standard_normal((n_rows, 16), chunks=chunks, dtype=np.float32)
    y = da.where(X[:, 0] + X[:, 1] >= 0, 1, -1).astype("i1")
    with open_workers(2, 1, limit) as client:
        before = client.run(os.getpid)
        for data in (tmp_path / "x.zarr", (X, y)):
            assert streamhalf.fit(data, client=client, **options).verdict is not None
        assert client.run(os.getpid) == before  # none was restarted
        workers = client.scheduler_info()["workers"].values()
        assert {worker["status"] for worker in workers} == {"running"}
