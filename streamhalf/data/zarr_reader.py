"""Reading Zarr arrays so that a missing chunk is an error and never a fill value.

Zarr returns the fill value for a chunk, or an inner chunk of a shard, that does not exist. Each
array is therefore opened with a fill value of our own that no valid row can hold: what was never
written shows up as an invalid row, wherever it is missing, at no cost to the reading.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from streamhalf.data.block import Reader, RowRange, RowRanges
from streamhalf.data.clients import here
from streamhalf.data.raw_chunks import (
    LARGE_NBYTES,
    has_checksum,
    is_plain,
    prefetch_plain,
    read_decoded,
    read_plain,
    unsound_chunk,
)
from streamhalf.data.remote_store import FarStore
from streamhalf.data.zarr_private import (
    are_whole_shards,
    chunk_key,
    is_checksum_error,
    refill,
    unseen_path,
)
from streamhalf.errors import DataError
from streamhalf.redact import one_line
from streamhalf.retry import retrying

GRID_ROWS = 1024
"""Blocks that need not be whole chunks are cut at multiples of this many rows."""

MISSING = "is missing from the store"
"""What is said of a chunk that is not there."""


def impossible_value(dtype: np.dtype[Any]) -> Any:
    """A value of this dtype that is neither a feature nor a label."""
    if dtype.kind == "f":
        return np.nan
    if dtype.kind == "b":
        return False
    if dtype.kind in "USTO":
        return b"" if dtype.kind == "S" else ""
    info = np.iinfo(dtype)
    return info.min if info.min < -1 else info.max


def stored_rows(array: zarr.Array[Any]) -> int:
    """Rows in the smallest piece that is stored as one object."""
    return int((array.shards or array.chunks)[0])


def unit_of_blocks(array: zarr.Array[Any]) -> int:
    """Rows that blocks are multiples of: of stored objects, or of what is read of large ones.

    Of plain chunks that are any rows, of shards their inner chunks; others are decoded whole.
    """
    rows, row_nbytes = stored_rows(array), math.prod(array.shape[1:]) * array.dtype.itemsize
    if rows * row_nbytes <= LARGE_NBYTES:
        return rows
    return min(rows, GRID_ROWS) if is_plain(array) else int(array.chunks[0])


@dataclass(frozen=True, slots=True, eq=False)
class ZarrReader(Reader):
    """Reads raw rows of two Zarr arrays; without labels, every label is +1 and means nothing.

    With `parts`, no more is read of a plain chunk than is wanted, and the checksum of a chunk is
    looked at only where all of it is read.
    """

    features: zarr.Array[Any]
    labels: zarr.Array[Any] | None
    parts: bool = True

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        """Raw features and labels of rows; what is missing comes as an invalid value."""
        if self.far is not None:
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
        """Say which stored chunk of the rows does not exist, or None if all do."""
        return next(filter(None, (_missing_chunk(array, rows) for array, _ in self._arrays)), None)

    def prefetch(self, rows: RowRanges) -> bool:
        """Have rows brought near without waiting; False where only reading them does that."""
        asked = [
            prefetch_plain(array, rows, parts=parts) or begin_whole(array, rows)
            for array, parts in self._arrays
        ]
        return all(asked)

    @property
    def far(self) -> FarStore | None:
        """The store, where it is not on this machine."""
        store = self.features.store
        return store if isinstance(store, FarStore) else None

    @property
    def unit_rows(self) -> int | None:
        """Rows of a stored chunk or shard, unless a part of it could be read.

        Whether it is (`parts`) makes no difference to which rows a pass takes.
        """
        return None if is_plain(self.features) else stored_rows(self.features)

    @property
    def defers_checks(self) -> bool:
        """Whether parts of chunks are read without a look at their checksums."""
        return any(
            parts and is_plain(array) and has_checksum(array) for array, parts in self._arrays
        )

    @property
    def splits_chunks(self) -> bool:
        """Whether blocks are parts of plain chunks: no pass that reads blocks sees a checksum."""
        array = self.features
        return is_plain(array) and unit_of_blocks(array) < stored_rows(array)

    def check(self, rows: RowRange) -> None:
        """Hold the plain chunks of these rows against their checksums, piece by piece."""
        for array in (self.features, self.labels):
            number = None if array is None else unsound_chunk(array, rows)
            if array is not None and number is not None:
                index = (number, *(0 for _ in array.shape[1:]))
                raise DataError(f"{array.path}: cannot read {_object(array, index)}: {_CHANGED}")

    @property
    def _arrays(self) -> list[tuple[zarr.Array[Any], bool]]:
        """The arrays, and whether parts of their chunks are read.

        Of labels only where a block of features holds whole chunks of them, which are checked then,
        or where all chunks are checked on their own.
        """
        arrays = [(self.features, self.parts)]
        if self.labels is not None:
            whole = stored_rows(self.features) % stored_rows(self.labels) == 0
            arrays.append((self.labels, self.parts and (whole or self.splits_chunks)))
        return arrays


def _read(
    array: zarr.Array[Any], rows: RowRanges, fill_value: Any = None, *, parts: bool = False
) -> NDArray[Any]:
    """Rows, and the fill value (one that no valid row can hold) where there are none stored."""
    try:
        plain = read_plain(array, rows, parts=parts)
        if plain is None:
            plain = read_decoded(array, rows)
    except Exception as error:
        raise DataError(_damage(array, rows.span, error)) from error
    if plain is not None:
        return plain
    value = impossible_value(array.dtype) if fill_value is None else fill_value
    step = array.chunks[0]
    # a chunk is decoded once and whole, also one of a shard; those in between, where no row is
    # wanted, are left alone
    gaps = rows.bounds[1:, 0] // step > (rows.bounds[:-1, 1] - 1) // step + 1
    pieces = rows.grouped(np.cumsum(np.append(0, gaps)))
    decoded = [
        piece.take_from(_decode(array, piece.span, value), piece.span.start) for piece in pieces
    ]
    return decoded[0] if len(decoded) == 1 else np.concatenate(decoded)


def begin_whole(array: zarr.Array[Any], rows: RowRanges) -> bool:
    """Have objects that rows lie in fetched, where they are far and all of them is wanted."""
    store, step = array.store, stored_rows(array)
    if not isinstance(store, FarStore):
        return False
    span = rows.span
    edges = np.arange(span.start // step, -(-span.stop // step), dtype=np.int64) * step
    pieces = rows.cut(edges)
    nbytes = step * math.prod(array.shape[1:]) * array.dtype.itemsize
    columns = [range(-(-extent // piece)) for extent, piece in _across(array)]
    for wanted in pieces.grouped(pieces.bounds[:, 0] // step):
        number = wanted.span.start // step
        complete = wanted.n_rows == min(step, array.shape[0] - number * step)
        # of a shard a part can be read; of any other object all is wanted
        if (
            array.shards is None
            or complete
            or store.chunk_cache.wants_whole(nbytes, nbytes * wanted.n_rows // step)
        ):
            for index in itertools.product([number], *columns):
                key = f"{array.path}/{chunk_key(array, index)}".lstrip("/")
                store.chunk_cache.begin(key, partial(store.fetch, key), nbytes)
    return True


def _across(array: zarr.Array[Any]) -> list[tuple[int, int]]:
    """Extents and stored pieces of all dimensions but that of the rows."""
    return list(zip(array.shape[1:], (array.shards or array.chunks)[1:], strict=True))


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
    grid = (
        range(start // piece, -(-stop // piece))
        for (start, stop), piece in zip(extents, pieces, strict=True)
    )
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
    return (
        f"{array.path}: cannot read {where}: {one_line(error)}; the object is damaged or out of "
        "reach"
    )


_CHANGED = (
    "its checksum does not fit its content, so the object was changed or damaged after it was "
    "written; restore it"
)


def _object(array: zarr.Array[Any], index: tuple[int, ...]) -> str:
    """Words for a stored object."""
    step = stored_rows(array)
    last = min((index[0] + 1) * step, array.shape[0]) - 1
    return f"rows {index[0] * step} to {last} (object {array.path}/{chunk_key(array, index)})"


def _missing_chunk(array: zarr.Array[Any], rows: RowRanges) -> str | None:
    """Name the first chunk of the rows that is not stored; its rows depend on the fill value."""
    if unseen := unseen_path(array):
        return f"{here()} does not see {unseen}; use a shared file system or a URL"
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
