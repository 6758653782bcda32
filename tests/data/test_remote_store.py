"""Which URLs and options obstore is told of, which server they name, and what it denies."""

from __future__ import annotations

import http.server
import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import s3fs

import streamhalf
from streamhalf.data.remote_store import StoreURL, configured_endpoint
from streamhalf.errors import StreamhalfError, UsageError
from streamhalf.paths import Folder
from streamhalf.redact import denial

KEYS = {"key": "a", "secret": "b"}
URL = "s3://bucket/rows.zarr"
SHAPE: dict[str, Any] = {"rows": 10, "dim": 2, "marginal": "gaussian", "noise": "none"}
CONFIG = """
[profile whole]
endpoint_url = http://whole:1
[profile one]
services = mine
endpoint_url = http://whole:1
[services mine]
s3 =
  endpoint_url = http://one:2
[profile plain]
region = us-east-1
"""
CREDENTIALS = "[{}]\naws_access_key_id = a\naws_secret_access_key = never-shown\n"


@pytest.fixture(autouse=True, scope="module")
def forgotten_filesystems() -> Iterator[None]:
    """fsspec keeps every file system that was ever opened, of S3 with 20 MiB each."""
    yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize(
    ("url", "options", "by_obstore"),
    [
        ("s3://bucket/a/b.zarr", KEYS, True),
        ("s3a://bucket/a/b.zarr", {**KEYS, "endpoint_url": "http://127.0.0.1:1"}, True),
        ("s3://bucket/b", {**KEYS, "client_kwargs": {"region_name": "eu-central-1"}}, True),
        ("s3://bucket/b", {"anon": True}, True),
        ("s3://bucket/b", {**KEYS, "config_kwargs": {"retries": {}}}, False),
        ("s3://bucket/b", {**KEYS, "client_kwargs": {"verify": False}}, False),
        ("gs://bucket/b", {"token": "anon"}, True),
        ("gs://bucket/b", {"token": "google_default"}, False),
        ("az://container/b", {"account_name": "c", "anon": True}, True),
        ("abfs://container/b", {"connection_string": "d"}, False),
        ("http://127.0.0.1:1/b", {}, False),
        ("http://user:word@127.0.0.1:1/b", {}, False),
        ("https://127.0.0.1:1/b?signature=x", {}, False),
        ("simplecache::s3://bucket/b", KEYS, False),
        ("memory://b", {}, False),
    ],
)
def test_obstore__is_told_what_it_can_be(url: str, options: dict[str, Any], by_obstore: bool) -> None:
    given = {**options}
    assert StoreURL(url, options).is_for_obstore() is by_obstore
    assert options == given


def test_origin__travels_with_its_options_and_does_not_show_them() -> None:
    origin = StoreURL("s3://bucket/b", {"secret": "never-shown"})
    assert pickle.loads(pickle.dumps(origin)) == origin
    assert "never-shown" not in repr(origin)


@pytest.fixture
def aws_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of AWS files of a user with an empty environment."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    (tmp_path / "config").write_text(CONFIG)
    return tmp_path


class Denying(http.server.BaseHTTPRequestHandler):
    """A server that denies access."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def __getattr__(self, name: str) -> Any:
        """Whatever is asked."""
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def denying() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Denying) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("profile", "endpoint"), [("whole", "http://whole:1"), ("one", "http://one:2"), ("plain", None), (None, None)]
)
def test_endpoint__is_that_of_the_profile(
    aws_files: Path, monkeypatch: pytest.MonkeyPatch, profile: str | None, endpoint: str | None
) -> None:
    assert configured_endpoint(profile) == endpoint
    if profile is not None:
        monkeypatch.setenv("AWS_PROFILE", profile)
        assert configured_endpoint(None) == endpoint
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://variable:3")
    assert configured_endpoint(profile) == "http://variable:3"


def test_endpoint__of_an_unknown_profile_is_an_error(aws_files: Path) -> None:
    with pytest.raises(UsageError, match=r"profile: 'other' is in none .*found: whole, one, plain"):
        streamhalf.open_source(URL, storage_options={"profile": "other"})


# s3fs closes its sessions in finalizers, which the interpreter may run too late for aiohttp
@pytest.mark.filterwarnings("ignore:.*[Uu]nclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "a", "secret": "never-shown"}, "with key and secret of the storage options"),
        ({"anon": True}, r"without credentials \(anon\); give some"),
        ({"profile": "here"}, "with the AWS profile 'here'"),
    ],
    ids=["keys", "anon", "profile"],
)
def test_denied__names_store_and_credentials_at_once(
    aws_files: Path, denying: str, options: dict[str, Any], words: str
) -> None:
    (aws_files / "config").write_text(f"[profile here]\nendpoint_url = {denying}\n")
    (aws_files / "credentials").write_text(CREDENTIALS.format("here"))
    if "profile" not in options:
        options = {**options, "endpoint_url": denying}
    for use in (
        lambda: streamhalf.open_source(URL, storage_options=options),
        lambda: Folder("s3://bucket/saved", options).read("manifest.json", 100),
        lambda: streamhalf.synth(URL, **SHAPE, storage_options=options),
    ):
        with pytest.raises(StreamhalfError, match=f"s3://bucket/.*: access is denied.* {words}") as e:
            use()
        assert "None" not in str(e.value)
        assert "never-shown" not in str(e.value)


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("gs://bucket/rows", {"token": "a.json"}, "with the storage options;"),
        ("gs://bucket/rows", {}, "with the credentials of this machine;"),
        ("s3://bucket/rows", {"client_kwargs": {"endpoint_url": "http://u:p@host"}}, "by http://host"),
        ("s3://bucket/rows", {}, "with the credentials of the AWS files or role;"),
    ],
)
def test_denial__says_whose_credentials(aws_files: Path, url: str, options: dict[str, Any], words: str) -> None:
    said = denial(PermissionError(None), url, options)
    assert said is not None
    assert words in said
    assert denial(OSError("other"), url, options) is None
    assert denial(PermissionError(13, "denied"), "/a/path", {}) is None
