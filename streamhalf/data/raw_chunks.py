"""Stored chunks read and decoded straight into the rows' own memory.

Zarr reads a chunk in many small steps on one thread of its own, with a turn of the interpreter for
every step. Where chunks hold whole rows, a chunk is one system call or request, of an uncompressed
one no more is read than is wanted, and decoders release the interpreter. Whatever is not as
expected, missing or damaged is left to Zarr and its errors.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from io import FileIO
from typing import Any, TypeAlias

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import RangeByteRequest
from zarr.storage import LocalStore

from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.chunk_cache import Content, Key
from streamhalf.data.remote_store import RemoteStore
from streamhalf.data.zarr_private import ChunkCodecs, chunk_codecs, chunk_key, chunk_names
from streamhalf.paths import retrying

google_crc32c: Any
try:
    import google_crc32c
except ImportError:
    google_crc32c = None

LARGE_NBYTES = 64 << 20
"""Chunks and shards beyond this are read in parts, where that can be."""

_CHECKSUM_NBYTES = 4
_PIECE_NBYTES = 16 << 20  # of a large chunk that is held against its checksum
_GAP_NBYTES = 256 << 10  # a request takes as long as about so many bytes
_PREFETCH_NBYTES = 128 << 10  # what Linux reads ahead unless it is set otherwise
_SMALL_NBYTES = 64 << 10

_LEAST_LENT = 1 << 20  # smaller buffers come from the C library, which keeps them itself
_MOST_FREE = 32

Ranges = NDArray[np.int64]


def read_chunks(array: zarr.Array[Any], rows: RowRanges, *, parts: bool = False) -> NDArray[Any] | None:
    """Return rows of an array whose chunks hold whole rows; None where Zarr must read them.

    With `parts`, no more is read of a raw chunk than is wanted, and its checksum not looked at.
    """
    if (codecs := _codecs_of(array)) is None:
        return None
    result = lend((rows.n_rows, *array.shape[1:]), array.dtype)
    done, n_all = 0, array.shape[0]
    for number, chunk, wanted in _chunks(array, codecs, rows):
        n_wanted = int((wanted[:, 1] - wanted[:, 0]).sum())
        target = result[done : done + n_wanted]
        done += n_wanted
        complete = n_wanted == min(chunk.n_rows, n_all - number * chunk.n_rows)
        if not codecs.decoders and (chunk.nbytes > LARGE_NBYTES or parts) and not complete:
            found = (parts or chunk.is_sound()) and chunk.read_ranges(target, wanted)
        elif n_wanted == chunk.n_rows:
            found = _read_whole(chunk, codecs, target)
        else:  # the last chunk too is stored in full size
            whole = lend(array.chunks, array.dtype)
            if found := _read_whole(chunk, codecs, whole):
                target[...] = RowRanges(wanted).take_from(whole, 0)
        if not found:
            return None
    return result


def _read_whole(chunk: _Chunk, codecs: ChunkCodecs, target: NDArray[Any]) -> bool:
    raw = target.reshape(-1).view(np.uint8)
    if not codecs.decoders:
        return chunk.read_whole(raw)
    if (content := chunk.content()) is None:
        return False
    try:
        for decoder in codecs.decoders:
            content = decoder.decode(content)
    except Exception:  # Zarr says what is wrong
        return False
    decoded = np.frombuffer(content, dtype=np.uint8)
    if found := decoded.size == raw.size:
        raw[...] = decoded
    return found


def prefetch_chunks(array: zarr.Array[Any], rows: RowRanges, *, parts: bool = True) -> bool:
    """Start to bring rows into memory; return False where only reading them does that."""
    codecs, remote = _codecs_of(array), isinstance(array.store, RemoteStore)
    if codecs is None:
        return remote and _prefetch_objects(array, rows)
    if not remote:
        if codecs.decoders or not hasattr(os, "posix_fadvise"):
            return False
        if array.chunks[0] * _row_nbytes(array) < _SMALL_NBYTES:
            return True  # to ask for a small chunk takes as long as to read it
    for _, chunk, wanted in _chunks(array, codecs, rows):
        some = not codecs.decoders and (parts or chunk.nbytes > LARGE_NBYTES)
        chunk.prefetch(wanted if some else chunk.whole)
    return True


def _prefetch_objects(array: zarr.Array[Any], rows: RowRanges) -> bool:
    """Start to fetch remote objects that Zarr decodes, those of which all is wanted."""
    store, pieces = array.store, array.shards or array.chunks
    assert isinstance(store, RemoteStore)
    step, nbytes = pieces[0], math.prod(pieces[:1] + array.shape[1:]) * array.dtype.itemsize
    columns = [range(-(-n // piece)) for n, piece in zip(array.shape[1:], pieces[1:], strict=True)]
    for number, wanted in rows.by_step(step):
        complete = wanted.n_rows == min(step, array.shape[0] - number * step)
        part = nbytes * wanted.n_rows // step  # of a shard a part can be read, and of nothing else
        if array.shards is None or complete or store.cache.wants_whole(nbytes, part):
            for index in itertools.product([number], *columns):
                key = f"{array.path}/{chunk_key(array, index)}".lstrip("/")
                store.cache.begin(key, partial(store.fetch, key), nbytes)
    return True


def unsound_chunk(array: zarr.Array[Any], rows: RowRange) -> int | None:
    """Return the first raw chunk of these rows that does not fit its checksum, read in pieces."""
    codecs = _codecs_of(array)
    if codecs is None or codecs.decoders or not codecs.has_checksum:
        return None
    chunks = _chunks(array, codecs, RowRanges.of((rows,)))
    return next((number for number, chunk, _ in chunks if not chunk.is_sound()), None)


def is_raw(array: zarr.Array[Any]) -> bool:
    """Return True if a chunk is the bytes of its rows, of which a part can be read."""
    return (codecs := _codecs_of(array)) is not None and not codecs.decoders


def has_checksum(array: zarr.Array[Any]) -> bool:
    """Return True if the chunks of an array are raw and end with a checksum."""
    return is_raw(array) and bool((codecs := _codecs_of(array)) and codecs.has_checksum)


def _codecs_of(array: zarr.Array[Any]) -> ChunkCodecs | None:
    codecs = chunk_codecs(array) if isinstance(array.store, LocalStore | RemoteStore) else None
    unchecked = codecs is not None and codecs.has_checksum and google_crc32c is None
    return None if unchecked else codecs


def _row_nbytes(array: zarr.Array[Any]) -> int:
    return int(math.prod(array.shape[1:]) * array.dtype.itemsize)


def _chunks(array: zarr.Array[Any], codecs: ChunkCodecs, rows: RowRanges) -> Iterator[tuple[int, _Chunk, Ranges]]:
    """Yield the chunks that rows lie in: number, chunk, and the rows wanted of it."""
    step, store, zeros = array.chunks[0], array.store, (0,) * (array.ndim - 1)
    shape = (step, _row_nbytes(array), codecs.has_checksum)
    name = None if isinstance(store, RemoteStore) else chunk_names(array)
    for number, wanted in rows.by_step(step):
        chunk: _Chunk
        if name is None:
            key = f"{array.path}/{chunk_key(array, (number, *zeros))}".lstrip("/")
            chunk = _RemoteChunk(*shape, store, key, not codecs.decoders)
        else:
            chunk = _LocalChunk(*shape, name(number))
        yield number, chunk, wanted.bounds - number * step


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored chunk; sizes are those of a raw one."""

    n_rows: int
    row_nbytes: int
    has_checksum: bool

    @property
    def whole(self) -> Ranges:
        """All rows, as one range."""
        return np.array([[0, self.n_rows]])

    @property
    def nbytes(self) -> int:
        """Bytes of the object."""
        return self.n_rows * self.row_nbytes + self.has_checksum * _CHECKSUM_NBYTES

    def _stamp(self) -> tuple[Any, ...] | None:
        """Return what tells this version of the object from others; None if it is absent."""
        raise NotImplementedError

    def _pieces(self) -> Iterable[Any]:
        """Yield the bytes of the object."""
        raise NotImplementedError

    def is_sound(self) -> bool:
        """Return True if it has its size and fits its checksum; a process looks once."""
        stamp = self._stamp()
        with _looking[hash(stamp) % len(_looking)]:  # one thread looks, others wait for it
            if stamp is None or (stamp not in _sound and not _are_sound(self._pieces(), self.nbytes)):
                return False
            _sound.add(stamp)
            return True


