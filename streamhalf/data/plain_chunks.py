"""Plain chunks of a local store, read straight into the rows' own memory.

Zarr reads a chunk in many small steps on one thread of its own: a copy into a buffer, a copy out of
it, and a turn of the interpreter for every step, which threads that compute keep for themselves.
Where a chunk is nothing but its numbers, with or without a checksum, one system call does. Whatever
is not as expected, missing or damaged, is left to Zarr and its errors.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BytesCodec, Crc32cCodec
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import LocalStore

from streamhalf.data.block import RowRange

google_crc32c: Any
try:
    import google_crc32c
except ImportError:
    google_crc32c = None

_CHECKSUM_NBYTES = 4


def read_plain(array: zarr.Array[Any], rows: RowRange) -> NDArray[Any] | None:
    """Rows of an array whose chunks are plain and whole; None if they are not."""
    if not is_plain(array):
        return None
    store, metadata = cast(LocalStore, array.store), cast(ArrayV3Metadata, array.metadata)
    checked = len(metadata.codecs) == 2
    folder = Path(store.root) / array.path
    step = array.chunks[0]
    result = np.empty((rows.n_rows, *array.shape[1:]), dtype=array.dtype)
    for chunk in range(rows.start // step, -(-rows.stop // step)):
        first, last = max(rows.start, chunk * step), min(rows.stop, (chunk + 1) * step)
        target = result[first - rows.start : last - rows.start]
        whole = last - first == step
        content = target if whole else np.empty(array.chunks, dtype=array.dtype)
        index = (chunk, *(0 for _ in array.shape[1:]))
        if not _fill(folder / metadata.encode_chunk_key(index), content, checked=checked):
            return None
        if not whole:
            target[...] = content[first - chunk * step : last - chunk * step]
    return result


def is_plain(array: zarr.Array[Any]) -> bool:
    """Whether a chunk is a file with the bytes of its rows, in this machine's order."""
    metadata = array.metadata
    if not isinstance(array.store, LocalStore) or not isinstance(metadata, ArrayV3Metadata):
        return False
    if array.chunks[1:] != array.shape[1:] or array.dtype.kind not in "fiub":
        return False
    first, *others = metadata.codecs
    if not isinstance(first, BytesCodec):
        return False
    if array.dtype.itemsize > 1 and (first.endian is None or first.endian.value != sys.byteorder):
        return False
    if not others:
        return True
    return google_crc32c is not None and len(others) == 1 and isinstance(others[0], Crc32cCodec)


def _fill(file: Path, content: NDArray[Any], *, checked: bool) -> bool:
    """Read a whole chunk into an array; whether the file has exactly that, and its checksum."""
    numbers = content.reshape(-1).view(np.uint8)
    view: memoryview = numbers.data
    try:
        with open(file, "rb", buffering=0) as handle:
            if os.fstat(handle.fileno()).st_size != len(view) + checked * _CHECKSUM_NBYTES:
                return False
            done = 0
            while done < len(view):
                got = handle.readinto(view[done:])
                if not got:
                    return False
                done += got
            stored = handle.read(_CHECKSUM_NBYTES) if checked else b""
    except OSError:
        return False
    numbers.setflags(write=False)  # what the checksum's library asks for
    return not checked or google_crc32c.value(numbers) == int.from_bytes(stored or b"", "little")
