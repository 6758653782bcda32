"""Suspects as a table, and the files that they go to: Zarr, Parquet or CSV."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from streamhalf.data.stores import MARKS, Target
from streamhalf.errors import UsageError
from streamhalf.folders import saying
from streamhalf.names import public_name

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
    "proved": "bool",
}
"""Columns, those that cleanlab has under its names; labels are what they are in the data, except in
Zarr, which has small integers alone: there -1 and +1 stand for other `classes`, named in a mark."""

_LABELS = ("given_label", "predicted_label")

SUFFIXES = (".zarr", ".parquet", ".csv")


@dataclass(frozen=True, slots=True, eq=False)
class SuspectTable:
    """Wrong rows column by column: numbers (n,) int64, labels ±1 int8, margins, proofs.

    `classes` are what the labels -1 and +1 stand for in the data.
    """

    row: NDArray[np.int64]
    labels: NDArray[np.int8]
    margin: NDArray[np.float64]
    proved: NDArray[np.bool_]
    classes: NDArray[Any]

    @classmethod
    def joined(cls, tables: Sequence[SuspectTable]) -> SuspectTable:
        """One after the other."""
        return cls(
            np.concatenate([one.row for one in tables]),
            np.concatenate([one.labels for one in tables]),
            np.concatenate([one.margin for one in tables]),
            np.concatenate([one.proved for one in tables]),
            tables[0].classes,
        )

    def __len__(self) -> int:
        return len(self.row)

    @property
    def given_label(self) -> NDArray[Any]:
        """The labels in the data."""
        return np.asarray(self.classes[(self.labels > 0).astype(np.intp)])

    @property
    def predicted_label(self) -> NDArray[Any]:
        """What the halfspace says: the other class."""
        return np.asarray(self.classes[(self.labels < 0).astype(np.intp)])

    @property
    def is_label_issue(self) -> NDArray[np.bool_]:
        """True: only rows that the halfspace gets wrong are listed."""
        return np.ones(len(self), dtype=np.bool_)

    @property
    def label_score(self) -> NDArray[np.float64]:
        """From 0, most suspicious, to 1/2, on the boundary."""
        return (1 - self.margin) / 2

    def columns(self) -> dict[str, NDArray[Any]]:
        """By name, in the order of the files."""
        return {name: getattr(self, name) for name in _DTYPES}

    def to_frame(self) -> pd.DataFrame:
        """As a data frame, one line for each suspect."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def ranked(self) -> SuspectTable:
        """Largest margin first; of equal ones, the first row."""
        return self.take(np.argsort(-self.margin, kind="stable"))

    def take(self, order: NDArray[np.intp] | slice) -> SuspectTable:
        """Some of the rows, in this order."""
        columns = (self.row[order], self.labels[order], self.margin[order], self.proved[order])
        return SuspectTable(*columns, self.classes)


class Writer(Protocol):
    """Takes tables one after the other."""

    def append(self, table: SuspectTable) -> None:
        """Write some rows after those that are there."""
        ...