_sound: set[tuple[Any, ...]] = set()
_looking = tuple(threading.Lock() for _ in range(64))


@dataclass(frozen=True, slots=True)
class _LocalChunk(_Stored):
    """A chunk that is a file."""

    path: str

    def prefetch(self, ranges: Ranges) -> None:
        try:
            with FileIO(self.path) as file:
                for start, stop in (ranges * self.row_nbytes).tolist():
                    for offset in range(start, stop, _PREFETCH_NBYTES):
                        size = min(_PREFETCH_NBYTES, stop - offset)
                        os.posix_fadvise(file.fileno(), offset, size, os.POSIX_FADV_WILLNEED)
        except OSError:
            pass  # the reader will say what is wrong

    def content(self) -> Content:
        try:
            with FileIO(self.path) as file:
                return file.readall()
        except OSError:
            return None

    def read_whole(self, raw: NDArray[np.uint8]) -> bool:
        try:
            with FileIO(self.path) as file:
                if os.fstat(file.fileno()).st_size != self.nbytes or not _fill(file, raw.data):
                    return False
                return not self.has_checksum or _fits(raw, file.read())
        except OSError:
            return False

    def read_ranges(self, target: NDArray[Any], ranges: Ranges) -> bool:
        view, done = target.reshape(-1).view(np.uint8).data, 0
        try:
            with FileIO(self.path) as file:
                if os.fstat(file.fileno()).st_size != self.nbytes:
                    return False
                for start, stop in (ranges * self.row_nbytes).tolist():
                    file.seek(start)
                    if not _fill(file, view[done : done + stop - start]):
                        return False
                    done += stop - start
        except OSError:
            return False
        return True

    def _stamp(self) -> tuple[Any, ...] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return (self.path, found.st_mtime_ns) if found.st_size == self.nbytes else None

    def _pieces(self) -> Iterable[Any]:
        with FileIO(self.path) as file:
            while piece := file.read(_PIECE_NBYTES):
                yield piece


