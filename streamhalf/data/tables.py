"""Tables of named columns in pieces of rows: Arrow, Parquet, CSV, Dask DataFrames.

A piece is read as an Arrow table with the columns that are wanted: a row group of Parquet, a block
of CSV lines, a partition of a Dask DataFrame, or rows in memory.
"""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamhalf.data.clients import compute_on, here, holding_client
from streamhalf.data.kinds import TABLE_SUFFIXES, is_dask_frame, is_pandas
from streamhalf.errors import DataError, UsageError
from streamhalf.redact import denial, one_line, plural, printable, public_name, without_secrets

_CSV_NBYTES = 16 << 20
"""Bytes of a block of CSV lines."""

_SLICE_ROWS = 1 << 18
_NULLS = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "<NA>", "?")
_SEPARATORS = ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"))


class Table(Protocol):
    """Columns by name in pieces of rows; picklable."""

    @property
    def name(self) -> str:
        """Return the path, URL or kind."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        ...

    @property
    def faults(self) -> Mapping[str, str]:
        """Return why columns cannot be read, by column."""
        ...

    @property
    def n_pieces(self) -> int:
        """Return the number of pieces."""
        ...

    @property
    def n_rows(self) -> int:
        """Return the number of rows, an estimate where they must be read to be counted."""
        ...

    def read(self, piece: int, columns: Sequence[str]) -> pa.Table:
        """Return these columns of a piece."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ArrowTable:
    """A table in memory."""

    name: str
    table: pa.Table
    faults: Mapping[str, str] = field(default_factory=dict)
    rows_per_piece: int = _SLICE_ROWS

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return (*self.table.column_names, *self.faults)

    @property
    def n_pieces(self) -> int:
        """Return the number of slices."""
        return max(1, -(-int(self.table.num_rows) // self.rows_per_piece))

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.table.num_rows)

    def read(self, piece: int, columns: Sequence[str]) -> pa.Table:
        """Return a slice of the columns."""
        rows = self.table.select(list(columns))
        return rows.slice(piece * self.rows_per_piece, self.rows_per_piece)


@dataclass(frozen=True, slots=True)
class Files:
    """Where the files of a table are: on this machine, or on a storage that fsspec knows."""

    name: str
    protocol: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, url: str, options: Mapping[str, Any] | None) -> Files:
        """Return the storage of a path or URL."""
        protocol, mark, _ = url.partition("://")
        if not mark or protocol in ("file", "local"):
            return cls(public_name(url))
        return cls(public_name(url), protocol, dict(options or {}))

    @property
    def system(self) -> Any:
        """Return the fsspec filesystem, None for this machine."""
        if not self.protocol:
            return None
        try:
            import fsspec
        except ImportError as error:
            raise UsageError(
                f"{self.name}: a table at a URL needs fsspec; install streamhalf[object-storage]"
            ) from error
        return fsspec.filesystem(self.protocol, **self.options)

    def path(self, url: str) -> str:
        """Return a path as the storage takes it; absolute, for workers live in other folders."""
        if self.protocol:
            return str(self.system._strip_protocol(url))
        return os.path.abspath(url.removeprefix("file://").removeprefix("local://"))

    def expand(self, path: str) -> list[str]:
        """Return the files of a folder or a glob in the order of their names; [] if there are none.

        Names that begin with a dot or an underscore are left out.
        """
        system = self.system
        if _is_glob(path):
            found = glob.glob(path, recursive=True) if system is None else system.glob(path)
            inner = [one for path in sorted(map(str, found)) for one in self._within(path)]
        else:
            inner = self._within(path)
        shown = [one for one in inner if not os.path.basename(one).startswith((".", "_"))]
        return [one for one in shown if one.lower().endswith(TABLE_SUFFIXES)]

    def _within(self, path: str) -> list[str]:
        system = self.system
        if system is not None:
            return sorted(system.find(path)) if system.isdir(path) else [path] * system.exists(path)
        if not os.path.isdir(path):
            return [path] * os.path.exists(path)
        names = (os.path.join(at, file) for at, _, files in os.walk(path) for file in files)
        return sorted(names)

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return int(self.system.size(path) if self.protocol else os.path.getsize(path))

    def open(self, path: str) -> Any:
        """Open a file for reading."""
        return self.system.open(path, "rb") if self.protocol else open(path, "rb")

    def error(self, error: Exception, what: str = "not a readable table") -> Exception:
        """Return the error to raise for a failure of the storage or the format."""
        if isinstance(error, DataError | UsageError):
            return error
        if denied := denial(error, f"{self.protocol}://" if self.protocol else "", self.options):
            return DataError(f"{self.name}: {denied}")
        if isinstance(error, FileNotFoundError):
            return DataError(
                f"{self.name}: {here()} does not see {without_secrets(one_line(error), self.name)};"
                " use a shared file system or a URL"
            )
        return DataError(f"{self.name}: {what}: {without_secrets(one_line(error), self.name)}")


