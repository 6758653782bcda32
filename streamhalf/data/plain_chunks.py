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

from streamhalf.data.block import RowRange
from streamhalf.data.zarr_private import chunk_file, plain_checksum

google_crc32c: Any
try:
    import google_crc32c
except ImportError:
    google_crc32c = None

_CHECKSUM_NBYTES = 4
_PREFETCH_NBYTES = 128 << 10  # what Linux reads ahead where nobody has set it otherwise


def read_plain(
    array: zarr.Array[Any], rows: RowRange, *, parts: bool = False
) -> NDArray[Any] | None:
    """Rows of an array whose chunks are plain and whole; None if they are not.

    With `parts`, no more is read of a chunk than is wanted; its checksum is then not looked at.
    """
    if not is_plain(array):
        return None
    step = array.chunks[0]
    result = np.empty((rows.n_rows, *array.shape[1:]), dtype=array.dtype)
    for start, file in _files(array, rows):
        first, last = max(rows.start, start), min(rows.stop, start + step)
        target = result[first - rows.start : last - rows.start]
        all_rows = (start, min(start + step, array.shape[0]))
        if parts and (first, last) != all_rows:
            found = file.read(target, first - start, check=False)
        elif last - first == step:
            found = file.read(target, 0, check=file.has_checksum)
        else:  # the last chunk too is stored in full size
            whole = np.empty(array.chunks, dtype=array.dtype)
            found = file.read(whole, 0, check=file.has_checksum)
            target[...] = whole[first - start : last - start]
        if not found:
            return None
    return result


def prefetch_plain(array: zarr.Array[Any], rows: RowRange) -> bool:
    """Have the kernel bring the chunks of these rows into memory; whether it can be asked to."""
    if not is_plain(array) or not hasattr(os, "posix_fadvise"):
        return False
    step = array.chunks[0]
    for start, file in _files(array, rows):
        file.prefetch(max(0, rows.start - start), min(step, rows.stop - start))
    return True


def is_plain(array: zarr.Array[Any]) -> bool:
    """Whether a chunk is a file with the bytes of its rows, with a checksum that we can check."""
    checked = plain_checksum(array)
    return checked is not None and (not checked or google_crc32c is not None)


def has_checksum(array: zarr.Array[Any]) -> bool:
    """Whether the chunks of a plain array end with a checksum."""
    return bool(plain_checksum(array))


def _files(array: zarr.Array[Any], rows: RowRange) -> Iterator[tuple[int, ChunkFile]]:
    """The chunks that rows lie in, each with its first row."""
    step, checked = array.chunks[0], has_checksum(array)
    row_nbytes = math.prod(array.shape[1:]) * array.dtype.itemsize
    for chunk in range(rows.start // step, -(-rows.stop // step)):
        path = chunk_file(array, (chunk, *(0 for _ in array.shape[1:])))
        yield chunk * step, ChunkFile(path, step, row_nbytes, checked)


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """The file of a chunk: its rows, and a checksum perhaps."""

    path: Path
    n_rows: int
    row_nbytes: int
    has_checksum: bool

    def prefetch(self, first: int, last: int) -> None:
        """Ask for rows, in steps: the kernel takes up only so much of one request."""
        start, stop = first * self.row_nbytes, last * self.row_nbytes
        try:
            with open(self.path, "rb", buffering=0) as handle:
                for offset in range(start, stop, _PREFETCH_NBYTES):
                    size = min(_PREFETCH_NBYTES, stop - offset)
                    os.posix_fadvise(handle.fileno(), offset, size, os.POSIX_FADV_WILLNEED)
        except OSError:
            pass  # whoever reads it will say what is wrong

    def read(self, target: NDArray[Any], first: int, *, check: bool) -> bool:
        """Read as many rows as the target takes, from row `first` of the chunk on.

        Says whether the file has its size and, if all of it is read to `check` it, its checksum.
        """
        size = self.n_rows * self.row_nbytes + self.has_checksum * _CHECKSUM_NBYTES
        numbers = target.reshape(-1).view(np.uint8)
        view: memoryview = numbers.data
        try:
            with open(self.path, "rb", buffering=0) as handle:
                if os.fstat(handle.fileno()).st_size != size:
                    return False
                handle.seek(first * self.row_nbytes)
                done = 0
                while done < len(view):
                    got = handle.readinto(view[done:])
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