@dataclass(frozen=True, slots=True)
class _RemoteChunk(_Stored):
    """A chunk that is a remote object, of which a part may be in the cache or on its way."""

    store: Any
    key: str
    is_raw: bool

    def prefetch(self, ranges: Ranges) -> None:
        windows: list[RangeByteRequest | None] = [*(self._windows(ranges) or ())]
        for window in windows or [None]:
            key, fetch, expected = self._request(window)
            self.store.cache.begin(key, fetch, expected)

    def content(self) -> Content:
        return self._take(None)

    def read_whole(self, raw: NDArray[np.uint8]) -> bool:
        if (content := self._take(None)) is None:
            return False
        raw[...] = np.frombuffer(content, dtype=np.uint8, count=len(raw))
        return True

    def read_ranges(self, target: NDArray[Any], ranges: Ranges) -> bool:
        windows: list[RangeByteRequest | None] = [*(self._windows(ranges) or ())]
        windows = windows or [None]
        held = [self._take(window) for window in windows]
        if any(content is None for content in held):
            return False
        begins = np.array([window.start if window else 0 for window in windows], dtype=np.int64)
        raw, done = target.reshape(-1).view(np.uint8), 0
        for start, stop in (ranges * self.row_nbytes).tolist():
            home = int(np.searchsorted(begins, start, side="right")) - 1
            offset = start - int(begins[home])
            found = np.frombuffer(held[home], dtype=np.uint8)[offset : offset + stop - start]
            if len(found) != stop - start:
                return False
            raw[done : done + len(found)] = found
            done += len(found)
        return True

    def _windows(self, ranges: Ranges) -> list[RangeByteRequest] | None:
        """Return what to fetch of it, near neighbours together; None for all of it."""
        cache, large = self.store.cache, self.nbytes > LARGE_NBYTES
        if int((ranges[:, 1] - ranges[:, 0]).sum()) == self.n_rows or cache.holds(self.key):
            return None
        if not cache.has_ranges or not (self.has_checksum or self.store.tells_sizes):
            return None
        edges = ranges * self.row_nbytes
        apart = edges[1:, 0] - edges[:-1, 1] > _GAP_NBYTES
        starts, stops = edges[np.append(True, apart), 0], edges[np.append(apart, True), 1]
        windows = [RangeByteRequest(*pair) for pair in zip(starts.tolist(), stops.tolist(), strict=True)]
        if large or all(cache.holds((self.key, window)) for window in windows):
            return windows
        return None if cache.wants_whole(self.nbytes, int((stops - starts).sum())) else windows

    def _request(self, window: RangeByteRequest | None) -> tuple[Key, Any, int]:
        if window is None:
            return self.key, self._fetch_whole, self.nbytes
        return (self.key, window), partial(self.store.fetch, self.key, window, self.nbytes), 0

    def _take(self, window: RangeByteRequest | None) -> Content:
        return retrying(lambda: self.store.cache.take(*self._request(window)))

    def _fetch_whole(self) -> Content:
        """Return the object; a raw one if size and checksum are as they should be, else None."""
        if not self.is_raw:
            return self.store.fetch(self.key)
        content = self.store.fetch(self.key, None, self.nbytes)
        if content is None or len(content) != self.nbytes:
            return None
        raw = np.frombuffer(content, dtype=np.uint8)
        end = self.n_rows * self.row_nbytes
        return content if not self.has_checksum or _fits(raw[:end], raw[end:]) else None

    def _stamp(self) -> tuple[Any, ...]:
        return self.store.token, self.key

    def _pieces(self) -> Iterable[Any]:
        edges = range(0, self.nbytes, _PIECE_NBYTES)
        for start in edges:
            stop = min(start + _PIECE_NBYTES, self.nbytes)
            yield self._take(RangeByteRequest(start, stop)) or b""


