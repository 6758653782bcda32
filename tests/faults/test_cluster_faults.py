"""Workers, schedulers and clients that die in the middle of a pass, as real processes do.

Outcome each time: the bits of an undisturbed run, or a clear error and an intact checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr
from distributed import Client

import streamhalf
from streamhalf import FitResult, StreamhalfError
from streamhalf.data import source
from streamhalf.engine import cluster as cluster_engine
from streamhalf.events import PassProgress, PassStarted
from tests.clusters import Cluster, kill, open_cluster
from tests.comparing import comparable
from tests.waiting import PATIENCE

OPTIONS: dict[str, Any] = {"eps": 0.1, "certificate_degree": 0}
N_CHUNKS = 147

# Dask's client leaves its connection to a killed peer to the garbage collector
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("small_blocks"),  # a pass has a middle
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


class During:
    """An observer that acts once in the middle of each named pass, and notes which were run."""

    def __init__(self, **acts: Callable[[], object]) -> None:
        self.acts = {name.replace("_", "-"): act for name, act in acts.items()}
        self.acted: list[str] = []
        self.started: list[str] = []

    def __call__(self, event: Any) -> None:
        if isinstance(event, PassStarted):
            self.started.append(event.name)
        if not isinstance(event, PassProgress) or event.name in self.acted:
            return
        if event.name in self.acts and 0 < event.rows_done < event.n_rows:
            self.acted.append(event.name)
            self.acts[event.name]()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults") / "rows.zarr"
    spec: dict[str, Any] = {"rows": N_CHUNKS * 1024, "dim": 3, "marginal": "gaussian"}
    noise: dict[str, Any] = {"noise": "chow", "rate": 0.05}
    streamhalf.synth(path, chunk_rows=1024, scheduler="serial", **spec, **noise)
    return path


@pytest.fixture(scope="module")
def undisturbed(store: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK_NBYTES", 1)
        return comparable(streamhalf.fit(store, scheduler="serial", **OPTIONS))


def kill_one(cluster: Cluster) -> None:
    kill(cluster.workers()[0])


def kill_all(cluster: Cluster) -> None:
    for worker in cluster.workers():
        kill(worker)


def fit(cluster: Cluster, store: Path, observer: During, **parameters: Any) -> FitResult:
    options = {**OPTIONS, "scheduler": cluster.address, "observer": observer}
    return streamhalf.fit(store, **options, **parameters)


def test_workers__killed_in_the_middle_of_passes_change_nothing(
    store: Path, undisturbed: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_cluster(tmp_path, n_workers=3) as cluster:

        def replace_all() -> None:
            kill_all(cluster)
            cluster.add_worker()

        observer = During(initial=lambda: kill_one(cluster), update_2=lambda: kill_one(cluster), final=replace_all)
        assert comparable(fit(cluster, store, observer)) == undisturbed
        assert observer.acted == ["initial", "update-2", "final"]
    lost = [text for text in caplog.messages if "was lost; others do its work" in text]
    assert lost[0].startswith("pass initial: worker tcp://127.0.0.1:")
    assert {text.split(":")[0] for text in lost} == {"pass initial", "pass update-2", "pass final"}


def test_rows_in_memory__of_killed_workers_are_sent_again(
    store: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    group = zarr.open_group(store, mode="r")
    rows: Any = np.asarray(group["X"]), np.asarray(group["y"])
    expected = comparable(streamhalf.fit(rows, scheduler="serial", **OPTIONS))
    with open_cluster(tmp_path, n_workers=2) as cluster:
        observer = During(initial=lambda: kill_one(cluster), final=cluster.add_worker)
        found = fit(cluster, rows, observer)
    assert comparable(found) == expected
    assert any("blocks of rows were lost and are sent again" in one for one in caplog.messages)


def test_cluster__that_is_gone_is_an_error_and_another_resumes(
    store: Path,
    undisturbed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cluster_engine, "_LOOK_SECONDS", 0.2)
    folder = tmp_path / "checkpoint"
    with open_cluster(tmp_path, n_workers=1) as first:
        with Client(first.address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=PATIENCE)
        observer = During(update_2=lambda: kill_all(first))
        with pytest.raises(StreamhalfError, match=r"'update-2'.*no worker any more.*--resume"):
            fit(first, store, observer, checkpoint=folder, worker_timeout=1)
        saved = sorted(file.name for file in folder.iterdir())
        assert saved[:3] == ["manifest.json", "pass-000.npz", "pass-001.npz"]
        assert "pass update-2: waiting for workers: there is no worker" in caplog.messages

        first.add_worker()
        observer = During(final=lambda: kill(first.scheduler))
        lost = r"'final': the connection to the scheduler was"
        with (
            # so long a lost one is waited for
            dask.config.set({"distributed.comm.timeouts.connect": "5s"}),
            pytest.raises(StreamhalfError, match=lost),
        ):
            fit(first, store, observer, checkpoint=folder, resume=True)
        assert (observer.started[0], observer.started[-1]) == ("update-2", "final")
        assert "Traceback" not in capfd.readouterr().err

        first.start_scheduler()
        first.add_worker()
        observer = During()
        caplog.set_level("INFO", logger="streamhalf")
        result = fit(first, store, observer, checkpoint=folder, resume=True)
    assert any(text.endswith("rows from the checkpoint") for text in caplog.messages)
    assert observer.started == ["final", "calibration"]
    assert comparable(result) == undisturbed