def check_file(out: str | os.PathLike[str], *, overwrite: bool) -> str:
    """The ending of a file for rows; refuse one that cannot be written, before any work."""
    text = os.fspath(out)
    name, suffix = public_name(text), os.path.splitext(text.rstrip("/"))[1].lower()
    if suffix not in SUFFIXES:
        raise UsageError(
            f"out: {name} ends in {suffix!r}; expected {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        )
    if "://" in text and suffix != ".zarr":
        raise UsageError(f"out: {name} is a URL; only .zarr goes there, or name a local file")
    if suffix == ".parquet":
        parquet_modules()
    if "://" not in text:
        folder = os.path.dirname(os.path.abspath(text))
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise UsageError(f"out: {name} cannot be written; name a place in a writable folder")
        if suffix != ".zarr" and os.path.isdir(text):
            raise UsageError(f"out: {name} is a folder; name a file")
        if suffix != ".zarr" and os.path.exists(text) and not overwrite:
            raise UsageError(f"out: {name} exists; choose another path or add --overwrite")
    return suffix


@contextlib.contextmanager
def open_suspects(
    out: str | os.PathLike[str],
    marks: Mapping[str, Any],
    *,
    classes: NDArray[Any],
    storage_options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
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
    """
    suffix, text = check_file(out, overwrite=overwrite), os.fspath(out)
    if suffix == ".zarr":
        marks = {**marks, "classes": classes.tolist()}
        target = Target(text, storage_options)
        replaces = target.replaces(overwrite)
        if target.is_remote:
            yield _ZarrWriter.create(target, marks, overwrite=replaces)
            target.mark({"complete": True, **marks})
            return
    with renamed(Path(text).resolve()) as temporary:
        if suffix == ".zarr":
            store = Target(str(temporary))
            yield _ZarrWriter.create(store, marks, overwrite=False)
            store.mark({"complete": True, **marks})
            return
        opened = _CsvWriter(temporary) if suffix == ".csv" else _ParquetWriter(temporary, classes)
        with contextlib.closing(opened) as writer:
            yield writer


@contextlib.contextmanager
def renamed(target: Path) -> Iterator[Path]:
    """A name beside the target, which takes the target's name at the end, or goes."""
    with saying(f"{target}: cannot be written"):
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        yield folder / target.name
        with saying(f"{target}: cannot be written"):
            if target.is_dir():  # a rename replaces files, not stores
                target.rename(folder / "before")
            (folder / target.name).rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, eq=False)
class _ZarrWriter:
    """One array for each column, which grow together."""

    arrays: Mapping[str, zarr.Array[Any]]

    @classmethod
    def create(cls, target: Target, marks: Mapping[str, Any], *, overwrite: bool) -> _ZarrWriter:
        with saying(f"{target.name}: cannot make the store"):
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
                    dtype=dtype,
                    chunks=(_CHUNK_ROWS,),
                    compressors=(Crc32cCodec(),),
                    fill_value=0,
                    dimension_names=("suspect",),
                )
                for name, dtype in _DTYPES.items()
            }
        return cls(arrays)

    def append(self, table: SuspectTable) -> None:
        small = table.classes.dtype.kind in "biu" and np.abs(table.classes).max() < 128
        coded = table if small else replace(table, classes=np.array([-1, 1]))
        for name, values in coded.columns().items():
            self.arrays[name].append(values.astype(_DTYPES[name]))


class _CsvWriter:
    """A line of names, and one for each suspect."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w", encoding="utf-8", newline="\n")  # noqa: SIM115
        self._lines = csv.writer(self._file, lineterminator="\n")
        self._lines.writerow(_DTYPES)

    def append(self, table: SuspectTable) -> None:
        self._lines.writerows(
            zip(*(column.tolist() for column in table.columns().values()), strict=True)
        )

    def close(self) -> None:
        self._file.close()


class _ParquetWriter:
    """A group of rows for each table."""

    def __init__(self, path: Path, classes: NDArray[Any]) -> None:
        self._arrow, parquet = parquet_modules()
        kinds = {"int64": "int64", "int8": "int8", "bool": "bool_", "float64": "float64"}
        of_columns = {name: getattr(self._arrow, kinds[kind])() for name, kind in _DTYPES.items()}
        of_labels = self._arrow.array(classes.tolist()).type
        fields = [(one, of_labels if one in _LABELS else kind) for one, kind in of_columns.items()]
        self._schema = self._arrow.schema(fields)
        self._file = parquet.ParquetWriter(path, self._schema)

    def append(self, table: SuspectTable) -> None:
        self._file.write_table(self._arrow.table(table.columns(), schema=self._schema))

    def close(self) -> None:
        self._file.close()


def parquet_modules() -> tuple[Any, Any]:
    """Both modules of pyarrow, or how to get them."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(
            "out: Parquet needs pyarrow, which is not installed; pip install pyarrow, or choose "
            ".zarr or .csv"
        ) from error