_Chunk: TypeAlias = _LocalChunk | _RemoteChunk


def _fill(file: FileIO, view: memoryview) -> bool:
    done = 0
    while done < len(view):
        if not (got := file.readinto(view[done:])):
            return False
        done += got
    return True


def _are_sound(pieces: Iterable[Any], nbytes: int) -> bool:
    """Return True if pieces are so many bytes that fit the checksum that ends them."""
    found, left, rest = 0, nbytes - _CHECKSUM_NBYTES, b""
    for piece in pieces:
        body = memoryview(piece)[:left]
        found = google_crc32c.extend(found, bytes(body))
        rest += bytes(memoryview(piece)[len(body) :])
        left -= len(body)
    return left == 0 and rest == found.to_bytes(_CHECKSUM_NBYTES, "little")


def _fits(raw: NDArray[np.uint8], checksum: Any) -> bool:
    readable = raw.view()
    readable.flags.writeable = False  # as the checksum's library wants it
    return bool(google_crc32c.value(readable) == int.from_bytes(bytes(checksum), "little"))


# Row buffers are lent to arrays, and used again once no array refers to them: a new buffer for every
# block of rows would have the kernel clear its pages each time.
_free: deque[NDArray[np.uint8]] = deque()


class _Loan:
    """Owner of arrays on a buffer; when the last of them goes, the buffer is free again."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory = memory

    # defaults: globals are gone when the interpreter ends
    def __del__(self, free: deque[NDArray[np.uint8]] = _free, most: int = _MOST_FREE) -> None:
        if len(free) < most:
            free.append(self._memory)


def lend(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of undefined values, on a free buffer if there is one of about this size."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < _LEAST_LENT or dtype.hasobject:
        return np.empty(shape, dtype=dtype)
    memory = _take(nbytes)
    raw = np.asarray(_Loan(np.empty(nbytes, dtype=np.uint8) if memory is None else memory))
    return raw[:nbytes].view(dtype).reshape(shape)


def _take(nbytes: int) -> NDArray[np.uint8] | None:
    for _ in range(len(_free)):
        try:
            memory = _free.popleft()
        except IndexError:  # another thread took the last one
            return None
        if nbytes <= memory.nbytes <= 2 * nbytes:
            return memory
        _free.append(memory)
    return None


def drop_buffers() -> None:
    """Give the memory of all free buffers back."""
    _free.clear()
