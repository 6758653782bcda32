"""Reading Zarr arrays so that a missing chunk is an error and never a fill value.

Zarr returns the fill value for a chunk, or an inner chunk of a shard, that does not exist. Each
array is therefore opened with a fill value of our own that no valid row can hold: what was never
written shows up as an invalid row, wherever it is missing, at no cost to the reading.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.storage import LocalStore

from streamhalf.data.block import Reader, RowRange, RowRanges
from streamhalf.data.clients import here
from streamhalf.data.raw_chunks import LARGE_NBYTES, has_checksum, is_raw, prefetch_chunks, read_chunks, unsound_chunk
from streamhalf.data.remote_store import RemoteStore
from streamhalf.data.zarr_private import are_whole_shards, chunk_key, is_checksum_error, refill
from streamhalf.errors import DataError
from streamhalf.paths import retrying
from streamhalf.redact import one_line

GRID_ROWS = 1024  # Blocks that need not be whole chunks are cut at multiples of this many rows
MISSING = "is missing from the store"  # In the message about a chunk that does not exist
_CHANGED = (
    "its checksum does not fit its content, so the object was changed or damaged after it was written; restore it"
)


def impossible_value(dtype: np.dtype[Any]) -> Any:
    """Return a value of this dtype that is neither a feature nor a label."""
    if dtype.kind == "f":
        return np.nan
    if dtype.kind == "b":
        return False
    if dtype.kind in "USTO":
        return b"" if dtype.kind == "S" else ""
    info = np.iinfo(dtype)
    return info.min if info.min < -1 else info.max


def stored_rows(array: zarr.Array[Any]) -> int:
    """Return the rows of the smallest piece that is stored as one object."""
    return int((array.shards or array.chunks)[0])


def unit_of_blocks(array: zarr.Array[Any]) -> int:
    """Return the rows that blocks are multiples of: of an object, or of a part of a large one.

    Of a raw chunk any rows can be read, of a shard its inner chunks; others are decoded whole.
    """
    rows, row_nbytes = stored_rows(array), math.prod(array.shape[1:]) * array.dtype.itemsize
    if rows * row_nbytes <= LARGE_NBYTES:
        return rows
    return min(rows, GRID_ROWS) if is_raw(array) else int(array.chunks[0])


@dataclass(frozen=True, slots=True, eq=False)
class ZarrReader(Reader):
    """Reads raw rows of two Zarr arrays; without labels, every label is +1 and means nothing.

    With `parts`, no more is read of a raw chunk than is wanted, and the checksum of a chunk is
    looked at only where all of it is read.
    """

    features: zarr.Array[Any]
    labels: zarr.Array[Any] | None
    parts: bool = True

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.remote is not None:
            self.prefetch(rows)  # all objects at once
        features, *labels = (_read(array, rows, parts=parts) for array, parts in self._arrays)
        # integers may hold any value: whether one was stored is asked where it could be filled in
        doubtful = features.dtype.kind != "f" and features == impossible_value(features.dtype)
        if np.any(doubtful) and (missing := _missing_chunk(self.features, rows)):
            raise DataError(missing)
        if self.labels is None:
            return features, np.ones(rows.n_rows, dtype=np.int8)
        # a bool has no impossible value: what depends on the fill value was never stored
        if self.labels.dtype.kind == "b" and (missing := _missing_chunk(self.labels, rows)):
            raise DataError(missing)
        return features, labels[0]

    def find_missing(self, rows: RowRanges) -> str | None:
        return next(filter(None, (_missing_chunk(array, rows) for array, _ in self._arrays)), None)

    def prefetch(self, rows: RowRanges) -> bool:
        begun = [prefetch_chunks(array, rows, parts=parts) for array, parts in self._arrays]  # of all of them
        return all(begun)

    @property
    def remote(self) -> RemoteStore | None:
        """The store, where it is not on this machine."""
        store = self.features.store
        return store if isinstance(store, RemoteStore) else None

    @property
    def unit_rows(self) -> int | None:
        """Rows of a stored chunk or shard, unless a part of it could be read.

        The same whether it is (`parts`) or not: which rows a pass takes does not depend on it.
        """
        return None if is_raw(self.features) else stored_rows(self.features)

    @property
    def defers_checks(self) -> bool:
        """True if parts of chunks are read without a look at their checksums."""
        return any(parts and has_checksum(array) for array, parts in self._arrays)

    @property
    def splits_chunks(self) -> bool:
        """True if blocks are parts of raw chunks: no pass that reads blocks sees a checksum."""
        array = self.features
        return is_raw(array) and unit_of_blocks(array) < stored_rows(array)

    def check(self, rows: RowRange) -> None:
        """Check the raw chunks of these rows against their checksums, piece by piece."""
        for array in filter(None, (self.features, self.labels)):
            if (number := unsound_chunk(array, rows)) is not None:
                index = (number, *(0 for _ in array.shape[1:]))
                raise DataError(f"{array.path}: cannot read {_object(array, index)}: {_CHANGED}")

    @property
    def _arrays(self) -> list[tuple[zarr.Array[Any], bool]]:
        """The arrays, and True for those of whose chunks parts are read.

        Labels only where a block of features holds whole chunks of them, which are checked then,
        or where all chunks are checked on their own.
        """
        arrays = [(self.features, self.parts)]
        if self.labels is not None:
            whole = stored_rows(self.features) % stored_rows(self.labels) == 0
            arrays.append((self.labels, self.parts and (whole or self.splits_chunks)))
        return arrays


def _read(array: zarr.Array[Any], rows: RowRanges, fill_value: Any = None, *, parts: bool = False) -> NDArray[Any]:
    """Return rows, and the fill value (one that no valid row can hold) where none are stored."""
    try:
        if (found := read_chunks(array, rows, parts=parts)) is not None:
            return found
    except Exception as error:
        raise DataError(_damage(array, rows.span, error)) from error
    value = impossible_value(array.dtype) if fill_value is None else fill_value
    step = array.chunks[0]
    # a chunk is decoded once and whole, also one of a shard; those between wanted rows are not
    gaps = rows.bounds[1:, 0] // step > (rows.bounds[:-1, 1] - 1) // step + 1
    pieces = rows.grouped(np.cumsum(np.append(0, gaps)))
    decoded = [piece.take_from(_decode(array, piece.span, value), piece.span.start) for piece in pieces]
    return decoded[0] if len(decoded) == 1 else np.concatenate(decoded)


def _decode(array: zarr.Array[Any], rows: RowRange, fill_value: Any) -> NDArray[Any]:
    filled = refill(array, fill_value, compiled=are_whole_shards(array, rows))
    try:
        return retrying(lambda: np.asarray(filled[rows.start : rows.stop]))
    except Exception as error:
        raise DataError(_damage(array, rows, error)) from error


def _damage(array: zarr.Array[Any], rows: RowRange, error: Exception) -> str:
    """Name the first stored object of the range that cannot be read on its own."""
    pieces = array.shards or array.chunks
    extents = [(rows.start, rows.stop), *((0, extent) for extent in array.shape[1:])]
    grid = (range(start // piece, -(-stop // piece)) for (start, stop), piece in zip(extents, pieces, strict=True))
    where = f"rows {rows.start} to {rows.stop - 1}"
    for index in itertools.product(*grid):
        window = tuple(
            slice(max(start, i * piece), min(stop, (i + 1) * piece))
            for i, piece, (start, stop) in zip(index, pieces, extents, strict=True)
        )
        try:
            array[window]
        except Exception as cause:
            where, error = _object(array, index), cause
            break
    if is_checksum_error(error):  # its text is raw bytes
        return f"{array.path}: cannot read {where}: {_CHANGED}"
    return f"{array.path}: cannot read {where}: {one_line(error)}; the object is damaged or out of reach"


def _object(array: zarr.Array[Any], index: tuple[int, ...]) -> str:
    """Name a stored object and its rows."""
    step = stored_rows(array)
    last = min((index[0] + 1) * step, array.shape[0]) - 1
    return f"rows {index[0] * step} to {last} (object {array.path}/{chunk_key(array, index)})"


def _missing_chunk(array: zarr.Array[Any], rows: RowRanges) -> str | None:
    """Name the first chunk of the rows that is not stored: its rows depend on the fill value."""
    if isinstance(array.store, LocalStore) and not array.store.root.is_dir():
        return f"{here()} does not see {array.store.root}; use a shared file system or a URL"
    text = {"S": (b"0", b"1")}.get(array.dtype.kind, ("0", "1"))
    values = (0, 1) if array.dtype.kind in "biuf" else text
    low, high = (_read(array, rows, value) for value in values)
    differs = (low != high) & ~((low != low) & (high != high))  # NaN on both sides is stored
    missing = rows.numbers()[differs.reshape(len(differs), -1).any(axis=1)]
    if not len(missing):
        return None
    chunk = int(missing[0]) // array.chunks[0]
    last = min((chunk + 1) * array.chunks[0], array.shape[0]) - 1
    return (
        f"{array.path}: chunk {chunk} (rows {chunk * array.chunks[0]} to {last}) {MISSING}; "
        "restore it, or, if its writer leaves out chunks that equal the fill value, write them all"
    )
