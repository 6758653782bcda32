"""Stores that are not on this machine: every object is fetched by one, counted, and kept."""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.storage import FsspecStore, ObjectStore

from streamhalf.data.chunk_cache import ChunkCache, Content, Key, chunk_cache_of, release
from streamhalf.data.store_url import Origin
from streamhalf.data.zarr_private import N, get_now

_LOCAL = ("file", "local", "memory")


@dataclass(frozen=True, slots=True)
class GivenOrigin:
    """A store that somebody has opened; it knows itself how to travel to other processes."""

    store: Store

    def open(self) -> Store:
        """The store itself."""
        return self.store


class FarStore(Store):
    """A store to read from afar; picklable, and in each process with a chunk_cache of its own.

    Parameters
    ----------
    origin
        Where it is.
    token
        Names the chunk_caches of all processes that read it.
    """

    def __init__(self, origin: Origin | GivenOrigin, token: str | None = None) -> None:
        super().__init__(read_only=True)
        self.origin = origin
        self._is_open = True
        self._opened: Store | None = None
        self.token = token or uuid.uuid4().hex
        if token is None:  # who opened it goes last
            weakref.finalize(self, release, self.token)

    def __reduce__(self) -> tuple[Any, ...]:
        return FarStore, (self.origin, self.token)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FarStore) and other.token == self.token

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(self.opened)

    @property
    def opened(self) -> Store:
        """What reads it in this process."""
        if self._opened is None:
            self._opened = self.origin.open()
        return self._opened

    @property
    def chunk_cache(self) -> ChunkCache:
        """What this process has fetched of it."""
        return chunk_cache_of(self.token)

    def fetch(
        self, key: str, byte_range: ByteRequest | None = None, size: int | None = None
    ) -> Content:
        """The bytes of an object, or of a range of it, from afar.

        None where there is no such object, or one of another size than it should have; not every
        library tells the size of an object with a range of it.
        """
        opened = self.opened
        if not isinstance(opened, ObjectStore) or not (
            byte_range is None or isinstance(byte_range, RangeByteRequest)
        ):
            return get_now(opened, key, byte_range)
        import obstore

        window: Any = {} if byte_range is None else {"range": (byte_range.start, byte_range.end)}
        try:
            found = obstore.get(opened.store, key, options=window)
        except FileNotFoundError:
            return None
        return found.bytes() if size is None or found.meta["size"] == size else None

    @property
    def tells_sizes(self) -> bool:
        """Whether an object of a wrong size is noticed where a range of it is read."""
        return isinstance(self.opened, ObjectStore)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """An object or a part of it, from what was fetched if it can be."""
        chunk_cache = self.chunk_cache
        part = byte_range if byte_range is not None and not chunk_cache.holds(key) else None
        wanted: Key = key if part is None else (key, part)
        begun = chunk_cache.begin(wanted, partial(self.fetch, key, part))
        try:
            content = await asyncio.wrap_future(begun)
        finally:
            chunk_cache.end(wanted, begun)
        if content is None:
            return None
        window = slice(None) if part is not None else _slice(byte_range, len(content))
        return prototype.buffer.from_bytes(memoryview(content)[window])

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Several objects or parts of them at once."""
        return [*await asyncio.gather(*(self.get(key, prototype, one) for key, one in key_ranges))]

    @property
    def _lister(self) -> Store:
        """What lists it: web servers are listed by reading their pages, which fsspec does."""
        if isinstance(self.origin, Origin) and self.origin.protocol.startswith("http"):
            return self.origin.open_fsspec()
        return self.opened

    async def exists(self, key: str) -> bool:
        """Whether there is an object of this name."""
        return await self.opened.exists(key)

    def list(self) -> AsyncIterator[str]:
        """All objects."""
        return self._lister.list()

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All objects below a prefix."""
        return self._lister.list_prefix(prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """What is directly below a prefix."""
        return self._lister.list_dir(prefix)

    @property
    def supports_listing(self) -> bool:
        """Whether it can be listed."""
        return True

    @property
    def supports_writes(self) -> bool:
        """It is read only."""
        return False

    @property
    def supports_deletes(self) -> bool:
        """It is read only."""
        return False

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse to write."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Refuse to delete."""
        self._check_writable()


def brought_near(node: N) -> N:
    """The same group or array, read through a chunk_cache where it is not on this machine."""
    store = node.store
    if isinstance(store, FarStore) or not isinstance(store, FsspecStore | ObjectStore):
        return node
    if _protocol(store) in _LOCAL:
        return node
    far = FarStore(GivenOrigin(store))
    opened = zarr.open(far, path=node.path, mode="r", zarr_format=node.metadata.zarr_format)
    return cast(N, opened)


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
