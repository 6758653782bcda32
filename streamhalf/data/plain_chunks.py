"""Plain chunks, read straight into the rows' own memory.

Zarr reads a chunk in many small steps on one thread of its own: a copy into a buffer, a copy out of
it, and a turn of the interpreter for every step, which threads that compute keep for themselves.
Where a chunk is nothing but its numbers, with or without a checksum, one system call or request
does, and of a chunk no more need be read than is wanted. Whatever is not as expected, missing or
damaged, is left to Zarr and its errors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import RangeByteRequest
from zarr.storage import LocalStore

from streamhalf.data.block import RowRanges
from streamhalf.data.depot import Content, Key
from streamhalf.data.far import FarStore
from streamhalf.data.zarr_private import chunk_file, chunk_key, plain_checksum
from streamhalf.retry import retrying

google_crc32c: Any
try:
    import google_crc32c
except ImportError:
    google_crc32c = None

_CHECKSUM_NBYTES = 4
_GAP_NBYTES = 1 << 20  # what a request costs is worth more bytes than these
_PREFETCH_NBYTES = 128 << 10  # what Linux reads ahead where nobody has set it otherwise


def read_plain(
    array: zarr.Array[Any], rows: RowRanges, *, parts: bool = False
) -> NDArray[Any] | None:
    """Rows of an array whose chunks are plain and whole; None if they are not.

    With `parts`, no more is read of a chunk than is wanted; its checksum is then not looked at.
    """
    if not is_plain(array):
        return None
    result = np.empty((rows.n_rows, *array.shape[1:]), dtype=array.dtype)
    done = 0
    for start, file, wanted in _chunks(array, rows):
        target = result[done : done + wanted.n_rows]
        done += len(target)
        every = len(target) == min(file.n_rows, array.shape[0] - start)
        if parts and not every:
            found = file.read(target, wanted.bounds - start, check=False)
        elif len(target) == file.n_rows or (every and isinstance(file, ChunkFile)):
            rows_of_it = np.array([[0, len(target)]])
            found = file.read(target, rows_of_it, check=file.has_checksum)
        else:  # the last chunk too is stored in full size
            whole = np.empty(array.chunks, dtype=array.dtype)
            found = file.read(whole, file.whole, check=file.has_checksum)
            target[...] = wanted.take_from(whole, start)
        if not found:
            return None
    return result


def prefetch_plain(array: zarr.Array[Any], rows: RowRanges, *, parts: bool = True) -> bool:
    """Have the chunks of these rows brought into memory; whether anybody can be asked to."""
    if not is_plain(array):
        return False
    if isinstance(array.store, LocalStore) and not hasattr(os, "posix_fadvise"):
        return False
    for start, chunk, wanted in _chunks(array, rows):
        chunk.prefetch(wanted.bounds - start if parts else chunk.whole)
    return True


def is_plain(array: zarr.Array[Any]) -> bool:
    """Whether a chunk is an object with the bytes of its rows, with a checksum we can check."""
    checked = plain_checksum(array)
    readable = checked is not None and isinstance(array.store, LocalStore | FarStore)
    return readable and (not checked or google_crc32c is not None)


def has_checksum(array: zarr.Array[Any]) -> bool:
    """Whether the chunks of a plain array end with a checksum."""
    return bool(plain_checksum(array))


def _chunks(array: zarr.Array[Any], rows: RowRanges) -> Iterator[tuple[int, Chunk, RowRanges]]:
    """The chunks that rows lie in, each with its first row and those that are wanted."""
    step, span = array.chunks[0], rows.span
    row_nbytes = math.prod(array.shape[1:]) * array.dtype.itemsize
    shape = (step, row_nbytes, has_checksum(array))
    pieces = rows.cut(np.arange(span.start // step, -(-span.stop // step), dtype=np.int64) * step)
    for wanted in pieces.grouped(pieces.bounds[:, 0] // step):
        number = wanted.span.start // step
        index = (number, *(0 for _ in array.shape[1:]))
        if isinstance(array.store, FarStore):
            key = f"{array.path}/{chunk_key(array, index)}".lstrip("/")
            yield number * step, FarChunk(*shape, array.store, key), wanted
        else:
            yield number * step, ChunkFile(*shape, chunk_file(array, index)), wanted


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


@dataclass(frozen=True, slots=True)
class ChunkFile(Chunk):
    """A chunk that is a file."""

    path: str

    def prefetch(self, ranges: NDArray[np.int64]) -> None:
        """Ask for rows, in steps: the kernel takes up only so much of one request."""
        try:
            with open(self.path, "rb", buffering=0) as handle:
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
            with open(self.path, "rb", buffering=0) as handle:
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
            self.store.depot.has_ranges, windows = False, None
        if windows is None:
            held = {0: self._take(None)}
        if any(content is None for content in held.values()):
            return False
        if windows is None and not self._is_sound(held[0]):
            self.store.depot.drop(self.key)
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
        depot, store = self.store.depot, self.store
        if int((ranges[:, 1] - ranges[:, 0]).sum()) == self.n_rows or depot.holds(self.key):
            return None
        if not depot.has_ranges or not (self.has_checksum or store.tells_sizes):
            return None
        edges = ranges * self.row_nbytes
        far_apart = edges[1:, 0] - edges[:-1, 1] > _GAP_NBYTES
        starts, stops = edges[np.append(True, far_apart), 0], edges[np.append(far_apart, True), 1]
        windows = [RangeByteRequest(*pair) for pair in np.stack([starts, stops], axis=1).tolist()]
        begun = all(depot.holds((self.key, window)) for window in windows)
        wanted = int((stops - starts).sum())
        return None if not begun and depot.wants_whole(self.nbytes, wanted) else windows

    def _begin(self, window: RangeByteRequest | None) -> tuple[Key, Future[Content]]:
        key: Key = self.key if window is None else (self.key, window)
        expected = self.nbytes if window is None else 0
        fetch = partial(self.store.fetch, self.key, window, self.nbytes)
        return key, self.store.depot.begin(key, fetch, expected)

    def _take(self, window: RangeByteRequest | None) -> Content:
        def take() -> Content:
            key, begun = self._begin(window)
            try:
                return begun.result()
            finally:
                self.store.depot.end(key, begun)

        return retrying(take)

    def _is_sound(self, content: Content) -> bool:
        """Whether it is the whole object; one that is kept is held against its checksum once."""
        depot = self.store.depot
        if len(content) != self.nbytes:
            return False
        if self.has_checksum and not depot.is_checked(self.key):
            raw = np.frombuffer(content, dtype=np.uint8)
            if not _fits(raw[:-_CHECKSUM_NBYTES], raw[-_CHECKSUM_NBYTES:]):
                return False
            depot.note_checked(self.key)
        return True


def _fits(numbers: NDArray[np.uint8], rest: Any) -> bool:
    """Whether bytes, and what is stored after them, fit the checksum that ends it."""
    after = np.frombuffer(rest, dtype=np.uint8)
    found = google_crc32c.extend(google_crc32c.value(numbers), after[:-_CHECKSUM_NBYTES])
    return bool(found == int.from_bytes(after[-_CHECKSUM_NBYTES:].tobytes(), "little"))
