"""Stores that cannot be seen, from here or from a worker: each way has its sentence.

A real S3 server, and workers that are programs in another folder, with an environment of their own.
"""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import streamhalf
from streamhalf import DataError
from streamhalf.data.opening import open_source
from tests.clusters import open_cluster
from tests.conftest import make_rows, write_arrays
from tests.s3_server import BUCKET, KEY, SECRET, S3Server, require_programs, start_server
from tests.waiting import PATIENCE

URL = f"s3://{BUCKET}/data/rows.zarr"
SPEC: dict[str, Any] = {"rows": 300, "dim": 2, "marginal": "gaussian", "noise": "none"}
NOWHERE = "http://127.0.0.1:1"

pytestmark = [
    pytest.mark.slow,
    # s3fs and Dask close connections in finalizers, which may run late
    pytest.mark.filterwarnings("ignore:.*[Uu]nclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    require_programs()
    with start_server(tmp_path_factory.mktemp("s3")) as server:
        streamhalf.synth(URL, storage_options=server.options, scheduler="serial", **SPEC)
        yield server


class Answering(http.server.BaseHTTPRequestHandler):
    """A server that has buckets perhaps, and nothing in them."""

    has_buckets = False

    def do_HEAD(self) -> None:
        is_bucket = self.path.strip("/").count("/") == 0
        self.send_response(200 if self.has_buckets and is_bucket else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@contextmanager
def answering(*, has_buckets: bool) -> Iterator[str]:
    kind = type("Kind", (Answering,), {"has_buckets": has_buckets})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def program(*arguments: str, environment: Mapping[str, str]) -> str:
    """The one line that a command says."""
    command = [sys.executable, "-W", "error", "-m", "streamhalf", *arguments, "--quiet"]
    done = subprocess.run(command, env={**environment}, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 3, done.stderr
    (line,) = done.stderr.splitlines()
    assert SECRET not in line
    return line


def bare() -> dict[str, str]:
    """The environment without a word of object storage."""
    found = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "FSSPEC_"))}
    return {**found, "AWS_EC2_METADATA_DISABLED": "true"}


def knowing(endpoint: str) -> dict[str, str]:
    secrets = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    return {**bare(), **secrets, "AWS_ENDPOINT_URL": endpoint}


@pytest.mark.parametrize(
    ("url", "known", "words"),
    [
        (f"s3://nowhere/{BUCKET}.zarr", "all", "finds no bucket 'nowhere', which s3://nowhere/"),
        (f"{URL}x", "all", f"{URL}x: no Zarr store of this name is in the bucket"),
        (URL, "endpoint", f"this process has no credentials for {URL}; set AWS_ACCESS_KEY_ID"),
        (URL, "wrong endpoint", f"this process cannot reach {NOWHERE}, the endpoint of {URL};"),
    ],
    ids=["bucket", "prefix", "credentials", "endpoint"],
)
def test_client__says_which_of_four_it_is(s3: S3Server, url: str, known: str, words: str) -> None:
    environment = {
        "all": knowing(s3.endpoint),
        "endpoint": {**bare(), "AWS_ENDPOINT_URL": s3.endpoint},
        "wrong endpoint": knowing(NOWHERE),
    }[known]
    assert words in program("test", url, environment=environment)


def test_worker__says_which_of_four_it_is(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in knowing(s3.endpoint).items():
        monkeypatch.setenv(name, value)
    with (
        answering(has_buckets=False) as empty,
        answering(has_buckets=True) as hollow,
        open_cluster(tmp_path, n_workers=0) as cluster,
    ):
        cases = {
            "has no credentials for": {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            "cannot reach http://127.0.0.1:1,": {"AWS_ENDPOINT_URL": NOWHERE},
            f"finds no bucket {BUCKET!r}": {"AWS_ENDPOINT_URL": empty},
            "finds no Zarr store at": {"AWS_ENDPOINT_URL": hollow},
        }
        for words, environment in cases.items():
            worker = cluster.add_worker(environment=environment)
            with pytest.raises(DataError, match=rf"worker tcp://127\.0\.0\.1:\d+ {words}") as caught:
                streamhalf.test(URL, scheduler=cluster.address)
            assert URL in str(caught.value)
            assert "\n" not in str(caught.value)
            worker.kill()
            worker.wait()
        cluster.add_worker()
        assert streamhalf.test(URL, scheduler=cluster.address).data.rows == 300


def test_worker__that_does_not_see_a_path_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/self/cwd is another folder in every process."""
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.chdir(mine)
    write_arrays("rows.zarr", *make_rows(300, 2))
    hidden = "/proc/self/cwd/rows.zarr"
    with open_cluster(tmp_path, n_workers=1) as cluster:
        where: dict[str, Any] = {"scheduler": cluster.address}
        message = rf"^worker tcp://\S+ does not see {hidden}; use a shared file system or a URL$"
        with pytest.raises(DataError, match=message):
            streamhalf.fit(hidden, **where)
        new = "/proc/self/cwd/new.zarr"
        with pytest.raises(DataError, match=rf"worker tcp://\S+ does not see {new}"):
            streamhalf.synth(new, **SPEC, **where)
        model = streamhalf.Halfspace((1.0, 0.0))
        assert streamhalf.predict("rows.zarr", model=model, out="out.zarr", **where) > 0
        assert streamhalf.synth("made.zarr", **SPEC, **where) == 0
        assert streamhalf.fit("made.zarr", **where).data.source == "made.zarr"
    assert {path.name for path in mine.iterdir()} >= {"made.zarr", "out.zarr"}


def test_store__that_is_gone_is_not_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "rows.zarr"
    write_arrays(str(path), *make_rows(300, 2))
    source = open_source(path)
    shutil.rmtree(path)
    with pytest.raises(DataError, match=rf"this process does not see {path}; use a shared file"):
        source.read(source.blocks[0])