@dataclass(frozen=True, slots=True)
class _RowGroup:
    path: str
    number: int
    n_rows: int
    keys: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ParquetTable:
    """Row groups of Parquet files; values of hive partitions are columns."""

    files: Files
    groups: tuple[_RowGroup, ...]
    columns: tuple[str, ...]
    faults: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, files: Files, paths: Sequence[str], root: str) -> ParquetTable:
        """Read the footers of the files."""
        groups: list[_RowGroup] = []
        columns: dict[str, None] = {}
        for path in paths:
            keys = _partition_keys(path, root)
            try:
                metadata = _parquet_file(files, path).metadata
            except Exception as error:
                raise files.error(error) from error
            names = [str(name) for name in metadata.schema.to_arrow_schema().names]
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise DataError(f"{files.name}: {_duplicate(twice)}")
            if columns and not columns.keys() >= set(names) | {key for key, _ in keys}:
                new = next(name for name in names if name not in columns)
                raise DataError(
                    f"{files.name}: {os.path.basename(path)} has a column {new!r} that files "
                    "before it lack; give files with the same columns"
                )
            columns |= dict.fromkeys([*names, *(key for key, _ in keys)])
            for number in range(metadata.num_row_groups):
                n_rows = metadata.row_group(number).num_rows
                if n_rows:
                    groups.append(_RowGroup(path, number, n_rows, keys))
        return cls(files, tuple(groups), tuple(columns))

    @property
    def name(self) -> str:
        """Return the path or URL."""
        return self.files.name

    @property
    def n_pieces(self) -> int:
        """Return the number of row groups."""
        return len(self.groups)

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return sum(group.n_rows for group in self.groups)

    def read(self, piece: int, columns: Sequence[str]) -> pa.Table:
        """Read columns of a row group."""
        group = self.groups[piece]
        keys = dict(group.keys)
        try:
            stored = [name for name in columns if name not in keys]
            file = _parquet_file(self.files, group.path)
            found = file.read_row_group(group.number, columns=stored, use_threads=False)
            if found.num_rows != group.n_rows and stored:
                raise ValueError(f"{group.path} changed after it was opened")
            for name in columns:
                if name in keys:
                    found = found.append_column(name, pa.repeat(pa.scalar(keys[name]), group.n_rows))
            return found.select(list(columns))
        except Exception as error:
            what = f"cannot read row group {group.number} of {os.path.basename(group.path)}"
            raise self.files.error(error, what) from error


def _parquet_file(files: Files, path: str) -> pq.ParquetFile:
    if not files.protocol:
        return pq.ParquetFile(path, memory_map=False, pre_buffer=False)
    return pq.ParquetFile(files.open(path), pre_buffer=True)


def _partition_keys(path: str, root: str) -> tuple[tuple[str, Any], ...]:
    """Return the keys of hive partitions in a path below the root: a=1/b=x."""
    inner = os.path.dirname(path.removeprefix(root)).split("/")
    pairs = (part.partition("=") for part in inner if "=" in part)
    return tuple((key, _partition_value(value)) for key, _, value in pairs)


def _partition_value(text: str) -> Any:
    if text == "__HIVE_DEFAULT_PARTITION__":
        return None
    try:
        return int(text)
    except ValueError:
        from urllib.parse import unquote

        return unquote(text)


