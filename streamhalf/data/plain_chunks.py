"""Plain chunks of a local store, read straight into the rows' own memory.

Zarr reads a chunk in many small steps on one thread of its own: a copy into a buffer, a copy out of
it, and a turn of the interpreter for every step, which threads that compute keep for themselves.
Where a chunk is nothing but its numbers, with or without a checksum, one system call does, and of a
chunk no more need be read than is wanted. Whatever is not as expected, missing or damaged, is left
to Zarr and its errors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from streamhalf.data.block import RowRanges
from streamhalf.data.zarr_private import chunk_file, plain_checksum

google_crc32c: Any
try:
    import google_crc32c
except ImportError:
    google_crc32c = None

_CHECKSUM_NBYTES = 4
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
    for start, file, wanted in _files(array, rows):
        target = result[done : done + wanted.n_rows]
        done += len(target)
        if parts and len(target) < min(file.n_rows, array.shape[0] - start):
            found = file.read(target, wanted.bounds - start, check=False)
        elif len(target) == file.n_rows:
            found = file.read(target, file.whole, check=file.has_checksum)
        else:  # the last chunk too is stored in full size
            whole = np.empty(array.chunks, dtype=array.dtype)
            found = file.read(whole, file.whole, check=file.has_checksum)
            target[...] = wanted.take_from(whole, start)
        if not found:
            return None
    return result


def prefetch_plain(array: zarr.Array[Any], rows: RowRanges) -> bool:
    """Have the kernel bring the chunks of these rows into memory; whether it can be asked to."""
    if not is_plain(array) or not hasattr(os, "posix_fadvise"):
        return False
    for start, file, wanted in _files(array, rows):
        file.prefetch(wanted.bounds - start)
    return True


def is_plain(array: zarr.Array[Any]) -> bool:
    """Whether a chunk is a file with the bytes of its rows, with a checksum that we can check."""
    checked = plain_checksum(array)
    return checked is not None and (not checked or google_crc32c is not None)


def has_checksum(array: zarr.Array[Any]) -> bool:
    """Whether the chunks of a plain array end with a checksum."""
    return bool(plain_checksum(array))


def _files(array: zarr.Array[Any], rows: RowRanges) -> Iterator[tuple[int, ChunkFile, RowRanges]]:
    """The chunks that rows lie in, each with its first row and those that are wanted."""
    step, checked, span = array.chunks[0], has_checksum(array), rows.span
    row_nbytes = math.prod(array.shape[1:]) * array.dtype.itemsize
    pieces = rows.cut(np.arange(span.start // step, -(-span.stop // step), dtype=np.int64) * step)
    for wanted in pieces.grouped(pieces.bounds[:, 0] // step):
        chunk = wanted.span.start // step
        path = chunk_file(array, (chunk, *(0 for _ in array.shape[1:])))
        yield chunk * step, ChunkFile(path, step, row_nbytes, checked), wanted


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """The file of a chunk: its rows, and a checksum perhaps."""

    path: Path
    n_rows: int
    row_nbytes: int
    has_checksum: bool

    @property
    def whole(self) -> NDArray[np.int64]:
        """All rows, as one range."""
        return np.array([[0, self.n_rows]])

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

        Says whether the file has its size and, if all of it is read to `check` it, its checksum.
        """
        size = self.n_rows * self.row_nbytes + self.has_checksum * _CHECKSUM_NBYTES
        numbers = target.reshape(-1).view(np.uint8)
        view: memoryview = numbers.data
        try:
            with open(self.path, "rb", buffering=0) as handle:
                if os.fstat(handle.fileno()).st_size != size:
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
                stored = handle.read(_CHECKSUM_NBYTES) or b""
        except OSError:
            return False
        numbers.setflags(write=False)  # what the checksum's library asks for
        return bool(google_crc32c.value(numbers) == int.from_bytes(stored, "little"))
