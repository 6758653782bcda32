"""A run on a cluster: tasks on every worker, rows sent once, names, waits, nothing left behind."""

from __future__ import annotations

import asyncio
import functools
import importlib
import logging
import operator
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from dask.base import key_split
from distributed import Client, Event, LocalCluster, get_task_stream

import streamhalf
from streamhalf import DataError, RunConfig, StreamhalfError
from streamhalf.data.opening import open_source
from streamhalf.data.zarr_reader import ZarrReader
from streamhalf.engine import Counted, Job
from streamhalf.engine import cluster as cluster_engine
from streamhalf.engine.cluster import ClusterEngine, call_on_workers
from streamhalf.engine.scheduler import survey_workers
from streamhalf.reductions.labels import LabelCounts
from tests.comparing import comparable
from tests.waiting import PATIENCE

N_WORKERS, N_CHUNKS = 6, 40
MIB = 1 << 20
OPTIONS: dict[str, Any] = {"eps": 0.25, "certificate_degree": 0, "seed": 3}


@pytest.fixture(autouse=True)
def many_tasks(small_blocks: None) -> None:
    """A pass has more tasks than there are workers."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "rows.zarr"
    spec: dict[str, Any] = {"rows": N_CHUNKS * 1024, "dim": 3, "marginal": "gaussian"}
    noise: dict[str, Any] = {"noise": "chow", "rate": 0.05}
    streamhalf.synth(path, chunk_rows=1024, scheduler="serial", seed=1, **spec, **noise)
    return path


@pytest.fixture(scope="module")
def six() -> Iterator[Client]:
    """Six workers of one thread, on a scheduler that others use too."""
    with (
        LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def arrays_of(store: Path) -> tuple[Any, Any]:
    group = zarr.open_group(store, mode="r")
    return group["X"], group["y"]


def make_data(kind: str, store: Path) -> Any:
    X, y = arrays_of(store)
    return {
        "store": store,
        "windows": store,
        "numpy": (np.asarray(X), np.asarray(y)),
        "columns": (np.asfortranarray(X), np.asarray(y)),
    }[kind]


def workers_by_group(seen: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    """How many tasks of every group each worker ran."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for one in seen:
        found[one["key"][0]][one["worker"]] += 1
    return found


@pytest.mark.parametrize(
    "kind", ["store", "numpy", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("windows", "columns"))]
)
def test_fit__runs_tasks_of_every_pass_on_every_worker(kind: str, six: Client, store: Path) -> None:
    """Of early passes too, which read a few thousand rows in windows."""
    data = make_data(kind, store)
    options = {**OPTIONS, "sampling": "windows" if kind == "windows" else "auto"}
    expected = comparable(streamhalf.fit(data, scheduler="serial", **options))
    with get_task_stream(six) as stream:
        result = streamhalf.fit(data, client=six, dashboard_page=False, **options)
    assert comparable(result) == expected
    groups = workers_by_group(stream.data)
    (run,) = {name.rpartition("-")[2] for name in groups}
    for one in result.passes:
        counts = groups[f"streamhalf-{one.name}-{run}"]
        assert sum(counts.values()) >= 2 * N_WORKERS
        assert len(counts) == N_WORKERS, (one.name, counts)


@pytest.mark.parametrize("n_tasks", [N_WORKERS, 5 * N_WORKERS])
def test_tasks__with_a_large_context_are_spread_too(six: Client, n_tasks: int) -> None:
    def leaf(context: bytes, item: int) -> Counted:
        time.sleep(0.05)
        return Counted(1, {item: len(context)})

    def combine(context: bytes, parts: Sequence[Any]) -> Any:
        return functools.reduce(operator.or_, parts)

    size = 4 * MIB
    job = Job("large", bytes(size), tuple(range(n_tasks)), (1,) * n_tasks, leaf, combine)
    with get_task_stream(six) as stream:
        found = ClusterEngine(six).run(job, lambda rows: None)
    assert found.partial == dict.fromkeys(range(n_tasks), size)
    groups = workers_by_group(stream.data)
    (maps,) = (name for name in groups if name.startswith("streamhalf-large-"))
    assert len(groups[maps]) == N_WORKERS


