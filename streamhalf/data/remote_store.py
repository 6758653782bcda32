"""Stores far away: opened by obstore or fsspec, every object through the chunk cache and counted."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import uuid
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import FsspecStore, ObjectStore, WrapperStore

from streamhalf.data.chunk_cache import ChunkCache, Content, Key, cache_of, release
from streamhalf.data.zarr_private import N, get_now
from streamhalf.errors import UsageError
from streamhalf.redact import public_name

_CLIENT: Any = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "3600s"}
"""A line that is silent for half a minute is dead; how long an answer takes depends on its size."""

_RETRY: Any = {"max_retries": 8, "retry_timeout": timedelta(seconds=30)}

_RENAMED = {
    "s3": {"key": "access_key_id", "secret": "secret_access_key", "token": "session_token"},
    "gs": {},
    "az": {"account_name": "account_name", "account_key": "account_key", "sas_token": "sas_key"},
}
"""By protocol that obstore is used for, its names of fsspec's options."""

_ALIASES = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}

_CREDENTIAL_SECONDS = 600


class _NotForObstoreError(Exception):
    """The URL or its options have no equivalent in obstore."""


@dataclass(frozen=True, slots=True)
class StoreURL:
    """The URL of a store with fsspec's options; opened in every process anew."""

    url: str
    # a cluster's logs show the arguments of tasks; secrets must not be among them
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    use_obstore: bool = True

    @property
    def protocol(self) -> str:
        """The scheme of the URL."""
        return self.url.partition("://")[0].lower()

    def open(self) -> Store:
        """Open the store for reading in this process."""
        if self.use_obstore:
            try:
                return ObjectStore(_open_obstore(self), read_only=True)
            except _NotForObstoreError:
                pass
        options = dict(self.options)
        if self.protocol in ("s3", "s3a"):
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
    protocol, url = _ALIASES.get(where.protocol, where.protocol), where.url
    if protocol not in _RENAMED or "::" in url or "?" in url or "@" in url:
        raise _NotForObstoreError(f"{protocol} is left to fsspec")
    if importlib.util.find_spec("obstore") is None:
        raise _NotForObstoreError("obstore is not installed")
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    given = {name: value for name, value in where.options.items() if value not in (None, {}, "")}
    path = url.partition("://")[2].rstrip("/")
    client, arguments = dict(_CLIENT), dict[str, Any]()
    try:
        config = {known: given.pop(name) for name, known in _RENAMED[protocol].items() if name in given}
        if protocol == "s3":
            provider = _configure_s3(given, config)
            arguments = {} if provider is None else {"credential_provider": provider}
            client["allow_http"] = str(config.get("endpoint_url")).startswith("http:")
        elif protocol == "gs":
            _configure_gs(given, config)
        elif given.pop("anon", None) is True:
            config["skip_signature"] = True
        if given:
            raise _NotForObstoreError(f"options {', '.join(sorted(given))}")
        open_url: Any = from_url  # an overload for each kind of store
        return open_url(f"{protocol}://{path}", config=config, client_options=client, retry_config=_RETRY, **arguments)
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


def _configure_s3(given: dict[str, Any], config: dict[str, Any]) -> AwsCredentials | None:
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
        provider, own_region = _aws_files(profile)
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
    if not any(map(_names_endpoint, _AWS_FILES.items())):
        return None
    if importlib.util.find_spec("botocore") is None:
        return None
    session = _aws_session(profile)
    own = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(own.get("services"), {})
    of_s3 = services.get("s3", {}) if isinstance(services, dict) else {}
    found = (of_s3 if isinstance(of_s3, dict) else {}).get("endpoint_url")
    ignored = session.get_config_variable("ignore_configured_endpoint_urls")
    return None if ignored else found or own.get("endpoint_url")


_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "FSSPEC_S3_ENDPOINT_URL")

_AWS_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
"""Variables that name botocore's files, and the files without them."""


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


class AwsCredentials:
    """Credentials as botocore finds them: variables, files, profiles, the machine's role."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __call__(self) -> dict[str, Any]:
        """Return current credentials; obstore asks again when these expire."""
        found = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=_CREDENTIAL_SECONDS),
        }


def _aws_files(profile: str | None) -> tuple[AwsCredentials | None, str | None]:
    """Return credentials and region of botocore; None where obstore's own search will do."""
    variables = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    if profile is None and all(map(os.environ.get, variables)):
        return None, None
    if importlib.util.find_spec("botocore") is None:
        if profile is not None:
            raise _NotForObstoreError("a profile takes botocore")
        return None, None
    session = _aws_session(profile)
    credentials = session.get_credentials()
    if credentials is None:
        raise _NotForObstoreError("no credentials")
    return AwsCredentials(credentials), session.get_config_variable("region")


_LOCAL = ("file", "local", "memory")


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
        url = self.origin.url if isinstance(self.origin, StoreURL) else ""
        return f"RemoteStore({public_name(url)!r})"

    @property
    def read_only(self) -> bool:
        """True: nothing is written through a cache."""
        return True

    @property
    def cache(self) -> ChunkCache:
        """The cache of this process."""
        return cache_of(self.token)

    @property
    def tells_sizes(self) -> bool:
        """True if an object of a wrong size is noticed where a range of it is read."""
        return isinstance(self._store, ObjectStore)

    def fetch(self, key: str, byte_range: ByteRequest | None = None, size: int | None = None) -> Content:
        """Return an object, or a range of it, from the network; None if absent or of another size.

        Only obstore tells the size of an object with a range of it.
        """
        whole_or_range = byte_range is None or isinstance(byte_range, RangeByteRequest)
        if not isinstance(self._store, ObjectStore) or not whole_or_range:
            return self._fetch_by_zarr(key, byte_range)
        import obstore

        options: Any = {}
        if isinstance(byte_range, RangeByteRequest):
            options["range"] = (byte_range.start, byte_range.end)
        try:
            found = obstore.get(self._store.store, key, options=options)
        except FileNotFoundError:
            return None
        return found.bytes() if size is None or found.meta["size"] == size else None

    def _fetch_by_zarr(self, key: str, byte_range: ByteRequest | None) -> Content:
        content = get_now(self._store, key, byte_range)
        if content is None or not isinstance(byte_range, RangeByteRequest):
            return content
        if len(content) <= byte_range.end - byte_range.start:
            return content
        self.cache.has_ranges = False  # a web server that sends all of an object
        return content[byte_range.start : byte_range.end]

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return an object or a range of it, from the cache if it is there."""
        cache = self.cache
        part = byte_range if byte_range is not None and not cache.holds(key) else None
        wanted: Key = key if part is None else (key, part)
        begun = cache.begin(wanted, partial(self.fetch, key, part))
        try:
            content = await asyncio.wrap_future(begun)
        finally:
            cache.end(wanted, begun)
        if content is None:
            return None
        window = slice(None) if part is not None else _slice(byte_range, len(content))
        return prototype.buffer.from_bytes(memoryview(content)[window])

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return several objects or ranges."""
        return [*await asyncio.gather(*(self.get(key, prototype, one) for key, one in key_ranges))]


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
    if not isinstance(store, FsspecStore | ObjectStore) or _protocol(store) in _LOCAL:
        return node
    form = node.metadata.zarr_format
    return cast(N, zarr.open(RemoteStore(store), path=node.path, mode="r", zarr_format=form))


def _protocol(store: FsspecStore | ObjectStore[Any]) -> str:
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
