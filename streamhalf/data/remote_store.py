"""Stores far away: opened by obstore or fsspec, every object through the chunk cache and counted."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import FsspecStore, ObjectStore, WrapperStore

from streamhalf.data.chunk_cache import ChunkCache, Content, cache_of, key_of, release
from streamhalf.data.zarr_private import N, get_now
from streamhalf.errors import UsageError
from streamhalf.paths import Address

# A line that is silent for half a minute is dead; how long an answer takes depends on its size
_CLIENT: Any = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "3600s"}
_RETRY: Any = {"max_retries": 8, "retry_timeout": timedelta(seconds=30)}
# By protocol that obstore is used for, its names of fsspec's options
_RENAMED = {
    "s3": {"key": "access_key_id", "secret": "secret_access_key", "token": "session_token"},
    "gs": {},
    "az": {"account_name": "account_name", "account_key": "account_key", "sas_token": "sas_key"},
}
_ALIASES = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_CREDENTIALS_LAST = timedelta(minutes=10)
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "FSSPEC_S3_ENDPOINT_URL")
# Variables that name botocore's files, and the files without them
_AWS_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
_LOCAL = ("file", "local", "memory")


class _NotForObstoreError(Exception):
    """The URL or its options have no equivalent in obstore."""


@dataclass(frozen=True, slots=True)
class StoreURL(Address):
    """The URL of a store; opened in every process anew."""

    use_obstore: bool = True

    def open(self) -> Store:
        """Open the store for reading in this process."""
        if self.use_obstore:
            try:
                return ObjectStore(_open_obstore(self), read_only=True)
            except _NotForObstoreError:
                pass
        options = self.options
        if self.scheme in ("s3", "s3a"):
            options.setdefault("max_concurrency", 1)  # else each object's size is asked for first
        return FsspecStore.from_url(self.url, storage_options=options, read_only=True)

    def is_for_obstore(self) -> bool:
        """Return True if obstore is installed and knows this URL and all options."""
        try:
            _open_obstore(self)
        except _NotForObstoreError:
            return False
        return True


def _open_obstore(where: StoreURL) -> Any:
    protocol, given = _ALIASES.get(where.scheme, where.scheme), where.options
    if protocol not in _RENAMED or any(mark in where.url for mark in ("::", "?", "@")):
        raise _NotForObstoreError(f"{protocol} is left to fsspec")
    if importlib.util.find_spec("obstore") is None:
        raise _NotForObstoreError("obstore is not installed")
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    given = {name: value for name, value in given.items() if value not in (None, {}, "")}
    url = f"{protocol}://{where.url.partition('://')[2].rstrip('/')}"
    client, provider = dict(_CLIENT), None
    try:
        config = {known: given.pop(name) for name, known in _RENAMED[protocol].items() if name in given}
        if protocol == "s3":
            provider = _configure_s3(given, config)
            client["allow_http"] = str(config.get("endpoint_url")).startswith("http:")
        elif protocol == "gs":
            _configure_gs(given, config)
        elif given.pop("anon", None) is True:
            config["skip_signature"] = True
        if given:
            raise _NotForObstoreError(f"options {', '.join(sorted(given))}")
        found: dict[str, Any] = {} if provider is None else {"credential_provider": provider}
        open_url: Any = from_url  # an overload for each kind of store
        return open_url(url, config=config, client_options=client, retry_config=_RETRY, **found)
    except (BaseError, ValueError, TypeError) as error:
        raise _NotForObstoreError(str(error)) from error


def _configure_gs(given: dict[str, Any], config: dict[str, Any]) -> None:
    given.pop("project", None)
    token = given.pop("token", None)
    if token == "anon":
        config["skip_signature"] = True
    elif isinstance(token, str) and token.endswith(".json"):
        config["service_account"] = token
    elif token is not None:
        raise _NotForObstoreError("a token of this kind")


def _configure_s3(given: dict[str, Any], config: dict[str, Any]) -> Callable[[], Any] | None:
    """Move fsspec's options into the configuration; return a provider of credentials, if any."""
    nested, profile = dict(given.pop("client_kwargs", {})), given.pop("profile", None)
    endpoint = given.pop("endpoint_url", None) or nested.pop("endpoint_url", None)
    if endpoint := endpoint or configured_endpoint(profile):
        config["endpoint_url"] = endpoint
    if given.pop("anon", False) is True:
        config["skip_signature"] = True
    given.pop("use_ssl", None)
    region, provider = nested.pop("region_name", None), None
    given |= nested
    if not {"access_key_id", "skip_signature"} & config.keys():
        provider, own_region = _aws_credentials(profile)
        region = region or own_region
    if region is not None:
        config["region"] = region
    return provider


def configured_endpoint(profile: str | None) -> str | None:
    """Return the S3 endpoint that the environment, or the profile of the AWS files, names.

    botocore takes a second to import, so files that name no endpoint are not given to it.
    """
    if named := next(filter(None, map(os.environ.get, _ENDPOINT_VARIABLES)), None):
        return named
    if not any(map(_names_endpoint, _AWS_FILES.items())) or importlib.util.find_spec("botocore") is None:
        return None
    from botocore.configprovider import ConfiguredEndpointProvider

    session = _aws_session(profile)
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return None
    found: str | None = ConfiguredEndpointProvider(session.full_config, session.get_scoped_config(), "s3").provide()
    return found


def _names_endpoint(file: tuple[str, str]) -> bool:
    variable, usual = file
    try:
        with open(os.path.expanduser(os.environ.get(variable) or usual), encoding="utf-8") as text:
            return "endpoint_url" in text.read()
    except (OSError, ValueError):
        return False