@pytest.mark.slow
def test_fits__are_groups_of_their_own_on_the_dashboard(six: Client, store: Path) -> None:
    found = []
    for _ in range(2):
        with get_task_stream(six) as stream:
            streamhalf.fit(store, client=six, dashboard_page=False, **OPTIONS)
        found.append({one["key"][0] for one in stream.data})
    assert not found[0] & found[1]
    prefixes = [{key_split((name, 0)) for name in names} for names in found]
    assert prefixes[0] == prefixes[1]
    assert {"streamhalf-initial", "streamhalf-update", "streamhalf-final"} < prefixes[0]
    assert all(name.startswith("streamhalf-") for name in prefixes[0])


def test_dashboard_page__can_be_kept_off_a_shared_scheduler(six: Client, store: Path) -> None:
    def plugins(dask_scheduler: Any = None) -> set[str]:
        return set(dask_scheduler.plugins)

    before = six.run_on_scheduler(plugins)
    streamhalf.test(store, client=six, dashboard_page=False)
    assert six.run_on_scheduler(plugins) == before
    assert "streamhalf-page" not in before


def test_rows_in_memory__go_to_a_cluster_once(six: Client, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_data("numpy", store)
    sent: list[int] = []
    graphs: list[int] = []

    def scatter(values: Any, **options: Any) -> Any:
        sent.extend(one.nbytes for pair in values.values() for one in pair)
        return Client.scatter(six, values, **options)

    def get(graph: Any, keys: Any, **options: Any) -> Any:
        graphs.append(len(cluster_engine.Packed.of(dict(graph)).content))
        return Client.get(six, graph, keys, **options)

    monkeypatch.setattr(six, "scatter", scatter)
    monkeypatch.setattr(six, "get", get)
    result = streamhalf.fit((X, y), client=six, dashboard_page=False, **OPTIONS)
    assert sum(sent) == X.nbytes + y.nbytes
    assert len(graphs) == len(result.passes)
    assert max(graphs) < X.nbytes / 4
    assert not six.has_what() or not any(map(len, six.has_what().values()))


def test_call_on_workers__leaves_their_event_loops_free(six: Client, store: Path) -> None:
    loops = six.run(threading.get_ident)
    assert all(found != loops[one] for one, found in call_on_workers(six, _ident).items())

    class OffTheLoop(LabelCounts):
        """Fails where an event loop runs."""

        def map(self, block: Any) -> Any:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return super().map(block)
            raise DataError("this is an event loop")

    records = survey_workers(ClusterEngine(six), open_source(store), {"labels": OffTheLoop()})
    assert [one.rows_read for one in records] == [1024] * N_WORKERS


def _ident() -> int:
    return threading.get_ident()


def test_zarr_arrays__are_read_chunk_by_chunk(store: Path, tmp_path: Path) -> None:
    X, y = arrays_of(store)
    source = open_source((X, y))
    assert isinstance(source.reader, ZarrReader)
    assert source.fingerprint == open_source(store).fingerprint
    # labels in memory: features are lazy all the same, and a missing chunk is no row of zeros
    mixed = streamhalf.fit((X, np.asarray(y)), scheduler="threads", **OPTIONS)
    assert mixed.data.fingerprint == source.fingerprint
    hole = zarr.create_array(str(tmp_path / "hole.zarr"), shape=(64, 2), chunks=(32, 2), dtype="f4")
    hole[:32] = 1.0
    with pytest.raises(DataError, match=r"missing|NaN"):
        streamhalf.test((hole, np.ones(64, dtype="i1")), scheduler="serial")


@pytest.mark.slow
def test_adaptive_cluster__at_zero_workers_starts(store: Path) -> None:
    rows: Any = make_data("numpy", store)
    with (
        LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        cluster.adapt(minimum=0, maximum=2, interval="200ms", wait_count=3)
        for data in (store, rows):
            found = streamhalf.fit(data, client=client, worker_timeout=PATIENCE, **OPTIONS)
            expected = streamhalf.fit(data, scheduler="serial", **OPTIONS)
            assert comparable(found) == comparable(expected)


def test_stalled_pass__says_what_executes_and_ends(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def leaf(context: str, item: int) -> Counted:
        if item:
            Event(context).wait(PATIENCE)
        return Counted(1, item)

    monkeypatch.setattr(cluster_engine, "_LOOK_SECONDS", 0.1)
    job = Job("slow", "go on", (0, 1), (1, 1), leaf, lambda context, parts: sum(parts))
    engine = ClusterEngine(client, RunConfig(stall_timeout=0.2))
    message = r"'slow': no task has ended for \d+ s: .*raise stall_timeout \(0\.2 s\); passes that"
    with pytest.raises(StreamhalfError, match=message):
        engine.run(job, lambda rows: None)
    Event("go on", client=client).set()


@pytest.mark.slow
def test_slow_task__is_no_stall(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """One task takes longer than `stall_timeout`, which leaves a busy worker time to say that it executes it."""

    def leaf(context: int, item: int) -> Counted:
        time.sleep(item)
        return Counted(1, item)

    monkeypatch.setattr(cluster_engine, "_LOOK_SECONDS", 0.1)
    job = Job("slow", 0, (13,), (1,), leaf, lambda context, parts: sum(parts))
    engine = ClusterEngine(client, RunConfig(stall_timeout=12))
    assert engine.run(job, lambda rows: None).partial == 13


class FakeClient:
    """Tells what it was given of workers."""

    def __init__(self, **workers: tuple[str, int, int]) -> None:
        self.workers = {
            name: {
                "status": status,
                "memory_limit": 1024 * MIB,
                "metrics": {"memory": used * MIB, "task_counts": {"executing": executing}},
            }
            for name, (status, used, executing) in workers.items()
        }

    def scheduler_info(self, n_workers: int) -> Any:
        return {"workers": self.workers}


@pytest.mark.parametrize(
    ("client", "limit", "words"),
    [
        (
            FakeClient(a=("paused", 830, 0), b=("running", 200, 0)),
            "stall_timeout",
            r"1 of 2 workers are paused, short of memory \(a uses 830 MiB of 1,024 MiB\); raise "
            r"the --memory-limit of worker a, or add workers; to wait longer, raise stall_timeout",
        ),
        (FakeClient(a=("paused", 830, 0)), "stall_timeout", "of all workers"),
        (FakeClient(a=("running", 200, 0)), "stall_timeout", "1 workers execute nothing"),
        (FakeClient(), "worker_timeout", "no worker any more .*raise worker_timeout"),
    ],
)
def test_watch__says_why_nothing_goes_on(client: Any, limit: str, words: str, caplog: pytest.LogCaptureFixture) -> None:
    """Worker a holds what others wait for, and b is "running" for lack of work."""
    waits: dict[str, Any] = {"stall_timeout": 1e6, "worker_timeout": 1e6}
    watch = cluster_engine._Watch(client, RunConfig(**waits))
    watch.look("final")  # long before
    caplog.clear()
    watch = cluster_engine._Watch(client, RunConfig(**{**waits, limit: 0.4}))
    time.sleep(0.25)
    with caplog.at_level(logging.WARNING, "streamhalf"):
        watch.look("final")
    assert caplog.messages[-1].startswith(
        ("pass final: no task has ended for 0 s: ", "pass final: waiting for workers: ")
    )
    time.sleep(0.25)
    with pytest.raises(StreamhalfError, match=words):
        watch.look("final")


@pytest.mark.slow
def test_idle_workers__keep_no_more_than_plain_dask_leaves(tmp_path: Path) -> None:
    import dask
    import dask.array as da

    def resident(dask_worker: Any = None) -> int:
        return int(dask_worker.monitor.proc.memory_info().rss)

    path = tmp_path / "rows.zarr"
    spec: dict[str, Any] = {"rows": 1 << 18, "dim": 16, "marginal": "gaussian", "noise": "none"}
    streamhalf.synth(path, chunk_rows=1 << 16, scheduler="threads", **spec)

    def plain(client: Client) -> None:
        X, y = (da.from_zarr(str(path / name)) for name in ("X", "y"))
        client.run(importlib.import_module, "numba")  # 60 MiB, which loops over rows take as well
        with dask.config.set(scheduler=client):
            dask.compute((X * y[:, None]).mean(axis=0), X.T @ X)

    def fit(client: Client) -> None:
        streamhalf.fit(path, client=client, **OPTIONS)

    left = []
    for work in (plain, fit):
        with (
            LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            for _ in range(6):
                work(client)
            left.append(max(client.run(resident).values()))
    assert left[1] < 1.2 * left[0], [nbytes / MIB for nbytes in left]