@dataclass(frozen=True, slots=True)
class _Lines:
    """A block of whole lines of a CSV file."""

    path: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class CsvTable:
    """Blocks of lines of CSV files with the same header; `kinds` are types that are settled."""

    files: Files
    blocks: tuple[_Lines, ...]
    columns: tuple[str, ...]
    n_rows: int
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, files: Files, paths: Sequence[str], root: str) -> CsvTable:
        """Read the headers, and cut the files at ends of lines."""
        blocks: list[_Lines] = []
        header: tuple[str, ...] = ()
        try:
            for path in paths:
                with files.open(path) as file:
                    names, start = _read_header(files, file)
                    if header and names != header:
                        raise DataError(
                            f"{files.name}: {os.path.basename(path)} has other columns than the "
                            "files before it; give files with the same header"
                        )
                    header = names
                    blocks += _cut_lines(file, path, start, files.size(path))
        except Exception as error:
            raise files.error(error) from error
        table = cls(files, tuple(blocks), header, 0)
        if not blocks:
            return table
        first = table.read(0, header)
        nbytes = sum(block.stop - block.start for block in blocks)
        each = (blocks[0].stop - blocks[0].start) / max(1, first.num_rows)
        return cls(files, tuple(blocks), header, round(nbytes / each))

    @property
    def name(self) -> str:
        """Return the path or URL."""
        return self.files.name

    @property
    def n_pieces(self) -> int:
        """Return the number of blocks of lines."""
        return len(self.blocks)

    def read(self, piece: int, columns: Sequence[str]) -> pa.Table:
        """Parse columns of a block of lines."""
        import pyarrow.csv as csv

        lines = self.blocks[piece]
        if not columns:
            columns = self.columns[:1]
        try:
            with self.files.open(lines.path) as file:
                file.seek(lines.start)
                text = file.read(lines.stop - lines.start)
            return csv.read_csv(
                io.BytesIO(text),
                read_options=csv.ReadOptions(
                    use_threads=False, column_names=list(self.columns), block_size=len(text) + 1
                ),
                parse_options=csv.ParseOptions(newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types=dict(self.kinds),
                    null_values=list(_NULLS),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
        except UnicodeDecodeError as error:
            raise DataError(_not_utf8(self.name)) from error
        except pa.ArrowInvalid as error:
            if "UTF8" in str(error):
                raise DataError(_not_utf8(self.name)) from error
            raise self.files.error(error) from error
        except Exception as error:
            raise self.files.error(error) from error

    def settled(self, names: Sequence[str]) -> CsvTable | None:
        """Return the table with these columns read as text; None if there are none of them."""
        if not names:
            return None
        return replace(self, kinds={**self.kinds, **dict.fromkeys(names, pa.string())})


def _not_utf8(name: str) -> str:
    return (
        f"{name}: not UTF-8 text; save it as UTF-8, or read it with pandas "
        "(pandas.read_csv(..., encoding='latin-1')) and give the data frame"
    )


def _read_header(files: Files, file: Any) -> tuple[tuple[str, ...], int]:
    """Return the names of the columns, and where the rows begin."""
    import csv

    line = file.readline(1 << 20)
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(_not_utf8(files.name)) from error
    names = tuple(name.strip() for name in next(csv.reader([text.rstrip("\r\n")]), []))
    if not names:
        raise DataError(f"{files.name}: no rows and no names of columns; give a file with rows")
    if len(names) == 1:
        for mark, called in _SEPARATORS:
            if mark in names[0]:
                raise DataError(
                    f"{files.name}: one column, {printable(names[0])!r}, whose name has {called}; "
                    "columns must be separated by commas: save it so, or read it with pandas "
                    f"(pandas.read_csv(..., sep={mark!r})) and give the data frame"
                )
    # an index without a name, as pandas and R write it
    named = tuple(name or f"column {j + 1}" for j, name in enumerate(names))
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise DataError(f"{files.name}: {_duplicate(twice)}")
    return named, len(line)


def open_files(url: str, options: Mapping[str, Any] | None) -> Table | None:
    """Open the tables at a path, URL, folder or glob; None where there are none."""
    files = Files.of(url, options)
    try:
        path = files.path(url)
        found = files.expand(path)
    except Exception as error:
        raise files.error(error) from error
    if not found:
        return None
    kinds = {one.lower().endswith(".csv") for one in found}
    if len(kinds) > 1:
        raise DataError(f"{files.name}: CSV and Parquet files together; keep one kind")
    opened: Any = CsvTable if kinds.pop() else ParquetTable
    table: Table = opened.open(files, found, path.split("*")[0])
    return table


def to_table(data: Any, name: str = "DataFrame") -> Table:
    """Return a frame as a table: pandas, Dask, Polars, or what gives Arrow streams."""
    if is_dask_frame(data):
        _refuse_duplicates(name, map(str, data.columns))
        return DaskTable(name, data)
    if is_pandas(data):
        _refuse_duplicates(name, map(str, data.columns))
        faults: dict[str, str] = {}
        return ArrowTable(name, frame_to_arrow(data, faults), faults)
    lazy = not hasattr(data, "__arrow_c_stream__")
    table = pa.table(data.collect() if lazy else data)
    _refuse_duplicates(name, table.column_names)
    return ArrowTable(name, table)


def _refuse_duplicates(name: str, columns: Iterable[str]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise DataError(f"{name}: {_duplicate(column)}")
        seen.add(column)


def _duplicate(name: str) -> str:
    return f"two columns are called {name!r}; give each a name of its own"


def _cut_lines(file: Any, path: str, start: int, size: int) -> list[_Lines]:
    """Cut a file into blocks at line ends that are not within quotes."""
    blocks = []
    file.seek(start)
    held, quotes, at, begun = 0, 0, start, start
    while piece := file.read(_CSV_NBYTES):
        ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n"))
        marks = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord('"'))
        outside = ends[(np.searchsorted(marks, ends) + quotes) % 2 == 0]
        quotes += len(marks)
        if len(outside):
            stop = at + int(outside[-1]) + 1
            blocks.append(_Lines(path, begun, stop))
            begun = stop
        at += len(piece)
        held += 1
    if begun < at:
        blocks.append(_Lines(path, begun, at))
    return [block for block in blocks if block.stop > block.start]


@dataclass(frozen=True, slots=True, eq=False)
class DaskTable:
    """Partitions of a Dask DataFrame; `client` holds them where they are persisted."""

    name: str
    frame: Any
    faults: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(map(str, self.frame.columns))

    @property
    def n_pieces(self) -> int:
        """Return the number of partitions."""
        return int(self.frame.npartitions)

    @property
    def n_rows(self) -> int:
        """Return 0: partitions are counted when they are surveyed."""
        return 0

    def read(self, piece: int, columns: Sequence[str]) -> pa.Table:
        """Compute a partition."""
        chosen = self.select(columns).partitions[piece]
        (found,) = compute_on(holding_client(chosen), chosen)
        return frame_to_arrow(found)

    def select(self, columns: Sequence[str]) -> Any:
        """Return the columns as a Dask DataFrame."""
        own = {str(name): name for name in self.frame.columns}
        return self.frame[[own[name] for name in columns]]


def _is_glob(path: str) -> bool:
    return any(mark in path for mark in "*?[")


def frame_to_arrow(frame: Any, faults: dict[str, str] | None = None) -> pa.Table:
    """Return a pandas DataFrame as an Arrow table; columns that do not fit go to `faults`."""
    columns: dict[str, Any] = {}
    for i, name in enumerate(map(str, frame.columns)):
        series = frame.iloc[:, i]
        try:
            columns[name] = series_to_arrow(series)
        except (DataError, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            if faults is None:
                raise DataError(f"column {name!r}: {one_line(error)}") from error
            faults[name] = str(error) if isinstance(error, DataError) else _mixed(series, error)
    return pa.table(columns)


def series_to_arrow(series: Any) -> Any:
    """Return a pandas Series as an Arrow array."""
    if str(series.dtype).startswith("Sparse"):
        raise DataError(f"dtype {series.dtype}; rows are read dense: frame.sparse.to_dense()")
    if series.dtype.kind in "biuf" and isinstance(series.dtype, np.dtype):
        return pa.array(series.to_numpy())
    if str(series.dtype).startswith(("period", "interval")):
        series = series.astype(str)
    return pa.array(series, from_pandas=True)


def _mixed(series: Any, error: Exception) -> str:
    """Say what is in a column of objects of several types."""
    import pandas as pd

    cells = series.dropna().reset_index(drop=True)
    kinds = cells.map(type)
    named = ", ".join(f"{kind.__name__}" for kind in dict.fromkeys(kinds))
    numbers = pd.to_numeric(cells, errors="coerce")
    stray = cells[numbers.isna()]
    if 0 < len(stray) < len(cells) / 2:
        return stray_words(stray.iloc[0], int(stray.index[0]), len(stray))
    if kinds.nunique() > 1:
        return f"holds values of several types ({named}); give it one type, or drop it"
    return f"cannot be read ({one_line(error)}); convert or drop it"


def stray_words(value: Any, row: int, n: int) -> str:
    """Say which cell of a column of numbers is text."""
    return (
        f"holds text among numbers: {printable(str(value))!r} in row {row} (counting from 0; "
        f"{plural(n, 'such cell')}); mend it or remove these rows"
    )
