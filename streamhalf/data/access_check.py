"""Check access to a store and diagnose failures: endpoint, bucket, credentials or path."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import zarr
from zarr.errors import NodeNotFoundError
from zarr.storage import FsspecStore, LocalStore

from streamhalf.data.block import Reader
from streamhalf.data.remote_store import RemoteStore, StoreURL, configured_endpoint
from streamhalf.data.zarr_reader import ZarrReader
from streamhalf.redact import denial, one_line, public_name

_CONNECT_PAUSES = (0.0, 0.5, 1.0)  # before attempts: a server that is just starting is met
_ANSWER_SECONDS = 5.0
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError")


@dataclass(frozen=True, slots=True, eq=False)
class AccessCheck:
    """A stored array or group that this process or another must be able to read."""

    store: Any
    path: str

    @property
    def name(self) -> str:
        """The path or URL, without secrets."""
        if isinstance(self.store, LocalStore):
            return os.fspath(self.store.root)
        place = self._place()
        return public_name(str(self.store) if place is None else "://".join(place[:2]))

    def _place(self) -> tuple[str, str, dict[str, Any]] | None:
        """Return protocol, path and options, where a URL or fsspec is behind the store."""
        store = self.store.origin if isinstance(self.store, RemoteStore) else self.store
        if isinstance(store, StoreURL):
            protocol, _, path = store.url.partition("://")
            return protocol, path, dict(store.options)
        if not isinstance(store, FsspecStore):
            return None
        named = store.fs.protocol
        protocol = named if isinstance(named, str) else str(named[0])
        return protocol, store.path, {**store.fs.storage_options, "asynchronous": False}

    def problem(self) -> str | None:
        """Return why it cannot be read, to follow a worker's name; None if it can.

        Takes ten seconds at most.
        """
        if isinstance(self.store, LocalStore):
            seen = os.path.isdir(self.store.root)
            return None if seen else f"does not see {self.name}; use a shared file system or a URL"
        place = self._place()
        if place is not None and (unreached := endpoint_problem(*place)):
            return unreached
        try:
            _read_metadata(self.store, self.path)
        except Exception as error:
            # asked only now: a process that can read needs no further request
            if place is not None and (found := storage_problem(*place)):
                return found
            if isinstance(error, NodeNotFoundError | FileNotFoundError):
                return f"finds no Zarr store at {self.name}; check the path and the endpoint"
            if isinstance(error, TimeoutError):
                return f"gets no answer about {self.name} in {_ANSWER_SECONDS:g} s"
            denied = place and denial(error, f"{place[0]}://", place[2])
            return f"cannot read {self.name}: {denied or one_line(error)}"
        return None


def access_check_of(reader: Reader) -> AccessCheck | None:
    """Return the check of where a reader's rows are stored; None where they travel with tasks."""
    if not isinstance(reader, ZarrReader):
        return None
    return AccessCheck(reader.features.store, reader.features.path)


def _read_metadata(store: Any, path: str) -> None:
    pool = ThreadPoolExecutor(1)
    try:
        pool.submit(zarr.open, store, path=path, mode="r").result(timeout=_ANSWER_SECONDS)
    finally:
        pool.shutdown(wait=False)


def endpoint_problem(protocol: str, path: str, options: dict[str, Any]) -> str | None:
    """Return that the server of "bucket/key" cannot be reached; one connection, no request."""
    if (endpoint := _endpoint(protocol, path, options)) is None or _connects(endpoint):
        return None
    url = _url(protocol, path)
    return f"cannot reach {endpoint}, the endpoint of {url}; check endpoint_url and the network"


def storage_problem(protocol: str, path: str, options: dict[str, Any]) -> str | None:
    """Return what is wrong with the server, the bucket or the credentials, if that is known."""
    if found := endpoint_problem(protocol, path, options):
        return found
    return _bucket_problem(_url(protocol, path), options) if protocol in ("s3", "s3a") else None


def _url(protocol: str, path: str) -> str:
    return public_name(f"{protocol}://{path.removeprefix(f'{protocol}://')}")


def _endpoint(protocol: str, path: str, options: dict[str, Any]) -> str | None:
    """Return the URL of the server, where it is known and no proxy stands between."""
    if protocol in ("http", "https"):
        found: Any = path if "://" in path else f"{protocol}://{path}"
    else:
        nested = options.get("client_kwargs") or {}
        found = options.get("endpoint_url") or nested.get("endpoint_url")
        if not found and protocol in ("s3", "s3a"):
            found = configured_endpoint(options.get("profile"))
    parts = urlsplit(found) if isinstance(found, str) else None
    if parts is None or not parts.hostname:
        return None
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return None
    return f"{parts.scheme}://{parts.hostname}:{parts.port or _default_port(parts.scheme)}"


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def _connects(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    for pause in _CONNECT_PAUSES:
        time.sleep(pause)
        try:
            socket.create_connection((parts.hostname, parts.port), timeout=1.0).close()
        except OSError:
            continue
        return True
    return False


def _bucket_problem(url: str, options: dict[str, Any]) -> str | None:
    """Return that the bucket is absent or we have no credentials; denied requests say nothing."""
    import fsspec

    bucket = url.partition("://")[2].partition("/")[0]
    try:
        filesystem = fsspec.filesystem("s3", **options)
        filesystem.call_s3("head_bucket", Bucket=bucket, timeout=_ANSWER_SECONDS)
    except FileNotFoundError:
        return f"finds no bucket {bucket!r}, which {url} is in; check its name and the endpoint"
    except TimeoutError:
        return f"gets no answer about {url} in {_ANSWER_SECONDS:g} s; check the endpoint"
    except Exception as error:
        if type(error).__name__ in _NO_CREDENTIALS:
            return (
                f"has no credentials for {url}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "
                "there, or give them as storage options (key, secret), or anon=true"
            )
    return None
