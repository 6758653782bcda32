"""Clusters of `dask scheduler` and `dask worker` programs: files, TLS, workers that do not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client

import streamhalf
from streamhalf import MemoryBudgetError, StreamhalfError
from streamhalf.engine.cluster import ClusterEngine
from tests.clusters import Cluster, open_cluster
from tests.comparing import comparable
from tests.conftest import make_rows, write_arrays
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
OPTIONS: dict[str, Any] = {"eps": 0.25, "certificate_degree": 0}
FLAGS = ("--eps", "0.25", "--certificate-degree", "0", "--quiet")

pytestmark = [
    pytest.mark.slow,
    # Dask's client leaves connections to peers that are gone to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "rows.zarr"
    spec: dict[str, Any] = {"rows": 120_000, "dim": 2, "marginal": "gaussian"}
    streamhalf.synth(path, chunk_rows=8192, noise="chow", rate=0.05, **spec)
    return path


@pytest.fixture(scope="module")
def undisturbed(store: Path) -> str:
    return comparable(streamhalf.fit(store, scheduler="serial", **OPTIONS))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with open_cluster(tmp_path_factory.mktemp("cluster"), n_workers=1) as cluster:
        yield cluster


def test_workers__that_do_not_fit_are_named_before_any_work(cluster: Cluster, store: Path, tmp_path: Path) -> None:
    fake = tmp_path / "streamhalf-9.9.dist-info"
    fake.mkdir()
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: streamhalf\nVersion: 9.9\n")
    other = cluster.add_worker("--name", "other", environment={"PYTHONPATH": str(tmp_path)})
    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
    message = r"worker tcp://127\.0\.0\.1:\d+ has streamhalf version 9\.9, this process has"
    with pytest.raises(StreamhalfError, match=message):
        streamhalf.fit(store, scheduler=cluster.address, **OPTIONS)
    other.kill()
    other.wait()
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.metadata as m\n"
        "real = m.version\n"
        "def version(name):\n"
        "    if name == 'streamhalf': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
    )
    cluster.add_worker("--name", "bare", environment={"PYTHONPATH": str(hidden)})
    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
    with pytest.raises(StreamhalfError, match=r"has streamhalf none, .*install the same on every"):
        streamhalf.fit(store, scheduler=cluster.address, **OPTIONS)


def test_scheduler__without_workers_is_an_error(store: Path, tmp_path: Path) -> None:
    message = r"no worker joined in 1 s \(worker_timeout\); .*`dask worker`"
    with open_cluster(tmp_path, n_workers=0) as empty, pytest.raises(StreamhalfError, match=message):
        streamhalf.fit(store, scheduler=empty.address, worker_timeout=1, **OPTIONS)


def make_certificates(folder: Path) -> dict[str, str]:
    """A throw-away authority and one certificate, as settings of Dask."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "rsa:2048", "-nodes", "-days", "1")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test-ca")
    openssl("req", *key[:3], "-keyout", "key.pem", "-out", "csr.pem", "-subj", "/CN=127.0.0.1")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1")
    openssl("x509", "-req", "-in", "csr.pem", *signing, "-out", "cert.pem")
    settings = {"CA_FILE": "ca.pem"}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings |= {f"{role}__CERT": "cert.pem", f"{role}__KEY": "key.pem"}
    prefix = "DASK_DISTRIBUTED__COMM__"
    named = {f"{prefix}TLS__{name}": str(folder / file) for name, file in settings.items()}
    return {**named, f"{prefix}REQUIRE_ENCRYPTION": "true"}


def test_tls__comes_from_the_settings_of_dask(store: Path, undisturbed: str, tmp_path: Path) -> None:
    environment = make_certificates(tmp_path)
    result = tmp_path / "result.json"
    with open_cluster(tmp_path, n_workers=1, environment=environment, protocol="tls") as encrypted:
        assert encrypted.address.startswith("tls://")
        program = [sys.executable, "-m", "streamhalf", "fit", str(store), *FLAGS]
        command = [*program, "--scheduler", encrypted.address, "--json", str(result)]
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        assert comparable(result) == undisturbed
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "1s"}),  # in vain in any case
            pytest.raises(StreamhalfError, match="scheduler: cannot reach tls://"),
        ):
            streamhalf.fit(store, scheduler=encrypted.address, **OPTIONS)  # without certificates


@pytest.mark.slow
def test_worker__short_of_memory_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk of 128 MiB is more than the worker has; its nanny ends it, again and again.

    It is compressed, so that it cannot be read in parts.
    """
    path, (X, y) = tmp_path / "wide.zarr", make_rows(1 << 12, 64)
    write_arrays(path, np.tile(X, (128, 1)), np.tile(y, 128), chunk_rows=1 << 19)
    with open_cluster(tmp_path, n_workers=0) as small:
        small.add_worker("--memory-limit", "380MiB", nanny=True)
        known = (
            r"test needs about .* MiB for one task, and worker tcp://\S+, which pauses at 304 MiB, "
            r"has 0 MiB for tasks; raise its --memory-limit, or store smaller chunks"
        )
        with pytest.raises(MemoryBudgetError, match=known):
            streamhalf.test(path, scheduler=small.address, degree=2, memory_limit=4 << 30)
        # where more is needed than was expected
        monkeypatch.setattr(ClusterEngine, "worker_limits", lambda engine: ())
        with pytest.raises(StreamhalfError, match=r"pass '(moments|sample)': .*memory.*--resume"):
            streamhalf.test(path, scheduler=small.address, degree=2, memory_limit=4 << 30)


def test_cluster_job__fits_and_leaves_nothing_behind(store: Path, undisturbed: str, tmp_path: Path) -> None:
    result, scratch = tmp_path / "result.json", tmp_path / "tmp"
    scratch.mkdir()
    command = [str(ROOT / "scripts" / "cluster_job"), str(store), str(result), *FLAGS]
    settings = {"WORKERS": "1", "STREAMHALF_PYTHON": sys.executable, "TMPDIR": str(scratch)}
    environment = {**os.environ, **settings}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert comparable(result) == undisturbed
    assert (tmp_path / "result.json.checkpoint" / "manifest.json").exists()
    assert list(scratch.iterdir()) == []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(scratch) not in process.read_text()
        except OSError:
            continue  # it ended while we looked
