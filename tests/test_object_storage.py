"""Every command over s3:// on a real S3 server, with faults on the way and secrets kept."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streamhalf
from scripts.benchmarking.slow_line import open_line
from streamhalf import DataError, FitResult, StreamhalfError, paths
from streamhalf.cli import main
from streamhalf.data import chunk_cache, source, table_source
from streamhalf.engine import memory
from streamhalf.events import PassProgress, PassStarted
from streamhalf.paths import is_transient
from tests.clusters import open_cluster
from tests.comparing import comparable
from tests.conftest import make_rows, write_arrays
from tests.fault_proxy import FaultProxy, open_proxy
from tests.s3_server import BUCKET, KEY, SECRET, S3Server, require_programs, start_server

OPTIONS: dict[str, Any] = {"eps": 0.1, "certificate_degree": 0}
SYNTH = ("--rows", "120000", "--dim", "2", "--chunk-rows", "4096", "--noise", "chow", "--rate", "0.05")
FIT = ("--eps", "0.1", "--certificate-degree", "0", "--workers", "2")
DEGREE = ("--certificate-degree", "2")
URL = f"s3://{BUCKET}/data/rows.zarr"

# s3fs closes its sessions in finalizers, which the interpreter may run too late for aiohttp
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("small_blocks"),  # a pass has a middle
    pytest.mark.filterwarnings("ignore:.*[Uu]nclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    require_programs()
    with start_server(tmp_path_factory.mktemp("s3")) as server:
        code = main(["synth", URL, *SYNTH, "--quiet", *server.flags])
        assert code == 0
        yield server


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("local") / "rows.zarr"
    assert main(["synth", str(path), *SYNTH, "--quiet"]) == 0
    return path


@pytest.fixture(scope="module")
def undisturbed(local: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK_NBYTES", 1)
        return comparable(streamhalf.fit(local, n_workers=2, **OPTIONS))


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    with open_proxy(s3.port) as proxy:
        yield proxy


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass fetches what it reads."""
    monkeypatch.setattr(memory, "KEPT_SHARE", 0.0)


def through(proxy: FaultProxy, reader: str = "fsspec") -> dict[str, Any]:
    """Options for the way through the proxy; what fails is tried again by us alone."""
    # another endpoint is another filesystem to fsspec, which would reuse one of equal options
    endpoint = f"http://127.0.0.1:{proxy.port}"
    options = {"key": KEY, "secret": SECRET, "endpoint_url": endpoint}
    if reader == "obstore":
        return options
    return {**options, "config_kwargs": {"retries": {"max_attempts": 1}}}


