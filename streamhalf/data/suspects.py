"""Suspects as a table, and the files that they go to: Zarr, Parquet or CSV."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from streamhalf.data.row_files import RowFile, check_file, open_rows, renamed
from streamhalf.data.zarr_writer import MARKS, Target
from streamhalf.paths import storage_errors

if TYPE_CHECKING:
    import pandas as pd

_CHUNK_ROWS = 1 << 16
_DTYPES = {
    "row": "int64",
    "given_label": "int8",
    "predicted_label": "int8",
    "is_label_issue": "bool",
    "label_score": "float64",
    "margin": "float64",
    "agreed": "bool",
    "other_score": "float64",
}
"""Columns, those that cleanlab has under its names; labels are what they are in the data, except in
Zarr, which has small integers alone: there -1 and +1 stand for other `classes`, named in a mark."""

_LABELS = ("given_label", "predicted_label")


@dataclass(frozen=True, slots=True, eq=False)
class SuspectTable:
    """Listed rows: a structured array, and what the labels -1 and +1 stand for in the data.

    `beside` says that another model scored the rows too, `kept` are columns of the user (Arrow).
    """

    rows: NDArray[np.void]
    classes: NDArray[Any]
    beside: bool = False
    kept: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def joined(cls, tables: Sequence[SuspectTable]) -> SuspectTable:
        joined = replace(tables[0], rows=np.concatenate([one.rows for one in tables]))
        if not joined.kept:
            return joined
        from pyarrow import concat_arrays  # an optional dependency

        return replace(joined, kept={name: concat_arrays([one.kept[name] for one in tables]) for name in joined.kept})

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> NDArray[Any]:
        """Return one column, labels as they are in the data."""
        if name in _LABELS:
            given = (self.rows["label"] > 0).astype(np.intp)
            return np.asarray(self.classes[given if name == "given_label" else 1 - given])
        return np.asarray(self.rows[name])

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all columns by name, in the order of the files: those of the user after the number."""
        own = {name: self.column(name) for name in column_names(beside=self.beside)}
        return {"row": own.pop("row"), **self.kept, **own}

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        columns = self.columns() | {name: one.to_pandas() for name, one in self.kept.items()}
        return pd.DataFrame(columns)

    def ranked(self) -> SuspectTable:
        """Return the surest first; of equal ones, the first row."""
        return self.take(np.argsort(-self.rows["suspicion"], kind="stable"))

    def take(self, order: NDArray[np.intp] | slice) -> SuspectTable:
        places = np.arange(len(self))[order]
        return replace(self, rows=self.rows[order], kept={name: one.take(places) for name, one in self.kept.items()})


def column_names(*, beside: bool) -> list[str]:
    """Return the names of the columns, that of another model's score if there is one."""
    return [name for name in _DTYPES if beside or name != "other_score"]


class Writer(Protocol):
    """Takes tables one after the other."""

    def append(self, table: SuspectTable) -> None:
        """Write some rows after those that are there."""
        ...


@contextlib.contextmanager
def open_suspects(
    out: str | os.PathLike[str],
    marks: Mapping[str, Any],
    *,
    classes: NDArray[Any],
    storage_options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    beside: bool = False,
    kept: Mapping[str, Any] | None = None,
) -> Iterator[Writer]:
    """A writer for a path or URL; what it writes appears under its name when all went well.

    Parameters
    ----------
    out
        Path that ends in .zarr, .parquet or .csv, or URL that ends in .zarr.
    marks
        What else a Zarr store is to say of itself.
    classes
        What the labels -1 and +1 stand for.
    storage_options
        For URLs.
    overwrite
        Replace what is there.
    beside
        There are scores of another model too.
    kept
        Columns of the user, no rows of them: not for Zarr.
    """
    suffix, text = check_file(out, overwrite=overwrite), os.fspath(out)
    if suffix == ".zarr":
        marks = {**marks, "classes": classes.tolist()}
        target = Target(text, storage_options)
        replaces = target.replaces(overwrite)
        if target.is_remote:
            yield _ZarrWriter.create(target, marks, overwrite=replaces, beside=beside)
            target.mark({"complete": True, **marks})
            return
    with renamed(Path(text).resolve()) as temporary:
        if suffix == ".zarr":
            store = Target(str(temporary))
            yield _ZarrWriter.create(store, marks, overwrite=False, beside=beside)
            store.mark({"complete": True, **marks})
            return
        kinds = {name: np.empty(0, _DTYPES[name]) for name in column_names(beside=beside)}
        kinds |= dict.fromkeys(_LABELS, classes)
        with open_rows(temporary, {"row": kinds.pop("row"), **(kept or {}), **kinds}) as file:
            yield _FileWriter(file)


@dataclass(frozen=True, slots=True, eq=False)
class _ZarrWriter:
    """One array for each column, which grow together."""

    arrays: Mapping[str, zarr.Array[Any]]

    @classmethod
    def create(cls, target: Target, marks: Mapping[str, Any], *, overwrite: bool, beside: bool) -> _ZarrWriter:
        with storage_errors(f"{target.name}: cannot make the store"):
            group = zarr.create_group(
                target.url,
                zarr_format=3,
                overwrite=overwrite,
                attributes={MARKS: {"complete": False, **marks}},
                storage_options=target.options,
            )
            arrays = {
                name: group.create_array(
                    name,
                    shape=(0,),
                    dtype=_DTYPES[name],
                    chunks=(_CHUNK_ROWS,),
                    compressors=(Crc32cCodec(),),
                    fill_value=0,
                    dimension_names=("suspect",),
                )
                for name in column_names(beside=beside)
            }
        return cls(arrays)

    def append(self, table: SuspectTable) -> None:
        small = table.classes.dtype.kind in "biu" and np.abs(table.classes).max() < 128
        coded = table if small else replace(table, classes=np.array([-1, 1]))
        for name, values in coded.columns().items():
            self.arrays[name].append(values.astype(_DTYPES[name]))


@dataclass(frozen=True, slots=True, eq=False)
class _FileWriter:
    """A line or row for each suspect."""

    file: RowFile

    def append(self, table: SuspectTable) -> None:
        self.file.append(table.columns())