def _aws_session(profile: str | None) -> Any:
    """Return a botocore session; refuse an unknown profile."""
    from botocore.exceptions import ProfileNotFound
    from botocore.session import Session

    session = Session(profile=profile)
    try:
        session.get_scoped_config()
    except ProfileNotFound as error:
        known = ", ".join(session.available_profiles) or "none"
        named = profile or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
        raise UsageError(
            f"profile: {named!r} is in none of the AWS files (found: {known}); name another "
            "(storage option profile, AWS_PROFILE), or add it with `aws configure`"
        ) from error
    return session


def _aws_credentials(profile: str | None) -> tuple[Callable[[], Any] | None, str | None]:
    """Return credentials (files, profiles, the machine's role) and region; None where obstore finds its own."""
    if profile is None:
        if os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
            return None, None
        if importlib.util.find_spec("botocore") is None:
            return None, None
    elif importlib.util.find_spec("botocore") is None:
        raise _NotForObstoreError("a profile takes botocore")
    session = _aws_session(profile)
    if (credentials := session.get_credentials()) is None:
        raise _NotForObstoreError("no credentials")

    def current() -> dict[str, Any]:
        """Return current credentials; obstore asks again when these expire."""
        found = credentials.get_frozen_credentials()
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.token,
            "expires_at": datetime.now(UTC) + _CREDENTIALS_LAST,
        }

    return current, session.get_config_variable("region")


class RemoteStore(WrapperStore[Store]):
    """A remote store to read from; picklable, with one chunk cache in each process.

    Parameters
    ----------
    origin
        A URL, opened in every process with that process's credentials; or an opened store.
    token
        Names the caches of all processes that read it.
    """

    def __init__(self, origin: StoreURL | Store, token: str | None = None) -> None:
        super().__init__(origin.open() if isinstance(origin, StoreURL) else origin)
        self.origin = origin
        self.token = token or uuid.uuid4().hex
        if token is None:  # the process that opened it outlives the others
            weakref.finalize(self, release, self.token)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteStore, (self.origin, self.token)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteStore) and other.token == self.token

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self._store)

    def __repr__(self) -> str:
        return f"RemoteStore({self.origin.name if isinstance(self.origin, StoreURL) else ''!r})"

    @property
    def read_only(self) -> bool:
        return True

    @property
    def cache(self) -> ChunkCache:
        return cache_of(self.token)

    @property
    def tells_sizes(self) -> bool:
        """True if an object of a wrong size is noticed where a range of it is read."""
        return isinstance(self._store, ObjectStore)

    def fetch(self, key: str, byte_range: ByteRequest | None = None, size: int | None = None) -> Content:
        """Return an object, or a range of it, from the network; None if absent or of another size.

        Only obstore tells the size of an object with a range of it.
        """
        if isinstance(self._store, ObjectStore) and not isinstance(byte_range, OffsetByteRequest | SuffixByteRequest):
            import obstore

            options: Any = {} if byte_range is None else {"range": (byte_range.start, byte_range.end)}
            try:
                found = obstore.get(self._store.store, key, options=options)
            except FileNotFoundError:
                return None
            return found.bytes() if size is None or found.meta["size"] == size else None
        content = get_now(self._store, key, byte_range)
        if content is not None and isinstance(byte_range, RangeByteRequest):
            nbytes = byte_range.end - byte_range.start
            if len(content) > nbytes:  # a web server that sends all of an object
                self.cache.has_ranges = False
                return content[byte_range.start : byte_range.end]
        return content

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return an object or a range of it, from the cache if it is there."""
        cache = self.cache
        part = byte_range if byte_range is not None and not cache.holds(key) else None
        wanted = key_of(key, part)
        begun = cache.begin(wanted, partial(self.fetch, key, part))
        try:
            content = await asyncio.wrap_future(begun)
        finally:
            cache.end(wanted, begun)
        if content is None:
            return None
        window = slice(None) if part is not None else _slice(byte_range, len(content))
        return prototype.buffer.from_bytes(memoryview(content)[window])


def open_remote(origin: StoreURL) -> zarr.Group:
    """Open the group at a URL with as few requests as possible."""
    store = RemoteStore(origin)
    try:
        return zarr.open_group(store, mode="r", zarr_format=3)
    except zarr.errors.GroupNotFoundError:
        return zarr.open_group(store, mode="r", zarr_format=2)


def through_cache(node: N) -> N:
    """Return the same group or array, read through a cache if it is remote."""
    store = node.store
    if not isinstance(store, FsspecStore | ObjectStore) or protocol_of(store) in _LOCAL:
        return node
    form = node.metadata.zarr_format
    return cast(N, zarr.open(RemoteStore(store), path=node.path, mode="r", zarr_format=form))


def protocol_of(store: FsspecStore | ObjectStore[Any]) -> str:
    if isinstance(store, ObjectStore):
        kind = type(store.store).__name__
        return {"LocalStore": "file", "MemoryStore": "memory"}.get(kind, kind)
    protocol = store.fs.protocol
    return protocol if isinstance(protocol, str) else str(protocol[0])


def _slice(byte_range: ByteRequest | None, nbytes: int) -> slice:
    if isinstance(byte_range, RangeByteRequest):
        return slice(byte_range.start, byte_range.end)
    if isinstance(byte_range, OffsetByteRequest):
        return slice(byte_range.offset, nbytes)
    if isinstance(byte_range, SuffixByteRequest):
        return slice(max(0, nbytes - byte_range.suffix), nbytes)
    return slice(0, nbytes)
