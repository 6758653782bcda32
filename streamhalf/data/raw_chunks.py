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
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from io import FileIO
from typing import Any, TypeAlias

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import RangeByteRequest
from zarr.storage import LocalStore

from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.chunk_cache import Content, key_of
from streamhalf.data.remote_store import RemoteStore
from streamhalf.data.zarr_private import ChunkCodecs, chunk_codecs, chunk_key, chunk_names
from streamhalf.paths import retrying

LARGE_NBYTES = 64 << 20  # Chunks and shards beyond this are read in parts, where that can be
_CHECKSUM_NBYTES = 4
_PIECE_NBYTES = 16 << 20  # of a large chunk that is held against its checksum
_GAP_NBYTES = 256 << 10  # a request takes as long as about so many bytes
_PREFETCH_NBYTES = 128 << 10  # what Linux reads ahead unless it is set otherwise
_SMALL_NBYTES = 64 << 10
_LEAST_LENT = 1 << 20  # smaller buffers come from the C library, which keeps them itself
_MOST_FREE = 32


def read_chunks(array: zarr.Array[Any], rows: RowRanges, *, parts: bool = False) -> NDArray[Any] | None:
    """Return rows of an array whose chunks hold whole rows; None where Zarr must read them.

    With `parts`, no more is read of a raw chunk than is wanted, and its checksum not looked at.
    """
    if (codecs := _codecs_of(array)) is None:
        return None
    result = lend((rows.n_rows, *array.shape[1:]), array.dtype)
    done = 0
    for chunk, wanted, partly in _chunks(array, codecs, rows, parts=parts):
        n_wanted = wanted.n_rows
        target = result[done : done + n_wanted]
        done += n_wanted
        if partly:
            found = (parts or _is_sound(chunk)) and chunk.read(_bytes_of(target), wanted)
        elif n_wanted == chunk.n_rows:
            found = _read_all(chunk, target)
        else:  # the last chunk too is stored in full size
            whole = lend(array.chunks, array.dtype)
            if found := _read_all(chunk, whole):
                target[...] = wanted.take_from(whole, 0)
        if not found:
            return None
    return result


def prefetch_chunks(array: zarr.Array[Any], rows: RowRanges, *, parts: bool = True) -> bool:
    """Start to bring rows into memory; return False where only reading them does that."""
    codecs, store = _codecs_of(array), array.store
    if codecs is None:
        return isinstance(store, RemoteStore) and _prefetch_objects(array, store, rows)
    if not isinstance(store, RemoteStore):
        if codecs.decoders or not hasattr(os, "posix_fadvise"):
            return False
        if array.chunks[0] * _row_nbytes(array) < _SMALL_NBYTES:
            return True  # to ask for a small chunk takes as long as to read it
    for chunk, wanted, partly in _chunks(array, codecs, rows, parts=parts):
        chunk.prefetch(wanted if partly else None)
    return True


def _prefetch_objects(array: zarr.Array[Any], store: RemoteStore, rows: RowRanges) -> bool:
    """Start to fetch remote objects that Zarr decodes, those of which all is wanted."""
    pieces = array.shards or array.chunks
    step, nbytes = pieces[0], pieces[0] * _row_nbytes(array)
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
    if codecs is None or not codecs.has_checksum:
        return None
    chunks = _chunks(array, codecs, RowRanges.of((rows,)), parts=False)
    return next((chunk.number for chunk, _, _ in chunks if not _is_sound(chunk)), None)


def is_raw(array: zarr.Array[Any]) -> bool:
    """Return True if a chunk is the bytes of its rows, of which a part can be read."""
    return (codecs := _codecs_of(array)) is not None and not codecs.decoders


def has_checksum(array: zarr.Array[Any]) -> bool:
    """Return True if the chunks of an array are raw and end with a checksum."""
    return (codecs := _codecs_of(array)) is not None and codecs.has_checksum


def _read_all(chunk: _Chunk, target: NDArray[Any]) -> bool:
    """Read and decode all rows of a chunk; False if they are not as expected."""
    raw = _bytes_of(target)
    if not chunk.codecs.decoders:
        return chunk.read(raw, None)
    if (content := chunk.content()) is None:
        return False
    try:
        for decoder in chunk.codecs.decoders:
            content = decoder.decode(content)
    except Exception:  # Zarr says what is wrong
        return False
    decoded = np.frombuffer(content, dtype=np.uint8)
    if found := decoded.size == raw.size:
        raw[...] = decoded
    return found


