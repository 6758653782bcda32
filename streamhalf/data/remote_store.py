"""Zarr store over a remote one: every object comes through the chunk cache and is counted."""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any, cast

import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import FsspecStore, ObjectStore, WrapperStore

from streamhalf.data.chunk_cache import ChunkCache, Content, Key, cache_of, release
from streamhalf.data.store_url import StoreURL
from streamhalf.data.zarr_private import N, get_now
from streamhalf.redact import public_name

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
