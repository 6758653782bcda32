"""Manners on a shared cluster: `dask scheduler`, and workers that live in another folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import streamhalf
from streamhalf.engine import cluster as cluster_engine
from streamhalf.engine.memory import PROCESS_NBYTES
from streamhalf.events import PassProgress, RunStarted
from tests.clusters import Cluster, open_cluster
from tests.conftest import make_rows
from tests.waiting import PATIENCE, wait_until

ROWS, DIM = 60 * 1024, 2
OPTIONS: dict[str, Any] = {"eps": 0.25, "certificate_degree": 0, "seed": 3}
MIB = 1 << 20

pytestmark = [
    pytest.mark.slow,
    # Dask's client leaves connections to peers that are gone to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a client, with data in it."""
    folder = tmp_path_factory.mktemp("client")
    spec: dict[str, Any] = {"rows": ROWS, "dim": DIM, "marginal": "gaussian", "noise": "chow"}
    streamhalf.synth(folder / "rows.zarr", chunk_rows=3072, rate=0.05, scheduler="serial", **spec)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with open_cluster(tmp_path_factory.mktemp("elsewhere")) as cluster:
        with Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
        yield cluster


@pytest.fixture(autouse=True)
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch, small_blocks: None) -> None:
    """Relative paths are of the client; a pass has many tasks."""
    monkeypatch.chdir(home)


def test_dry_run__asks_every_worker_and_writes_nothing(cluster: Cluster, home: Path) -> None:
    seen: list[Any] = []
    before = sorted(home.rglob("*"))
    found = streamhalf.dry_run("rows.zarr", scheduler=str(cluster.file), checkpoint="kept", observer=seen.append)
    assert sorted(home.rglob("*")) == before
    assert [type(event) for event in seen] == [RunStarted]
    assert found.place == cluster.address
    assert len(found.workers) == found.n_threads == 2
    assert found.differences == ()
    for worker in found.workers:
        assert worker.rows_read == 3072
        assert worker.seconds > 0
        assert worker.memory_nbytes is not None
        assert set(worker.work) == {"moments", "certificate"}
    names = [one.name for one in found.plan.passes]
    assert (names[0], names[-2:]) == ("sample", ["final", "certificate"])
    assert found.n_tasks == sum(one.n_tasks or 0 for one in found.plan.passes)
    assert 0 < found.seconds < PATIENCE
    result = streamhalf.fit("rows.zarr", scheduler=cluster.address, seed=3)
    read = {one.name: one.bytes_read for one in result.passes}
    for one in found.plan.passes:
        if one.name in ("sample", "initial", "final", "certificate"):
            assert one.nbytes == read[one.name]


def test_memory__of_workers_goes_before_memory_limit(home: Path, tmp_path: Path) -> None:
    with open_cluster(tmp_path, n_workers=0) as small:
        small.add_worker("--memory-limit", "600MiB")
        found = streamhalf.dry_run("rows.zarr", scheduler=small.address)
        # four fifths, where it pauses, less what it takes itself
        assert found.memory_limit == found.workers[0].memory_nbytes == 480 * MIB - PROCESS_NBYTES
        # what is asked for and is less than they have is kept
        given = {"scheduler": small.address, "memory_limit": "100MiB"}
        assert streamhalf.dry_run("rows.zarr", **given).memory_limit == 100 * MIB
        spec: dict[str, Any] = {"rows": 1 << 23, "dim": 4, "marginal": "gaussian"}
        with pytest.raises(streamhalf.MemoryBudgetError, match=r"synth needs about .* and worker"):
            streamhalf.synth("large.zarr", chunk_rows=1 << 23, noise="none", scheduler=small.address, **spec)


@pytest.mark.slow
def test_waiting__is_said_and_ends_when_a_worker_joins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_cluster(tmp_path, n_workers=0) as empty, caplog.at_level(logging.WARNING, "streamhalf"):
        run = streamhalf.fit(make_rows(300, 2), scheduler=empty.address, wait=False, **OPTIONS)
        words = f"waiting for workers: none has joined {empty.address} yet"
        wait_until(lambda: words in caplog.messages, "a word about waiting")
        empty.add_worker()
        assert run.result(PATIENCE).data.rows == 300


@pytest.mark.slow
def test_paused_worker__is_reported_while_another_works(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_engine, "_GLANCE_SECONDS", 0.0)

    def allow(share: float, dask_worker: Any = None) -> None:
        dask_worker.memory_manager.memory_pause_fraction = share  # it looks at this all the time

    with Client(cluster.address, set_as_default=False) as other:
        one = sorted(other.scheduler_info(n_workers=-1)["workers"])[0]
        acts = iter([("paused", 1e-6), ("running", 0.8)])

        def act(event: Any) -> None:
            middle = isinstance(event, PassProgress) and 0 < event.rows_done < event.n_rows
            if middle and (wanted := next(acts, None)) is not None:
                status, share = wanted
                other.run(allow, share, workers=[one])
                wait_until(lambda: status_of(one) == status, f"a worker that is {status}")

        def status_of(worker: str) -> str:
            return str(other.scheduler_info(n_workers=-1)["workers"][worker]["status"])

        with caplog.at_level(logging.WARNING, "streamhalf"):
            streamhalf.fit("rows.zarr", scheduler=cluster.address, observer=act, **OPTIONS)
    told = " | ".join(caplog.messages)
    assert f"worker {one} is paused, short of memory" in told
    assert f"worker {one} works again" in told