def _is_sound(chunk: _Chunk) -> bool:
    """Return True if a raw chunk has its size and fits its checksum; a process looks once."""
    stamp = chunk.stamp()
    with _looking[hash(stamp) % len(_looking)]:  # one thread looks, others wait for it
        if stamp is None or (stamp not in _sound and not _are_sound(chunk.pieces(), chunk.nbytes)):
            return False
        _sound.add(stamp)
        return True


def _codecs_of(array: zarr.Array[Any]) -> ChunkCodecs | None:
    return chunk_codecs(array) if isinstance(array.store, LocalStore | RemoteStore) else None


def _row_nbytes(array: zarr.Array[Any]) -> int:
    return math.prod(array.shape[1:]) * array.dtype.itemsize


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _chunks(
    array: zarr.Array[Any], codecs: ChunkCodecs, rows: RowRanges, *, parts: bool
) -> Iterator[tuple[_Chunk, RowRanges, bool]]:
    """Yield the chunks that rows lie in, the rows wanted of each, and if these alone are read."""
    step, n_rows = array.chunks[0], array.shape[0]
    store = array.store if isinstance(array.store, RemoteStore) else None
    shape, name = (step, _row_nbytes(array), codecs), chunk_names(array)
    in_parts = not codecs.decoders and (parts or step * _row_nbytes(array) > LARGE_NBYTES)
    for number, of_array in rows.by_step(step):
        wanted = RowRanges(of_array.bounds - number * step)
        chunk: _Chunk
        if store is None:
            chunk = _LocalChunk(number, *shape, name(number))
        else:
            chunk = _RemoteChunk(number, *shape, store, name(number))
        partly = in_parts and wanted.n_rows < min(step, n_rows - number * step)
        yield chunk, wanted, partly


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored chunk; sizes are those of a raw one. Ranges of its rows are None for all of them."""

    number: int
    n_rows: int
    row_nbytes: int
    codecs: ChunkCodecs

    @property
    def nbytes(self) -> int:
        return self.n_rows * self.row_nbytes + self.codecs.has_checksum * _CHECKSUM_NBYTES

    def windows(self, ranges: RowRanges | None) -> list[tuple[int, int]]:
        """Return the bytes of rows as starts and stops."""
        if ranges is None:
            return [(0, self.n_rows * self.row_nbytes)]
        edges: list[tuple[int, int]] = (ranges.bounds * self.row_nbytes).tolist()
        return edges


_sound: set[tuple[Any, ...]] = set()
_looking = tuple(threading.Lock() for _ in range(64))


@dataclass(frozen=True, slots=True)
class _LocalChunk(_Stored):
    """A chunk that is a file."""

    path: str

    def prefetch(self, ranges: RowRanges | None) -> None:
        try:
            with FileIO(self.path) as file:
                for start, stop in self.windows(ranges):
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

    def read(self, raw: NDArray[np.uint8], ranges: RowRanges | None) -> bool:
        """Read raw rows; all of them are held against the checksum. False if not as expected."""
        try:
            with FileIO(self.path) as file:
                if os.fstat(file.fileno()).st_size != self.nbytes:
                    return False
                view, done = raw.data, 0
                for start, stop in self.windows(ranges):
                    file.seek(start)
                    if not _fill(file, view[done : done + stop - start]):
                        return False
                    done += stop - start
                return ranges is not None or not self.codecs.has_checksum or _fits(raw, file.read())
        except OSError:
            return False

    def stamp(self) -> tuple[Any, ...] | None:
        """Return what tells this version of the object from others; None if it is absent."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return (self.path, found.st_mtime_ns) if found.st_size == self.nbytes else None

    def pieces(self) -> Iterator[bytes]:
        with FileIO(self.path) as file:
            while piece := file.read(_PIECE_NBYTES):
                yield piece


