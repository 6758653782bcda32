"""Reading Zarr arrays so that a missing chunk is an error and never a fill value.

Zarr returns the fill value for a chunk, or an inner chunk of a shard, that does not exist. Each
array is therefore opened with a fill value of our own that no valid row can hold: what was never
written shows up as an invalid row, wherever it is missing, at no cost to the reading.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from streamhalf.data.block import RowRange
from streamhalf.errors import DataError


def one_line(error: BaseException) -> str:
    """The error's text on a single line, without losing its kind."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def refill(array: zarr.Array[Any], fill_value: Any) -> zarr.Array[Any]:
    """The same stored array, read with another fill value."""
    metadata = dataclasses.replace(array.metadata, fill_value=array.dtype.type(fill_value))
    return zarr.Array(
        zarr.AsyncArray(metadata=metadata, store_path=array.store_path, config=array.config)
    )


def impossible_value(dtype: np.dtype[Any]) -> Any:
    """A value of this dtype that is neither a feature nor a label."""
    if dtype.kind == "f":
        return np.nan
    if dtype.kind == "b":
        return False
    info = np.iinfo(dtype)
    return info.min if info.min < -1 else info.max


def stored_rows(array: zarr.Array[Any]) -> int:
    """Rows in the smallest piece that is stored as one object."""
    return int((array.shards or array.chunks)[0])


@dataclass(frozen=True, slots=True, eq=False)
class ZarrReader:
    """Reads raw rows of two Zarr arrays; picklable, so that a task anywhere can read."""

    features: zarr.Array[Any]
    labels: zarr.Array[Any]

    def read(self, rows: RowRange) -> tuple[NDArray[Any], NDArray[Any]]:
        """Raw features and labels of a range of rows; what is missing comes as an invalid value."""
        return self._read(self.features, rows), self._read_labels(rows)

    def find_missing(self, rows: RowRange) -> str | None:
        """Say which stored chunk of the range does not exist, or None if all do."""
        for array in (self.features, self.labels):
            missing = self._missing_rows(array, rows)
            if len(missing):
                first = rows.start + int(missing[0])
                return (
                    f"{array.path}: chunk {first // array.chunks[0]} (rows {first} to "
                    f"{rows.start + int(missing[-1])}) is missing from the store; restore it, or, "
                    "if its writer leaves out chunks that equal the fill value, write them all"
                )
        return None

    def _read(self, array: zarr.Array[Any], rows: RowRange) -> NDArray[Any]:
        filled = refill(array, impossible_value(array.dtype))
        try:
            return np.asarray(filled[rows.start : rows.stop])
        except Exception as error:
            step = stored_rows(array)
            first, last = rows.start // step, (rows.stop - 1) // step
            key = array.metadata.encode_chunk_key((first,) + (0,) * (array.ndim - 1))
            span = f"object {array.path}/{key}" + (f" to chunk {last}" if last > first else "")
            raise DataError(
                f"{array.path}: cannot read rows {rows.start} to {rows.stop - 1} ({span}): "
                f"{one_line(error)}; the object is damaged or out of reach"
            ) from error

    def _read_labels(self, rows: RowRange) -> NDArray[Any]:
        values = self._read(self.labels, rows)
        # a bool has no impossible value: what depends on the fill value was never stored
        if self.labels.dtype.kind == "b" and (missing := self.find_missing(rows)):
            raise DataError(missing)
        return values

    def _missing_rows(self, array: zarr.Array[Any], rows: RowRange) -> NDArray[np.int64]:
        low, high = (np.asarray(refill(array, value)[rows.start : rows.stop]) for value in (0, 1))
        differs = (low != high) & ~((low != low) & (high != high))  # NaN on both sides is stored
        return np.flatnonzero(differs.reshape(len(differs), -1).any(axis=1))