def test_commands__run_over_s3_and_keep_the_secret(
    s3: S3Server, undisturbed: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result, certificate = tmp_path / "result.json", tmp_path / "certificate.json"
    saved = f"s3://{BUCKET}/saved"
    commands: list[list[str]] = [
        ["inspect", URL],
        ["test", URL],
        ["fit", URL, *FIT, "--json", str(result), "--checkpoint", saved],
        ["fit", URL, *FIT, "--json", str(result), "--checkpoint", saved, "--resume"],
        ["predict", URL, "--model", str(result), "--out", f"s3://{BUCKET}/predicted.zarr"],
        ["audit", URL, "--model", str(result), "--out", f"s3://{BUCKET}/suspects.zarr"],
        ["certify", URL, "--weights", str(result), *DEGREE, "--json", str(certificate)],
        ["verify", str(certificate), URL],
        ["inspect", URL + "x"],
    ]
    codes = [main([*command, *s3.flags]) for command in commands]
    assert codes == [0] * 8 + [3]
    assert comparable(result) == undisturbed
    assert json.loads(result.read_text())["data"]["source"] == URL
    output = capfd.readouterr()
    written = output.out + output.err + result.read_text() + certificate.read_text()
    assert SECRET not in written
    assert KEY not in written
    assert f"{URL}x" in output.err


@pytest.mark.parametrize("command", ["fit", "synth"])
def test_secret__that_is_wrong_is_an_error_that_does_not_show_it(
    s3: S3Server, command: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [flag.replace(SECRET, "no-such-secret") for flag in s3.flags]
    tried_again: list[BaseException] = []

    def note(error: BaseException) -> bool:
        if is_transient(error):
            tried_again.append(error)
        return False

    monkeypatch.setattr(paths, "is_transient", note)
    extra = [*SYNTH, "--overwrite"] if command == "synth" else []
    assert main([command, URL, *extra, "--quiet", *wrong]) in (2, 3)
    (line,) = capfd.readouterr().err.splitlines()
    assert URL in line
    assert f"access is denied by {s3.endpoint} with key and secret of the storage options" in line
    assert "no-such-secret" not in line
    assert tried_again == []


def test_anonymous__reads_a_public_bucket(s3: S3Server) -> None:
    import s3fs

    filesystem = s3fs.S3FileSystem(**s3.options)
    filesystem.mkdir("public", acl="public-read")
    # public-read lets anybody list; objects carry an access list of their own
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        options = {**s3.options, "s3_additional_kwargs": {"ACL": "public-read"}}
        url = "s3://public/rows.zarr"
        shape: dict[str, Any] = {"rows": 300, "dim": 2, "marginal": "gaussian", "noise": "none"}
        streamhalf.synth(url, storage_options=options, scheduler="serial", **shape)
        found = streamhalf.inspect(url, storage_options={"anon": True, "endpoint_url": s3.endpoint})
    assert found.rows == 300
    assert found.missing == ()


ROWS, ROW_NBYTES, CHUNKS = 120_000, 9, 2 * 30


def counted(s3: S3Server, **parameters: Any) -> tuple[FitResult, dict[str, int], float]:
    """A fit, the requests that it made, and the bytes it moved in those of the store."""
    with open_line(s3.port) as line:
        options = {**s3.options, "endpoint_url": f"http://127.0.0.1:{line.port}"}
        result = streamhalf.fit(URL, storage_options=options, n_workers=2, **OPTIONS, **parameters)
        moved = line.nbytes / (ROWS * ROW_NBYTES)
        assert sum(one.requests for one in result.passes) == line.requests["GET"]
        assert sum(one.bytes_moved for one in result.passes) <= line.nbytes
        return result, line.requests, moved


def test_fit__moves_a_store_that_fits_once_and_asks_nothing_else(s3: S3Server, undisturbed: str) -> None:
    before = set(chunk_cache._caches)
    result, requests, moved = counted(s3)
    assert comparable(result) == undisturbed
    assert (requests["HEAD"], requests["other"]) == (0, 0)
    assert CHUNKS <= requests["GET"] <= 1.1 * CHUNKS
    assert 1.0 <= moved <= 1.1  # heads of answers are no small part of such small chunks
    first, *others = result.passes
    assert first.bytes_moved > ROWS * ROW_NBYTES
    assert not any(one.requests for one in others)
    assert set(chunk_cache._caches) <= before


def test_cache__takes_what_memory_has_no_room_for_and_is_emptied(
    s3: S3Server, undisturbed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "KEPT_SHARE", 1e-9)
    result, requests, moved = counted(s3, cache=tmp_path / "cache")
    assert comparable(result) == undisturbed
    assert requests["GET"] <= 1.1 * CHUNKS
    assert moved <= 1.1
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.usefixtures("nothing_kept")
def test_fit__that_keeps_nothing_fetches_every_chunk_once_a_pass(s3: S3Server, undisturbed: str) -> None:
    result, requests, _ = counted(s3)
    assert comparable(result) == undisturbed
    assert requests["HEAD"] == 0
    wholes = [one for one in result.passes if one.rows_read == ROWS]
    assert len(wholes) > 1
    for one in wholes[1:]:  # the first has what opening the store took as well
        # the last chunk too is stored in full size
        assert ROWS * ROW_NBYTES <= one.bytes_moved <= 1.03 * ROWS * ROW_NBYTES
        assert one.requests == CHUNKS


class Failing:
    """An observer that makes the proxy fail once in the middle of each named pass."""

    def __init__(self, proxy: FaultProxy, faults: dict[str, str], seconds: float = 0.0) -> None:
        self.proxy, self.faults, self.seconds = proxy, dict(faults), seconds
        self.started: list[str] = []

    def __call__(self, event: Any) -> None:
        if isinstance(event, PassStarted):
            self.started.append(event.name)
        if isinstance(event, PassProgress) and event.name in self.faults:
            self.proxy.fail(self.faults.pop(event.name), seconds=self.seconds)


@pytest.mark.parametrize("reader", ["obstore", "fsspec"])
@pytest.mark.usefixtures("nothing_kept")
def test_server__that_fails_for_a_while_changes_nothing(proxy: FaultProxy, undisturbed: str, reader: str) -> None:
    faults = {"update-1": "503", "update-2": "refuse", "update-3": "stall", "final": "503"}
    observer = Failing(proxy, faults, 1.0)
    result = streamhalf.fit(URL, n_workers=2, storage_options=through(proxy, reader), observer=observer, **OPTIONS)
    assert observer.faults == {}
    assert set(proxy.faults) == {"503", "refuse", "stall"}
    assert comparable(result) == undisturbed


@pytest.mark.parametrize(("fault", "reader"), [("403", "obstore"), ("refuse", "fsspec")])
@pytest.mark.usefixtures("nothing_kept")
def test_server__that_fails_for_good_is_an_error_and_the_run_resumes(
    proxy: FaultProxy,
    s3: S3Server,
    undisturbed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    reader: str,
) -> None:
    monkeypatch.setattr(paths, "DELAYS", (0.1, 0.2))
    folder = tmp_path / "saved"
    options = through(proxy, reader)
    with pytest.raises(StreamhalfError, match=r"object X/c/\d+/0|object y/c/\d+") as caught:
        streamhalf.fit(
            URL,
            n_workers=2,
            storage_options=options,
            checkpoint=folder,
            observer=Failing(proxy, {"update-3": fault}, 1e6),
            **OPTIONS,
        )
    assert SECRET not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    observer = Failing(proxy, {})
    result = streamhalf.fit(
        URL, n_workers=2, storage_options=s3.options, checkpoint=folder, resume=True, observer=observer, **OPTIONS
    )
    assert (observer.started[0], observer.started[-1]) == ("update-3", "calibration")
    assert comparable(result) == undisturbed


def test_checkpoint__on_a_server_that_fails_for_good_is_named(
    proxy: FaultProxy, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "DELAYS", (0.1,))
    saved = f"s3://{BUCKET}/elsewhere"
    proxy.fail("403", seconds=1e6, about="PUT")
    with pytest.raises(StreamhalfError, match=r"s3://rows/elsewhere/pass-000.npz: cannot be writ"):
        streamhalf.fit(local, storage_options=through(proxy), checkpoint=saved, n_workers=2, **OPTIONS)


def test_cluster__reads_s3_and_its_logs_keep_the_secret(s3: S3Server, undisturbed: str, tmp_path: Path) -> None:
    with open_cluster(tmp_path, n_workers=1) as cluster:
        where: dict[str, Any] = {"scheduler": str(cluster.file), "storage_options": s3.options}
        assert comparable(streamhalf.fit(URL, **where, **OPTIONS)) == undisturbed
        shape: dict[str, Any] = {"rows": 3000, "dim": 2, "marginal": "gaussian", "noise": "none"}
        with pytest.raises(StreamhalfError, match=r"NoSuchBucket|FileNotFound"):
            streamhalf.synth("s3://no-such-bucket/rows.zarr", **where, **shape)
        # a task that fails is logged with its arguments
        wrong = {**s3.options, "secret": SECRET + "x"}
        log_failure(cluster.address, wrong)
        assert SECRET not in cluster.logs()
        assert "Compute Failed" in cluster.logs()


def test_parquet__on_s3_is_fitted_like_a_store(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of row groups of 512 rows, by threads and on a cluster."""
    X, y = make_rows(4096, 2, seed=3)
    write_arrays(str(tmp_path / "rows.zarr"), X, y, chunk_rows=512, compressors=None)
    for i, part in enumerate(np.split(np.arange(4096), 4)):
        frame = pd.DataFrame(X[part], columns=["a", "b"]).assign(y=y[part])
        url = f"s3://{BUCKET}/tables/rows/{i}.parquet"
        frame.to_parquet(url, row_group_size=512, index=False, storage_options=s3.options)
    monkeypatch.setattr(table_source, "_KEPT_NBYTES", 0)
    given: dict[str, Any] = {"seed": 1, "storage_options": s3.options, **OPTIONS}
    expected = streamhalf.fit(tmp_path / "rows.zarr", seed=1, **OPTIONS)
    with open_cluster(tmp_path, n_workers=1) as cluster:
        for where in ({}, {"scheduler": str(cluster.file)}):
            found = streamhalf.fit(f"s3://{BUCKET}/tables/rows/", **given, **where)
            assert (found.halfspace, found.error) == (expected.halfspace, expected.error)
            assert found.data.fingerprint == expected.data.fingerprint
        assert SECRET not in cluster.logs()
    wrong = {**s3.options, "secret": SECRET + "x"}
    with pytest.raises(DataError, match="access is denied") as caught:
        streamhalf.fit(f"s3://{BUCKET}/tables/rows/*.parquet", storage_options=wrong)
    assert SECRET not in str(caught.value)


def log_failure(address: str, options: dict[str, Any]) -> None:
    """Run the writing of a store without permission to write on a worker."""
    from distributed import Client

    from streamhalf.data.block import RowRange
    from streamhalf.data.zarr_groups import Target
    from streamhalf.synthetic.spec import SyntheticSpec, plant, write_rows

    spec = SyntheticSpec(rows=10, dim=2, marginal="gaussian", noise="none")
    with Client(address, set_as_default=False) as client:
        future = client.submit(write_rows, Target(URL, options), spec, plant(spec), RowRange(0, 10), pure=False)
        assert isinstance(future.exception(), StreamhalfError)


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Nothing: the test's output is not the server's log."""


def test_http__reads_a_store_from_a_web_server(local: Path, undisturbed: str) -> None:
    handler = functools.partial(Silent, directory=str(local.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/rows.zarr"
            assert comparable(streamhalf.fit(url, n_workers=2, **OPTIONS)) == undisturbed
            with pytest.raises(DataError, match=r"nowhere\.zarr: not a readable Zarr group"):
                streamhalf.fit(url.replace("rows", "nowhere"), **OPTIONS)
        finally:
            server.shutdown()
            thread.join()
