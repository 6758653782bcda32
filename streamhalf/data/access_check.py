"""Whether a store can be seen from here, and in which of several ways it cannot."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import zarr
from zarr.errors import NodeNotFoundError
from zarr.storage import FsspecStore, LocalStore

from streamhalf.data.block import Reader
from streamhalf.data.remote_store import FarStore
from streamhalf.data.store_url import Origin, configured_endpoint
from streamhalf.data.zarr_reader import ZarrReader
from streamhalf.redact import denial, one_line, public_name

_CONNECT_SECONDS = (0.0, 0.5, 1.0)
"""Pauses before attempts to connect: a server that is just being started is met."""

_ANSWER_SECONDS = 5.0
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError")


@dataclass(frozen=True, slots=True, eq=False)
class AccessCheck:
    """A stored array or group to look for, from this process or from another."""

    store: Any
    path: str

    @property
    def name(self) -> str:
        """The path or URL, without secrets."""
        if isinstance(self.store, LocalStore):
            return os.fspath(self.store.root)
        place = self._place
        return public_name(str(self.store) if place is None else "://".join(place[:2]))

    @property
    def _place(self) -> tuple[str, str, dict[str, Any]] | None:
        """Protocol, path and options of a store that fsspec, or an address, is behind."""
        origin = self.store.origin if isinstance(self.store, FarStore) else None
        if isinstance(origin, Origin):
            protocol, _, path = origin.url.partition("://")
            return protocol, path, dict(origin.options)
        store = self.store if origin is None else origin.store
        if not isinstance(store, FsspecStore):
            return None
        named = store.fs.protocol
        protocol = named if isinstance(named, str) else str(named[0])
        return protocol, store.path, {**store.fs.storage_options, "asynchronous": False}

    def trouble(self) -> str | None:
        """Why it cannot be seen, in words to follow "from here" or a worker's name; None if it can.

        Says so within ten seconds.
        """
        if isinstance(self.store, LocalStore):
            seen = os.path.isdir(self.store.root)
            return None if seen else f"does not see {self.name}; use a shared file system or a URL"
        place = self._place
        if place is not None and (unreached := endpoint_trouble(*place)):
            return unreached
        try:
            self._look()
        except Exception as error:
            # asked only now: who can read needs no further question
            if place is not None and (found := find_trouble(*place)):
                return found
            if isinstance(error, NodeNotFoundError | FileNotFoundError):
                return f"finds no Zarr store at {self.name}; check the path and the endpoint"
            if isinstance(error, TimeoutError):
                return f"gets no answer about {self.name} in {_ANSWER_SECONDS:g} s"
            denied = place and denial(error, f"{place[0]}://", place[2])
            return f"cannot read {self.name}: {denied or one_line(error)}"
        return None

    def _look(self) -> None:
        """Read what says that it is a group or an array."""
        if not isinstance(self.store, FarStore):
            zarr.open(self.store, path=self.path, mode="r")
            return
        for file in ("zarr.json", ".zarray", ".zgroup"):
            key = f"{self.path}/{file}".lstrip("/")
            begun = self.store.chunk_cache.begin(key, partial(self.store.fetch, key))
            try:
                if begun.result(timeout=_ANSWER_SECONDS) is not None:
                    return
            finally:
                self.store.chunk_cache.end(key, begun)
        raise FileNotFoundError(self.name)


def access_check_of(reader: Reader) -> AccessCheck | None:
    """Where a reader's rows are stored; None where they travel with the tasks."""
    if not isinstance(reader, ZarrReader):
        return None
    return AccessCheck(reader.features.store, reader.features.path)


def endpoint_trouble(protocol: str, path: str, options: dict[str, Any]) -> str | None:
    """Whether the server of a path ("bucket/key") cannot be reached; one connection, no request."""
    if (endpoint := _endpoint(protocol, path, options)) is None or _connects(endpoint):
        return None
    url = _url(protocol, path)
    return f"cannot reach {endpoint}, the endpoint of {url}; check endpoint_url and the network"


def find_trouble(protocol: str, path: str, options: dict[str, Any]) -> str | None:
    """Why storage of this protocol ("s3") cannot be used for a path ("bucket/key"); None if it can.

    One small question each, before Zarr asks several at once and waits for long.
    """
    if found := endpoint_trouble(protocol, path, options):
        return found
    return _bucket_trouble(_url(protocol, path), options) if protocol in ("s3", "s3a") else None


def _url(protocol: str, path: str) -> str:
    return public_name(f"{protocol}://{path.removeprefix(f'{protocol}://')}")


def _endpoint(protocol: str, path: str, options: dict[str, Any]) -> str | None:
    """The URL of the server, where it is known and no proxy stands between."""
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
    return f"{parts.scheme}://{parts.hostname}:{_port(parts)}"


def _port(parts: Any) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _connects(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    for pause in _CONNECT_SECONDS:
        time.sleep(pause)
        try:
            socket.create_connection((parts.hostname, _port(parts)), timeout=1.0).close()
        except OSError:
            continue
        return True
    return False


def _bucket_trouble(url: str, options: dict[str, Any]) -> str | None:
    """Whether the bucket is there and answers us; who may not ask that may still read."""
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
