"""Files that rows are written to piece by piece: where they may go, CSV and Parquet."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from streamhalf.errors import UsageError
from streamhalf.paths import storage_errors
from streamhalf.redact import public_name

SUFFIXES = (".zarr", ".parquet", ".csv")

Columns = Mapping[str, NDArray[Any]]


class RowFile(Protocol):
    """Takes columns of one length, one piece after the other."""

    def append(self, columns: Columns) -> None:
        """Write some rows after those that are there."""
        ...


def check_file(out: str | os.PathLike[str], *, overwrite: bool) -> str:
    """The ending of a file for rows; refuse one that cannot be written, before any work."""
    text = os.fspath(out)
    name, suffix = public_name(text), os.path.splitext(text.rstrip("/"))[1].lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"out: {name} ends in {suffix!r}; expected {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
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
def renamed(target: Path) -> Iterator[Path]:
    """A name beside the target, which takes the target's name at the end, or goes."""
    with storage_errors(f"{target}: cannot be written"):
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        yield folder / target.name
        with storage_errors(f"{target}: cannot be written"):
            if target.is_dir():  # a rename replaces files, not stores
                target.rename(folder / "before")
            (folder / target.name).rename(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def open_rows(path: Path, kinds: Columns) -> Iterator[RowFile]:
    """A new file, Parquet or else CSV, for columns of these names and kinds of values."""
    opened = _ParquetFile if path.suffix.lower() == ".parquet" else _CsvFile
    with contextlib.closing(opened(path, kinds)) as file:
        yield file


class _CsvFile:
    """A line of names, and one for each row."""

    def __init__(self, path: Path, kinds: Columns) -> None:
        self._file = open(path, "w", encoding="utf-8", newline="\n")  # noqa: SIM115
        self._lines = csv.writer(self._file, lineterminator="\n")
        self._lines.writerow(kinds)

    def append(self, columns: Columns) -> None:
        self._lines.writerows(zip(*(one.tolist() for one in columns.values()), strict=True))

    def close(self) -> None:
        self._file.close()


class _ParquetFile:
    """A group of rows for each piece."""

    def __init__(self, path: Path, kinds: Columns) -> None:
        self._arrow, parquet = parquet_modules()
        fields = [(name, self._arrow.array(kind).type) for name, kind in kinds.items()]
        self._schema = self._arrow.schema(fields)
        self._file = parquet.ParquetWriter(path, self._schema)

    def append(self, columns: Columns) -> None:
        self._file.write_table(self._arrow.table(dict(columns), schema=self._schema))

    def close(self) -> None:
        self._file.close()


def parquet_modules() -> tuple[Any, Any]:
    """Both modules of pyarrow, or how to get them."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(
            "out: Parquet needs pyarrow, which is not installed; pip install pyarrow, or choose .zarr or .csv"
        ) from error
