"""Plain chunks, read straight into the rows' own memory.

Zarr reads a chunk in many small steps on one thread of its own: a copy into a buffer, a copy out of
it, and a turn of the interpreter for every step, which threads that compute keep for themselves.
Where a chunk is nothing but its numbers, with or without a checksum, one system call or request
does, and of a chunk no more need be read than is wanted. Compressed chunks in files are read and
decoded one after the other: Zarr's steps take many times as long as the work on small ones.
Whatever is not as expected, missing or damaged, is left to Zarr and its errors.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache, partial
from io import FileIO
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import RangeByteRequest
from zarr.storage import LocalStore

from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.chunk_cache import Content, Key
from streamhalf.data.remote_store import FarStore
from streamhalf.data.zarr_private import (
    chunk_decoders,
    chunk_key,
    chunk_names,
    plain_checksum,
)
from streamhalf.retry import retrying

google_crc32c: Any
try:
    import google_crc32c
except ImportError:
    google_crc32c = None

LARGE_NBYTES = 64 << 20
"""Chunks and shards beyond this are read in parts, where that can be."""

_CHECKSUM_NBYTES = 4
_PIECE_NBYTES = 16 << 20  # of a large chunk that is held against its checksum
_GAP_NBYTES = 1 << 20  # what a request costs is worth more bytes than these
_PREFETCH_NBYTES = 128 << 10  # what Linux reads ahead where nobody has set it otherwise
_SMALL_NBYTES = 64 << 10


def read_plain(
    array: zarr.Array[Any], rows: RowRanges, *, parts: bool = False
) -> NDArray[Any] | None:
    """Rows of an array whose chunks are plain and whole; None if they are not.

    With `parts`, no more is read of a chunk than is wanted; its checksum is then not looked at.
    """
    if not is_plain(array):
        return None
    result = np.empty((rows.n_rows, *array.shape[1:]), dtype=array.dtype)
    done, end = 0, array.shape[0]
    for start, file, wanted, n_rows in _chunks(array, rows):
        target = result[done : done + n_rows]
        done += n_rows
        every = n_rows == min(file.n_rows, end - start)
        if parts and not every:
            found = file.read(target, wanted, check=False)
        elif n_rows == file.n_rows or (every and isinstance(file, ChunkFile)):
            found = file.read(target, np.array([[0, n_rows]]), check=file.has_checksum)
        elif file.nbytes > LARGE_NBYTES:
            found = file.is_sound() and file.read(target, wanted, check=False)
        else:  # the last chunk too is stored in full size
            whole = np.empty(array.chunks, dtype=array.dtype)
            found = file.read(whole, file.whole, check=file.has_checksum)
            target[...] = RowRanges(wanted).take_from(whole, 0)
        if not found:
            return None
    return result


def read_decoded(array: zarr.Array[Any], rows: RowRanges) -> NDArray[Any] | None:
    """Rows of an array whose chunks are files, compressed perhaps; None where Zarr reads it."""
    if not isinstance(array.store, LocalStore) or (decoders := chunk_decoders(array)) is None:
        return None
    result = np.empty((rows.n_rows, *array.shape[1:]), dtype=array.dtype)
    done, shape = 0, array.chunks
    step, size, name = shape[0], math.prod(shape), chunk_names(array)
    try:
        for number, wanted, n_rows in _grouped(rows, step):
            with FileIO(name(number)) as handle:
                content: Any = handle.readall()
            for decoder in decoders:
                content = decoder.decode(content)
            numbers = np.frombuffer(content, dtype=array.dtype)
            if numbers.size != size:
                return None
            found = RowRanges(wanted).take_from(numbers.reshape(shape), number * step)
            result[done : done + n_rows] = found
            done += n_rows
    except Exception:
        return None  # Zarr says what is wrong
    return result


def prefetch_plain(array: zarr.Array[Any], rows: RowRanges, *, parts: bool = True) -> bool:
    """Have the chunks of these rows brought into memory; whether anybody can be asked to."""
    if not is_plain(array):
        return False
    if isinstance(array.store, LocalStore):
        if not hasattr(os, "posix_fadvise"):
            return False
        if array.chunks[0] * _row_nbytes(array) < _SMALL_NBYTES:
            return True  # to ask for a small chunk takes as long as to read it
    for _, chunk, wanted, _ in _chunks(array, rows):
        chunk.prefetch(wanted if parts or chunk.nbytes > LARGE_NBYTES else chunk.whole)
    return True


def unsound_chunk(array: zarr.Array[Any], rows: RowRange) -> int | None:
    """The first plain chunk of these rows that does not fit its checksum.

    No more than a piece of it is in memory.
    """
    if not is_plain(array) or not has_checksum(array):
        return None
    chunks = _chunks(array, RowRanges.of((rows,)))
    unsound = (start for start, chunk, *_ in chunks if not chunk.is_sound())
    return next((start // array.chunks[0] for start in unsound), None)


def is_plain(array: zarr.Array[Any]) -> bool:
    """Whether a chunk is an object with the bytes of its rows, with a checksum we can check."""
    checked = plain_checksum(array)
    readable = checked is not None and isinstance(array.store, LocalStore | FarStore)
    return readable and (not checked or google_crc32c is not None)


def has_checksum(array: zarr.Array[Any]) -> bool:
    """Whether the chunks of a plain array end with a checksum."""
    return bool(plain_checksum(array))


def _row_nbytes(array: zarr.Array[Any]) -> int:
    return int(math.prod(array.shape[1:]) * array.dtype.itemsize)


def _grouped(rows: RowRanges, step: int) -> Iterator[tuple[int, NDArray[np.int64], int]]:
    """Numbers of the chunks that rows lie in, which rows they are, and how many."""
    span = rows.span
    pieces = rows.cut(np.arange(span.start // step, -(-span.stop // step), dtype=np.int64) * step)
    numbers = pieces.bounds[:, 0] // step
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    counts = np.add.reduceat(pieces.sizes, firsts)
    bounds = np.split(pieces.bounds, firsts[1:])
    return zip(numbers[firsts].tolist(), bounds, counts.tolist(), strict=True)


def _chunks(
    array: zarr.Array[Any], rows: RowRanges
) -> Iterator[tuple[int, Chunk, NDArray[np.int64], int]]:
    """The chunks that rows lie in, each with its first row, those wanted of it, and how many."""
    step, store = array.chunks[0], array.store
    shape = (step, _row_nbytes(array), has_checksum(array))
    zeros = (0,) * (array.ndim - 1)
    name = str if isinstance(store, FarStore) else chunk_names(array)
    for number, bounds, n_rows in _grouped(rows, step):
        chunk: Chunk
        if isinstance(store, FarStore):
            key = f"{array.path}/{chunk_key(array, (number, *zeros))}".lstrip("/")
            chunk = FarChunk(*shape, store, key)
        else:
            chunk = ChunkFile(*shape, name(number))
        start = number * step
        yield start, chunk, bounds - start, n_rows


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored chunk: its rows, and a checksum perhaps."""

    n_rows: int
    row_nbytes: int
    has_checksum: bool

    @property
    def whole(self) -> NDArray[np.int64]:
        """All rows, as one range."""
        return np.array([[0, self.n_rows]])

    @property
    def nbytes(self) -> int:
        """What is stored, if it is whole."""
        return self.n_rows * self.row_nbytes + self.has_checksum * _CHECKSUM_NBYTES

    def prefetch(self, ranges: NDArray[np.int64]) -> None:
        """Ask for rows without waiting for them."""
        raise NotImplementedError

    def read(self, target: NDArray[Any], ranges: NDArray[np.int64], *, check: bool) -> bool:
        """Read ranges of the chunk's rows into the target, one after the other.

        Says whether the object has its size and, if all of it is read to `check` it, its checksum.
        """
        raise NotImplementedError

    def is_sound(self) -> bool:
        """Whether it has its size and fits its checksum, a piece of it in memory at a time.

        A process looks once, as long as nobody changes it.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ChunkFile(Chunk):
    """A chunk that is a file."""

    path: str

    def prefetch(self, ranges: NDArray[np.int64]) -> None:
        """Ask for rows, in steps: the kernel takes up only so much of one request."""
        try:
            with FileIO(self.path) as handle:
                for start, stop in (ranges * self.row_nbytes).tolist():
                    for offset in range(start, stop, _PREFETCH_NBYTES):
                        size = min(_PREFETCH_NBYTES, stop - offset)
                        os.posix_fadvise(handle.fileno(), offset, size, os.POSIX_FADV_WILLNEED)
        except OSError:
            pass  # whoever reads it will say what is wrong

    def read(self, target: NDArray[Any], ranges: NDArray[np.int64], *, check: bool) -> bool:
        """Read ranges of the chunk's rows into the target, one after the other.

        To `check` them they are its first rows; what comes after them is read beside the target.
        """
        numbers = target.reshape(-1).view(np.uint8)
        view: memoryview = numbers.data
        try:
            with FileIO(self.path) as handle:
                if os.fstat(handle.fileno()).st_size != self.nbytes:
                    return False
                done = 0
                for start, stop in (ranges * self.row_nbytes).tolist():
                    handle.seek(start)
                    end = done + stop - start
                    while done < end:
                        got = handle.readinto(view[done:end])
                        if not got:
                            return False
                        done += got
                if not check:
                    return True
                rest = handle.read() or b""
        except OSError:
            return False
        numbers.setflags(write=False)  # what the checksum's library asks for
        return done + len(rest) == self.nbytes and _fits(numbers, rest)

    def is_sound(self) -> bool:
        """Whether it has its size and fits its checksum."""
        try:
            found = os.stat(self.path)
            right = found.st_size == self.nbytes
            if not right or not self.has_checksum:
                return right
            with _looking[hash(self.path) % len(_looking)]:  # one thread looks, others wait for it
                return _file_fits(self.path, found.st_mtime_ns)
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class FarChunk(Chunk):
    """A chunk that is an object far away, of which a part may be here or on its way."""

    store: FarStore
    key: str

    def prefetch(self, ranges: NDArray[np.int64]) -> None:
        """Have rows fetched."""
        windows = self._windows(ranges)
        for window in [None] if windows is None else windows:
            self._begin(window)

    def read(self, target: NDArray[Any], ranges: NDArray[np.int64], *, check: bool) -> bool:
        """Read ranges of the chunk's rows into the target, one after the other."""
        windows = self._windows(ranges)
        try:
            held = {window.start: self._take(window) for window in windows or ()}
        except Exception as error:
            if type(error).__name__ != "NotSupportedError":  # of obstore, which may be absent
                raise
            self.store.chunk_cache.has_ranges, windows = False, None
        if windows is None:
            held = {0: self._take(None)}
        if any(content is None for content in held.values()):
            return False
        if windows is None and not self._is_sound(held[0]):
            self.store.chunk_cache.drop(self.key)
            return False
        return self._copy(held, target, ranges)

    def _copy(
        self, held: dict[int, Content], target: NDArray[Any], ranges: NDArray[np.int64]
    ) -> bool:
        """Copy ranges of rows out of what begins at these bytes of the object."""
        numbers, done = target.reshape(-1).view(np.uint8), 0
        begins = np.array([*held], dtype=np.int64)
        for start, stop in (ranges * self.row_nbytes).tolist():
            begin = int(begins[np.searchsorted(begins, start, side="right") - 1])
            found = np.frombuffer(held[begin], dtype=np.uint8)[start - begin : stop - begin]
            if len(found) != stop - start:
                return False
            numbers[done : done + len(found)] = found
            done += len(found)
        return True

    def _windows(self, ranges: NDArray[np.int64]) -> list[RangeByteRequest] | None:
        """What to fetch of it, neighbours together; None for all of it."""
        chunk_cache, store = self.store.chunk_cache, self.store
        n_rows = int((ranges[:, 1] - ranges[:, 0]).sum())
        large = self.nbytes > LARGE_NBYTES
        if n_rows == self.n_rows or chunk_cache.holds(self.key):
            return None
        if not chunk_cache.has_ranges or not (self.has_checksum or store.tells_sizes):
            return None
        edges = ranges * self.row_nbytes
        far_apart = edges[1:, 0] - edges[:-1, 1] > _GAP_NBYTES
        starts, stops = edges[np.append(True, far_apart), 0], edges[np.append(far_apart, True), 1]
        windows = [RangeByteRequest(*pair) for pair in np.stack([starts, stops], axis=1).tolist()]
        begun = all(chunk_cache.holds((self.key, window)) for window in windows)
        wanted = int((stops - starts).sum())
        whole = not begun and not large and chunk_cache.wants_whole(self.nbytes, wanted)
        return None if whole else windows

    def is_sound(self) -> bool:
        """Whether it has its size and fits its checksum."""
        if not self.has_checksum or (self.store.token, self.key) in _sound:
            return True
        edges = range(0, self.nbytes, _PIECE_NBYTES)
        windows = [RangeByteRequest(i, min(i + _PIECE_NBYTES, self.nbytes)) for i in edges]
        if not self.store.chunk_cache.has_ranges:
            content = self._take(None)
            return content is not None and self._is_sound(content)
        if not _are_sound((self._take(window) or b"" for window in windows), self.nbytes):
            return False
        _sound.add((self.store.token, self.key))
        return True

    def _begin(self, window: RangeByteRequest | None) -> tuple[Key, Future[Content]]:
        key: Key = self.key if window is None else (self.key, window)
        expected = self.nbytes if window is None else 0
        fetch = partial(self.store.fetch, self.key, window, self.nbytes)
        return key, self.store.chunk_cache.begin(key, fetch, expected)

    def _take(self, window: RangeByteRequest | None) -> Content:
        def take() -> Content:
            key, begun = self._begin(window)
            try:
                return begun.result()
            finally:
                self.store.chunk_cache.end(key, begun)

        return retrying(take)

    def _is_sound(self, content: Content) -> bool:
        """Whether it is the whole object; one that is kept is held against its checksum once."""
        chunk_cache = self.store.chunk_cache
        if len(content) != self.nbytes:
            return False
        if self.has_checksum and not chunk_cache.is_checked(self.key):
            raw = np.frombuffer(content, dtype=np.uint8)
            if not _fits(raw[:-_CHECKSUM_NBYTES], raw[-_CHECKSUM_NBYTES:]):
                return False
            chunk_cache.note_checked(self.key)
        return True