@dataclass(frozen=True, slots=True)
class _RemoteChunk(_Stored):
    """A chunk that is a remote object, of which a part may be in the cache or on its way."""

    store: RemoteStore
    key: str

    def prefetch(self, ranges: RowRanges | None) -> None:
        for window in self._requested(ranges):
            self.store.cache.begin(*self._request(window))

    def content(self) -> Content:
        return self._take(None)

    def read(self, raw: NDArray[np.uint8], ranges: RowRanges | None) -> bool:
        windows = self._requested(ranges)
        held = [self._take(window) for window in windows]
        if any(content is None for content in held):
            return False
        begins, done = [window.start if window else 0 for window in windows], 0
        for start, stop in self.windows(ranges):
            home = bisect_right(begins, start) - 1
            offset = start - begins[home]
            found = np.frombuffer(held[home], dtype=np.uint8)[offset : offset + stop - start]
            if len(found) != stop - start:
                return False
            raw[done : done + len(found)] = found
            done += len(found)
        return True

    def _requested(self, ranges: RowRanges | None) -> list[RangeByteRequest | None]:
        """Return what to fetch of it, near neighbours together; None for all of it."""
        cache = self.store.cache
        has_parts = cache.has_ranges and (self.codecs.has_checksum or self.store.tells_sizes)
        if ranges is None or not has_parts or cache.holds(self.key):
            return [None]
        edges = ranges.bounds * self.row_nbytes
        apart = edges[1:, 0] - edges[:-1, 1] > _GAP_NBYTES
        starts, stops = edges[np.append(True, apart), 0], edges[np.append(apart, True), 1]
        windows = [RangeByteRequest(*pair) for pair in zip(starts.tolist(), stops.tolist(), strict=True)]
        parts = self.nbytes > LARGE_NBYTES or all(cache.holds(key_of(self.key, window)) for window in windows)
        whole = not parts and cache.wants_whole(self.nbytes, int((stops - starts).sum()))
        return [None] if whole else [*windows]

    def _request(self, window: RangeByteRequest | None) -> tuple[Any, Any, int]:
        """Return the key in the cache, what fetches it, and its size."""
        if window is None:
            return self.key, self._fetch_whole, self.nbytes
        return key_of(self.key, window), partial(self.store.fetch, self.key, window, self.nbytes), 0

    def _take(self, window: RangeByteRequest | None) -> Content:
        return retrying(lambda: self.store.cache.take(*self._request(window)))

    def _fetch_whole(self) -> Content:
        """Return the object; a raw one if size and checksum are as they should be, else None."""
        if self.codecs.decoders:
            return self.store.fetch(self.key)
        content = self.store.fetch(self.key, None, self.nbytes)
        if content is None or len(content) != self.nbytes:
            return None
        raw = np.frombuffer(content, dtype=np.uint8)
        end = self.n_rows * self.row_nbytes
        return content if not self.codecs.has_checksum or _fits(raw[:end], raw[end:]) else None

    def stamp(self) -> tuple[Any, ...]:
        return self.store.token, self.key

    def pieces(self) -> Iterator[bytes]:
        for start in range(0, self.nbytes, _PIECE_NBYTES):
            yield bytes(self._take(RangeByteRequest(start, min(start + _PIECE_NBYTES, self.nbytes))) or b"")


_Chunk: TypeAlias = _LocalChunk | _RemoteChunk


def _fill(file: FileIO, view: memoryview) -> bool:
    done = 0
    while done < len(view):
        if not (got := file.readinto(view[done:])):
            return False
        done += got
    return True


def _are_sound(pieces: Iterable[bytes], nbytes: int) -> bool:
    """Return True if pieces are so many bytes that fit the checksum that ends them."""
    found, tail, done = 0, b"", 0
    for piece in pieces:
        body = tail + piece
        done += len(piece)
        found, tail = google_crc32c.extend(found, body[:-_CHECKSUM_NBYTES]), body[-_CHECKSUM_NBYTES:]
    return done == nbytes and tail == found.to_bytes(_CHECKSUM_NBYTES, "little")


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
    memory = _take_free(nbytes)
    raw = np.asarray(_Loan(np.empty(nbytes, dtype=np.uint8) if memory is None else memory))
    return raw[:nbytes].view(dtype).reshape(shape)


def _take_free(nbytes: int) -> NDArray[np.uint8] | None:
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
