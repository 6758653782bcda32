"""Files and stores of rows (Zarr, Parquet, CSV): suspects, predictions, the encoded rows of a table."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamhalf.data.block import RowRange
from streamhalf.data.source import Source
from streamhalf.data.zarr_groups import ATTRIBUTE, Column, Target
from streamhalf.errors import DataError, UsageError
from streamhalf.paths import storage_errors
from streamhalf.redact import plural, public_name
from streamhalf.results import Halfspace, to_json

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".zarr", ".parquet", ".csv")
Columns = Mapping[str, NDArray[Any]]


def check_file(out: str | os.PathLike[str], *, overwrite: bool) -> str:
    """The ending of a file for rows; refuse one that cannot be written, before any work."""
    text = os.fspath(out)
    name, suffix = public_name(text), os.path.splitext(text.rstrip("/"))[1].lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"out: {name} ends in {suffix!r}; expected {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if "://" in text and suffix != ".zarr":
        raise UsageError(f"out: {name} is a URL; only .zarr goes there, or name a local file")
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
def open_rows(path: Path, kinds: Columns) -> Iterator[Callable[[Columns], None]]:
    """Open a new file, Parquet or else CSV, for columns like `kinds`; yields what appends rows."""
    if path.suffix.lower() == ".parquet":
        schema = pa.schema([(name, pa.array(kind).type) for name, kind in kinds.items()])
        with pq.ParquetWriter(path, schema) as file:
            yield lambda columns: file.write_table(pa.table(dict(columns), schema=schema))
        return
    with open(path, "w", encoding="utf-8", newline="\n") as text:
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(kinds)
        yield lambda columns: lines.writerows(zip(*(one.tolist() for one in columns.values()), strict=True))


_SUSPECTS_CHUNK_ROWS = 1 << 16
# Columns of suspects, those that cleanlab has under its names; labels are what they are in the data, except in Zarr,
# which has small integers alone: there -1 and +1 stand for other `classes`, named in a mark
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
SUSPECT_COLUMNS = tuple(_DTYPES)


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
        kept = {name: pa.concat_arrays([one.kept[name] for one in tables]) for name in tables[0].kept}
        return replace(tables[0], rows=np.concatenate([one.rows for one in tables]), kept=kept)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns without those of the user."""
        return SUSPECT_COLUMNS if self.beside else SUSPECT_COLUMNS[:-1]

    def column(self, name: str) -> NDArray[Any]:
        """Return one column, labels as they are in the data."""
        if name not in ("given_label", "predicted_label"):
            return np.asarray(self.rows[name])
        given = (self.rows["label"] > 0).astype(np.intp)
        return np.asarray(self.classes[given if name == "given_label" else 1 - given])

    def columns(self) -> dict[str, Any]:
        """Return all columns by name, in the order of the files: those of the user after the number."""
        return {"row": self.column("row"), **self.kept, **{name: self.column(name) for name in self.names[1:]}}

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(self.columns() | {name: one.to_pandas() for name, one in self.kept.items()})

    def ranked(self) -> SuspectTable:
        """Return the surest first; of equal ones, the first row."""
        return self.take(np.argsort(-self.rows["suspicion"], kind="stable"))

    def take(self, order: NDArray[np.intp]) -> SuspectTable:
        return replace(self, rows=self.rows[order], kept={name: one.take(order) for name, one in self.kept.items()})