_sound: set[tuple[str, str]] = set()
"""Large objects far away that this process has held against their checksums."""


_looking = tuple(threading.Lock() for _ in range(64))


@lru_cache(1 << 14)
def _file_fits(path: str, modified: int) -> bool:
    """Whether a file, as it was last written, fits the checksum that ends it."""
    with FileIO(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        return _are_sound(iter(lambda: handle.read(_PIECE_NBYTES) or b"", b""), size)


def _are_sound(pieces: Iterable[Any], nbytes: int) -> bool:
    """Whether pieces are so many bytes that fit the checksum that ends them."""
    found, left, rest = 0, nbytes - _CHECKSUM_NBYTES, b""
    for piece in pieces:
        body = memoryview(piece)[:left]
        found = google_crc32c.extend(found, bytes(body))
        rest += bytes(memoryview(piece)[len(body) :])
        left -= len(body)
    return left == 0 and rest == found.to_bytes(_CHECKSUM_NBYTES, "little")


def _fits(numbers: NDArray[np.uint8], rest: Any) -> bool:
    """Whether bytes, and what is stored after them, fit the checksum that ends it."""
    after = np.frombuffer(rest, dtype=np.uint8)
    found = google_crc32c.extend(google_crc32c.value(numbers), after[:-_CHECKSUM_NBYTES])
    return bool(found == int.from_bytes(after[-_CHECKSUM_NBYTES:].tobytes(), "little"))
