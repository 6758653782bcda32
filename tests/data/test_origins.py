"""Which URLs and options obstore is told of, and which are left to fsspec."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from streamhalf.data.origins import Origin, is_for_obstore
from streamhalf.retry import is_transient

KEYS = {"key": "a", "secret": "b"}


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
        ("http://127.0.0.1:1/b", {}, True),
        ("http://127.0.0.1:1/b", {"headers": {"a": "b"}}, False),
        ("http://user:word@127.0.0.1:1/b", {}, False),
        ("https://127.0.0.1:1/b?signature=x", {}, False),
        ("simplecache::s3://bucket/b", KEYS, False),
        ("memory://b", {}, False),
    ],
)
def test_obstore__is_told_what_it_can_be(
    url: str, options: dict[str, Any], by_obstore: bool
) -> None:
    given = {**options}
    assert is_for_obstore(Origin(url, options)) is by_obstore
    assert options == given


def test_origin__travels_with_its_options_and_does_not_show_them() -> None:
    origin = Origin("s3://bucket/b", {"secret": "never-shown"})
    assert pickle.loads(pickle.dumps(origin)) == origin
    assert "never-shown" not in repr(origin)


@pytest.mark.parametrize(
    ("name", "text", "again"),
    [
        ("GenericError", "Server returned non-2xx status code: 503 Slow Down", True),
        ("GenericError", "HTTP error: error sending request", True),
        ("GenericError", "Server returned non-2xx status code: 429 Too Many Requests", True),
        ("GenericError", "Server returned non-2xx status code: 400 Bad Request", False),
        ("PermissionDeniedError", "status code: 403", False),
        ("NotSupportedError", "Range request not supported", False),
    ],
)
def test_retry__of_obstore_s_errors_those_of_the_line(name: str, text: str, again: bool) -> None:
    import obstore.exceptions

    error = getattr(obstore.exceptions, name)(text)
    assert is_transient(error) is again
