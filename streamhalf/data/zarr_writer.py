"""Writers of Zarr stores: nothing is overwritten unasked, unfinished stores are marked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec
from zarr.errors import NodeNotFoundError

from streamhalf.data.block import RowRange
from streamhalf.data.zarr_groups import AccessCheck
from streamhalf.errors import DataError, UsageError
from streamhalf.paths import Address, retrying, storage_errors
from streamhalf.redact import one_line

MARKS = "streamhalf"
"""Group attribute with what the store is, and if it is complete."""

_METADATA = ("zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata")


@dataclass(frozen=True, slots=True)
class Column:
    """An array to be written in chunks of rows; `fill_value` is no valid value."""

    name: str
    shape: tuple[int, ...]
    chunk_rows: int
    dtype: str
    fill_value: float
    dimensions: tuple[str, ...]


class Target(Address):
    """Where a store is written; picklable, so that tasks anywhere can write to it."""

    __slots__ = ()

    def create(self, columns: tuple[Column, ...], marks: Mapping[str, Any], *, overwrite: bool) -> None:
        """Make an empty, unfinished Zarr v3 store.

        Floats hardly compress, so chunks are stored as they are, with a checksum; the fill values
        are no valid rows, so a chunk that was never written is seen.
        """
        replaces = self.replaces(overwrite)
        try:
            if not self.is_remote:
                os.makedirs(self.url, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{self.name}: no store can be made here ({error.strerror}); choose a path in a "
                "folder that you may write to"
            ) from error
        with storage_errors(f"{self.name}: cannot make the store", self):
            group = zarr.create_group(
                self.url,
                zarr_format=3,
                overwrite=replaces,
                attributes={MARKS: {"complete": False, **marks}},
                storage_options=self.options or None,
            )
            for column in columns:
                group.create_array(
                    column.name,
                    shape=column.shape,
                    dtype=column.dtype,
                    chunks=(column.chunk_rows, *column.shape[1:]),
                    compressors=(Crc32cCodec(),),
                    fill_value=column.fill_value,
                    dimension_names=column.dimensions,
                )

    def group(self, mode: Literal["r", "r+"] = "r+") -> zarr.Group:
        """Open the store that was made here."""
        return zarr.open_group(self.url, mode=mode, storage_options=self.options or None)

    def access_check(self) -> AccessCheck:
        group = self.group("r")
        return AccessCheck(group.store, group.path)

    def array(self, name: str) -> zarr.Array[Any]:
        with storage_errors(f"{self.name}: cannot open its array {name}", self):
            return retrying(
                lambda: zarr.open_array(self.url, path=name, mode="r+", storage_options=self.options or None)
            )

    def write(self, name: str, rows: RowRange, values: NDArray[Any]) -> None:
        """Write a range of rows of one array; whole chunks, so that writing again is harmless."""
        array = self.array(name)
        with storage_errors(f"{self.name}: cannot write rows {rows.start} to {rows.stop - 1} of {name}", self):
            retrying(lambda: array.__setitem__(slice(rows.start, rows.stop), values))

    def finish(self, names: tuple[str, ...], marks: Mapping[str, Any]) -> None:
        """Mark a store whose chunks all exist as complete, and record what it is."""
        for name in names:
            array = self.array(name)
            with storage_errors(f"{self.name}: cannot list the chunks of {name}", self):
                n_written: int = retrying(partial(getattr, array, "nchunks_initialized"))
            if n_written != array.nchunks:
                raise DataError(
                    f"{self.name}: {n_written} of {array.nchunks} chunks of {name} were written; "
                    "write the rest before finishing the store"
                )
        with storage_errors(f"{self.name}: cannot mark the store as complete", self):
            retrying(lambda: self.mark({"complete": True, **marks}))

    def mark(self, marks: Mapping[str, Any]) -> None:
        self.group().attrs[MARKS] = dict(marks)

    def replaces(self, overwrite: bool) -> bool:
        """Return True if a store is here and may be replaced; refuse what may not.

        Zarr's own overwriting empties any directory or prefix, so it is used on Zarr stores alone.
        """
        try:
            found = zarr.open(self.url, mode="r", storage_options=self.options or None)
        except (NodeNotFoundError, FileNotFoundError) as error:
            if os.path.isfile(self.url) or (os.path.isdir(self.url) and os.listdir(self.url)):
                raise UsageError(
                    f"{self.name}: exists and is not a Zarr store, so --overwrite does not apply; "
                    "choose another path or remove it"
                ) from error
            return False
        except ImportError as error:
            raise UsageError(f"{self.name}: {error}; install streamhalf[object-storage]") from error
        except Exception as error:
            if denied := self.denial(error):
                raise UsageError(f"{self.name}: {denied}") from error
            raise UsageError(
                f"{self.name}: cannot tell what is here ({one_line(error)}); choose another path"
            ) from error
        if not overwrite:
            raise UsageError(f"{self.name}: a store exists here; choose another path or add --overwrite")
        if isinstance(found, zarr.Group) and (foreign := _foreign_entry(self.url)):
            raise UsageError(
                f"{self.name}: holds {foreign!r}, which is no part of a Zarr store, and would be "
                "lost; choose another path or move it away"
            )
        return True


def _foreign_entry(url: str) -> str | None:
    """Return a file or folder in a Zarr group on this machine that Zarr did not make."""
    if "://" in url:
        return None
    with os.scandir(url) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir():
            if not any(os.path.exists(os.path.join(entry.path, name)) for name in _METADATA):
                return entry.name
        elif entry.name not in (*_METADATA, ".DS_Store"):
            return entry.name
    return None