@contextlib.contextmanager
def open_suspects(
    out: str | os.PathLike[str],
    marks: Mapping[str, Any],
    empty: SuspectTable,
    *,
    storage_options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Iterator[Callable[[SuspectTable], None]]:
    """Open a file, or a Zarr store with these marks, for tables like `empty`; yields what appends one.

    What is written appears under its name when all went well.
    """
    suffix, text = check_file(out, overwrite=overwrite), os.fspath(out)
    if suffix == ".zarr":
        store = Target(text, storage_options)
        if store.is_remote:
            with _open_suspect_store(store, marks, empty, overwrite) as append:
                yield append
            return
        store.replaces(overwrite)
    with renamed(Path(text).resolve()) as temporary:
        if suffix == ".zarr":
            with _open_suspect_store(Target(str(temporary)), marks, empty, False) as append:
                yield append
        else:
            with open_rows(temporary, empty.columns()) as write:
                yield lambda table: write(table.columns())


@contextlib.contextmanager
def _open_suspect_store(
    target: Target, marks: Mapping[str, Any], empty: SuspectTable, overwrite: bool
) -> Iterator[Callable[[SuspectTable], None]]:
    """Make one array for each column, which grow together."""
    marks = {**marks, "classes": empty.classes.tolist()}
    columns = [Column(name, (0,), _SUSPECTS_CHUNK_ROWS, _DTYPES[name], 0, ("suspect",)) for name in empty.names]
    target.create(tuple(columns), marks, overwrite=overwrite)
    arrays = {name: target.array(name) for name in empty.names}
    small = empty.classes.dtype.kind in "biu" and np.abs(empty.classes).max() < 128

    def append(table: SuspectTable) -> None:
        coded = table if small else replace(table, classes=np.array([-1, 1]))
        for name, array in arrays.items():
            array.append(coded.column(name).astype(_DTYPES[name]))

    yield append
    target.mark({"complete": True, **marks})


ARRAY = "prediction"


def create_predictions(target: Target, source: Source, halfspace: Halfspace, *, overwrite: bool = False) -> None:
    """Make an unfinished store with one int8 array; its chunks are the source's blocks."""
    if len(halfspace.normal) != source.dim:
        raise DataError(
            f"{source.name}: {plural(source.dim, 'feature')}, but the model has "
            f"{len(halfspace.normal)}; predict on data with the features the model was fitted on"
        )
    if not np.isfinite([*halfspace.normal, halfspace.offset]).all() or not any(halfspace.normal):
        raise DataError("model: its halfspace must be finite and not all 0; fit again")
    column = Column(ARRAY, (source.n_rows,), source.blocks[0].n_rows, "int8", 0, ("row",))
    target.create((column,), {"fingerprint": source.fingerprint}, overwrite=overwrite)


def write_predictions(target: Target, source: Source, halfspace: Halfspace, rows: RowRange) -> int:
    """Predict and write one block; returns how many rows are predicted +1."""
    predicted = halfspace.plane.signs(source.read(rows).X)
    target.write(ARRAY, rows, predicted)
    return int(np.count_nonzero(predicted > 0))


def finish_predictions(
    target: Target, source: Source, n_positive: int, classes: tuple[bool | int | float | str, ...] = ()
) -> None:
    """Mark the store as complete; `classes` are what -1 and +1 stand for, if something else."""
    marks = {"fingerprint": source.fingerprint, "n_positive": n_positive}
    marks |= {"classes": list(classes)} if classes else {}
    target.finish((ARRAY,), marks)


def write_prediction_table(
    target: Target,
    path: Path,
    source: Source,
    classes: tuple[bool | int | float | str, ...] = (),
    keep: Sequence[str] = (),
) -> None:
    """Write a finished store as CSV or Parquet: kept columns, then the labels of the data.

    Where rows were left out, a column "row" says which are there.
    """
    stored, names = target.array(ARRAY), np.array(classes or (-1, 1))
    step, numbered = stored.chunks[0], len(source.dropped) > 0

    def columns(start: int, stop: int) -> dict[str, Any]:
        rows = np.arange(start, stop)
        found: dict[str, Any] = {"row": source.stored_numbers(rows)} if numbered else {}
        signs = np.asarray(stored[start:stop])
        return found | source.kept_columns(rows, keep) | {ARRAY: names[(signs > 0).astype(np.intp)]}

    with storage_errors(f"{path.name}: cannot be written"), open_rows(path, columns(0, 0)) as append:
        for start in range(0, stored.shape[0], step):
            append(columns(start, min(start + step, stored.shape[0])))


_CHUNK_ROWS, _CHUNK_NBYTES = 1 << 18, 64 << 20


def chunks_for(source: Source) -> tuple[RowRange, ...]:
    """Return the chunks of a store for rows: 64 MiB at most, read and written by one task each."""
    row_nbytes = source.dim * np.dtype(source.working_dtype).itemsize
    rows = max(1, min(_CHUNK_ROWS, _CHUNK_NBYTES // row_nbytes, source.n_rows))
    return RowRange(0, source.n_rows).split(rows)


def create_converted(target: Target, source: Source, *, overwrite: bool) -> None:
    """Make an empty, unfinished store for the rows."""
    step = chunks_for(source)[0].n_rows
    shape, dtype = (source.n_rows, source.dim), str(source.working_dtype)
    columns = (
        Column("X", shape, step, dtype, math.nan, ("row", "feature")),
        Column("y", (source.n_rows,), step, "int8", 0, ("row",)),
    )
    target.create(columns, {}, overwrite=overwrite)


def write_converted(target: Target, source: Source, rows: RowRange) -> int:
    """Encode and write one chunk; returns how many labels are +1."""
    block = source.read(rows)
    target.write("X", rows, block.X)
    target.write("y", rows, block.y)
    return int(np.count_nonzero(block.y > 0))


def finish_converted(target: Target, source: Source) -> None:
    """Mark the store as complete, with the encoding, the classes and the names of features."""
    marks = {"encoding": to_json(source.encoding), "classes": list(source.schema.label_values), "source": source.name}
    target.finish(("X", "y"), marks)
    with storage_errors(f"{target.name}: cannot name the features", target):
        target.group().attrs[ATTRIBUTE] = list(source.feature_names)
