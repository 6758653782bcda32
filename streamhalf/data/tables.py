"""Tables of named columns in pieces of rows: Arrow, Parquet, CSV, Dask DataFrames.

A piece is read as an Arrow table with the columns that are wanted: a row group of Parquet, a block
of CSV lines, a partition of a Dask DataFrame, or rows in memory.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any
from urllib.parse import unquote

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from streamhalf.data.clients import compute_on, here, holding_client
from streamhalf.data.kinds import TABLE_SUFFIXES, is_dask_frame, is_pandas
from streamhalf.errors import DataError, ListingError, UsageError
from streamhalf.redact import denial, one_line, plural, printable, public_name, without_secrets

_CSV_NBYTES = 16 << 20  # Bytes of a block of CSV lines
_SLICE_ROWS, _BATCH_ROWS = 1 << 18, 1 << 13
_MOST_LINE, _MOST_PACKED = 1 << 20, 256 << 20
# Texts that stand for a value that is missing
GAPS = ("", "-", "--", ".", "?", "NA", "N/A", "n/a", "na", "n.a.", "NaN", "nan", "null", "NULL", "None", "#N/A", "<NA>")
_NULLS = [one for one in GAPS if one not in ("-", "--", ".")]  # Those that are so in any column; labels may be + and -


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Table:
    """Columns by name in pieces of rows; picklable.

    `n_rows` is an estimate, or 0, where rows must be read to be counted; `faults` say by column why
    one cannot be read.
    """

    name: str
    columns: tuple[str, ...]
    n_pieces: int
    n_rows: int = 0
    faults: Mapping[str, str] = field(default_factory=dict)

    def read(self, piece: int, columns: Sequence[str], first: int | None = None) -> pa.Table:
        """Return these columns of a piece, of its `first` rows at least."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ArrowTable(Table):
    """A table in memory, in slices of its rows."""

    table: pa.Table

    def read(self, piece: int, columns: Sequence[str], first: int | None = None) -> pa.Table:
        return self.table.select(list(columns)).slice(piece * _SLICE_ROWS, _SLICE_ROWS)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DaskTable(Table):
    """Partitions of a Dask DataFrame."""

    frame: Any

    def read(self, piece: int, columns: Sequence[str], first: int | None = None) -> pa.Table:
        chosen = self.select(columns).partitions[piece]
        (found,) = compute_on(holding_client(chosen), chosen)
        return frame_to_arrow(found)

    def select(self, columns: Sequence[str]) -> Any:
        own = {str(name): name for name in self.frame.columns}
        return self.frame[[own[name] for name in columns]]


@dataclass(frozen=True, slots=True)
class Files:
    """The storage of a table's files, by fsspec's protocol."""

    name: str
    protocol: str = "file"
    # a cluster's logs show the arguments of tasks; secrets must not be among them
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str, options: Mapping[str, Any] | None) -> Files:
        protocol, mark, _ = url.partition("://")
        if not mark or protocol in ("file", "local"):
            return cls(public_name(url))
        return cls(public_name(url), protocol, dict(options or {}))

    @property
    def is_local(self) -> bool:
        return self.protocol == "file"

    @property
    def system(self) -> Any:
        try:
            return fsspec.filesystem(self.protocol, **self.options)
        except ImportError as error:
            raise UsageError(f"{self.name}: {one_line(error)}; install streamhalf[object-storage]") from error

    def expand(self, url: str) -> tuple[str, list[str]]:
        """Return the root and the tables of a file, folder or glob in the order of their names.

        Names that begin with a dot or an underscore are left out.
        """
        system = self.system
        path = str(system._strip_protocol(url))
        globbed = any(mark in path for mark in "*?[")
        found = [
            file
            for one in (sorted(system.glob(path)) if globbed else [path])
            for file in (sorted(system.find(one)) if system.isdir(one) else [one] * system.exists(one))
        ]
        shown = (one for one in found if not os.path.basename(one).startswith((".", "_")))
        return path.split("*")[0], [one for one in shown if one.lower().endswith(TABLE_SUFFIXES)]

    def open(self, path: str) -> Any:
        return open(path, "rb") if self.is_local else self.system.open(path, "rb")

    def error(self, error: Exception, what: str = "not a readable table") -> Exception:
        if isinstance(error, DataError | UsageError):
            return error
        if denied := denial(error, "" if self.is_local else f"{self.protocol}://", self.options):
            return DataError(f"{self.name}: {denied}")
        told = without_secrets(one_line(error), self.name)
        if isinstance(error, FileNotFoundError):
            return DataError(f"{self.name}: {here()} does not see {told}; use a shared file system or a URL")
        return DataError(f"{self.name}: {what}: {told}")


@dataclass(frozen=True, slots=True)
class _RowGroup:
    path: str
    number: int
    n_rows: int
    keys: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParquetTable(Table):
    """Row groups of Parquet files with the same columns, and the keys of hive partitions."""

    files: Files
    groups: tuple[_RowGroup, ...]

    @classmethod
    def open(cls, files: Files, paths: Sequence[str], root: str) -> ParquetTable:
        groups: list[_RowGroup] = []
        columns: dict[str, None] = {}
        for path, keys in _partition_keys(paths, root).items():
            try:
                metadata = _open_parquet(files, path).metadata
            except Exception as error:
                raise files.error(error) from error
            names = _distinct(files.name, metadata.schema.to_arrow_schema().names)
            own = dict.fromkeys([*names, *keys])
            if columns and not columns.keys() >= own.keys():
                new = next(name for name in own if name not in columns)
                raise DataError(
                    f"{files.name}: {os.path.basename(path)} has a column {new!r} that files "
                    "before it lack; give files with the same columns"
                )
            columns |= own
            rows = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
            groups += [_RowGroup(path, number, n_rows, keys) for number, n_rows in enumerate(rows) if n_rows]
        n_rows = sum(group.n_rows for group in groups)
        return cls(
            name=files.name,
            columns=tuple(columns),
            n_pieces=len(groups),
            n_rows=n_rows,
            files=files,
            groups=tuple(groups),
        )

    def read(self, piece: int, columns: Sequence[str], first: int | None = None) -> pa.Table:
        group = self.groups[piece]
        stored = [name for name in columns if name not in group.keys]
        try:
            file = _open_parquet(self.files, group.path)
            if first is None or first >= group.n_rows or not stored:
                found = file.read_row_group(group.number, columns=stored, use_threads=False)
            else:  # pages that are not wanted are not decoded
                batches: list[pa.RecordBatch] = []
                rest = file.iter_batches(_BATCH_ROWS, [group.number], stored, use_threads=False)
                while sum(map(len, batches)) < first and (batch := next(rest, None)) is not None:
                    batches.append(batch)
                found = pa.Table.from_batches(batches)
            n_rows = found.num_rows if stored else group.n_rows
            if n_rows < min(group.n_rows, first or group.n_rows):
                raise ValueError(f"{group.path} changed after it was opened")
            for name in group.keys.keys() & set(columns):
                found = found.append_column(name, pa.repeat(pa.scalar(group.keys[name]), n_rows))
            return found.select(list(columns))
        except Exception as error:
            what = f"cannot read row group {group.number} of {os.path.basename(group.path)}"
            raise self.files.error(error, what) from error


# Parsed footers of local files by path, size and time: to parse one takes as long as to read a row group
_footers: dict[tuple[Any, ...], Any] = {}
_MOST_FOOTERS, _FOOTER_NBYTES = 256, 1 << 20


def _open_parquet(files: Files, path: str) -> pq.ParquetFile:
    if not files.is_local:
        return pq.ParquetFile(files.open(path), pre_buffer=True)
    found = os.stat(path)
    stamp = path, found.st_size, found.st_mtime_ns
    file = pq.ParquetFile(path, metadata=_footers.get(stamp), memory_map=False, pre_buffer=False)
    if file.metadata.serialized_size <= _FOOTER_NBYTES:
        if len(_footers) >= _MOST_FOOTERS:
            _footers.clear()
        _footers[stamp] = file.metadata
    return file


def _partition_keys(paths: Sequence[str], root: str) -> dict[str, dict[str, Any]]:
    """Return the keys of hive partitions below the root, a=1/b=x: numbers where all of one are."""
    inner = {path: os.path.dirname(path.removeprefix(root)).split("/") for path in paths}
    pairs = {path: [part.partition("=")[::2] for part in parts if "=" in part] for path, parts in inner.items()}
    texts: dict[str, set[str]] = {}
    for key, text in chain.from_iterable(pairs.values()):
        texts.setdefault(key, set()).update({text} - {_NO_KEY})
    whole = {key for key, values in texts.items() if all(re.fullmatch(r"-?(0|[1-9]\d*)", one) for one in values)}

    def value(key: str, text: str) -> Any:
        return None if text == _NO_KEY else int(text) if key in whole else unquote(text)

    return {path: {key: value(key, text) for key, text in one} for path, one in pairs.items()}


_NO_KEY = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class _Lines:
    """A block of whole lines of a CSV file."""

    path: str
    start: int
    stop: int
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CsvTable(Table):
    """Blocks of lines of CSV files with the same header; `kinds` are types that are settled.

    Values are separated by commas, semicolons, tabs or bars; text is UTF-8, or else Windows-1252.
    """

    files: Files
    blocks: tuple[_Lines, ...]
    separator: str = ","
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)

    @classmethod
    def open(cls, files: Files, paths: Sequence[str], root: str) -> CsvTable:
        blocks: list[_Lines] = []
        header: tuple[str, ...] = ()
        try:
            for path in paths:
                with _open_text(files, path) as file:
                    names, separator, start = _read_header(files.name, file)
                    if header and names != header:
                        raise DataError(
                            f"{files.name}: {os.path.basename(path)} has other columns than the "
                            "files before it; give files with the same header"
                        )
                    header = names
                    blocks += _cut_lines(files.name, file, path, start)
        except Exception as error:
            raise files.error(error) from error
        table = cls(
            name=files.name, columns=header, n_pieces=len(blocks), files=files, blocks=tuple(blocks),
            separator=separator,
        )  # fmt: skip
        if not blocks:
            return table
        each = (blocks[0].stop - blocks[0].start) / max(1, table.read(0, header).num_rows)
        return replace(table, n_rows=round(table.nbytes / each))

    @property
    def nbytes(self) -> int:
        return sum(block.stop - block.start for block in self.blocks)

    def read(self, piece: int, columns: Sequence[str], first: int | None = None) -> pa.Table:
        """Parse columns of a block of lines; text comes without spaces around it."""
        lines = self.blocks[piece]
        try:
            with _open_text(self.files, lines.path) as file:
                file.seek(lines.start)
                text = file.read(lines.stop - lines.start)
            found = pyarrow.csv.read_csv(
                io.BytesIO(text),
                read_options=pyarrow.csv.ReadOptions(
                    use_threads=False,
                    column_names=list(self.columns),
                    block_size=len(text) + 1,
                    encoding=lines.encoding,
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=list(columns or self.columns[:1]),
                    column_types=dict(self.kinds),
                    null_values=_NULLS,
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
            for i, column in enumerate(found.columns):
                if pa.types.is_string(column.type):
                    plain = pc.utf8_trim_whitespace(column)
                    plain = pc.if_else(pc.is_in(plain, pa.array(_NULLS)), None, plain)
                    found = found.set_column(i, found.column_names[i], plain)
            return found
        except Exception as error:
            raise self.files.error(error) from error

    def settled(self, names: Sequence[str]) -> CsvTable | None:
        """Return the table with these columns read as text; None if there are none of them."""
        if not names:
            return None
        return replace(self, kinds={**self.kinds, **dict.fromkeys(names, pa.string())})


def _open_text(files: Files, path: str) -> Any:
    file = files.open(path)
    if file.read(2) != b"\x1f\x8b":
        file.seek(0)
        return file
    file.close()
    return files.system.open(path, "rb", compression="gzip")


def _read_header(where: str, file: Any) -> tuple[tuple[str, ...], str, int]:
    """Return the names of the columns, what separates them, and where the rows begin."""
    line = file.readline(_MOST_LINE)
    start = len(line)
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{where}: UTF-16 text; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    while line and (not line.strip() or line.startswith(b"# ") or line.count(b'"') % 2):
        more = file.readline(_MOST_LINE)
        line = (line if line.count(b'"') % 2 else b"") + more
        start += len(more)
        if not more:
            break
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = line.decode("latin-1")
    text = text.rstrip("\r\n")
    if "\0" in text:
        raise DataError(f"{where}: {_BINARY}")
    bare = re.sub('"[^"]*"', "", text)
    if "\r" in bare:
        raise DataError(f"{where}: lines end with carriage returns alone; save it with usual ends of lines")
    if not text.strip():
        raise DataError(f"{where}: no rows and no names of columns; give a file with rows")
    separator = max(",;\t|", key=bare.count)
    names = [printable(name.strip()) for name in next(csv.reader([text], delimiter=separator, skipinitialspace=True))]
    # an index without a name, as pandas and R write it
    named = (name or f"column {j + 1}" for j, name in enumerate(names))
    return _distinct(where, named), separator, start


_BINARY = "not a text, but binary data; give a CSV or Parquet file"


def _cut_lines(where: str, file: Any, path: str, start: int) -> list[_Lines]:
    """Cut a file into blocks at line ends that are not within quotes."""
    ends_of, encoding = [start], "utf-8"
    file.seek(start)
    decoder = codecs.getincrementaldecoder("utf-8")()
    quotes, at = 0, start
    while piece := file.read(_CSV_NBYTES):
        if b"\0" in piece:
            raise DataError(f"{where}: {_BINARY}")
        try:
            decoder.decode(piece)
        except UnicodeDecodeError:
            encoding = "cp1252"
            decoder.reset()
        if encoding == "cp1252" and piece.translate(None, _NOT_CP1252) != piece:
            encoding = "latin-1"
        marks = np.frombuffer(piece, np.uint8)
        ends, quoted = np.flatnonzero(marks == ord("\n")), np.flatnonzero(marks == ord('"'))
        outside = ends[(np.searchsorted(quoted, ends) + quotes) % 2 == 0]
        quotes += len(quoted)
        if len(outside):
            ends_of.append(at + int(outside[-1]) + 1)
        at += len(piece)
    ends_of.append(at)
    # which is read from its beginning each time
    if isinstance(file, gzip.GzipFile) or getattr(file, "compression", None):
        if at > _MOST_PACKED:
            raise DataError(f"{where}: more than {_MOST_PACKED >> 20} MiB of text in gzip; unpack it (gunzip)")
        ends_of = [start, at]
    return [_Lines(path, begin, end, encoding) for begin, end in pairwise(ends_of) if end > begin]


_NOT_CP1252 = b"\x81\x8d\x8f\x90\x9d"


def open_files(url: str, options: Mapping[str, Any] | None) -> Table | None:
    """Open the tables at a path, URL, folder or glob; None where there are none."""
    files = Files.of(url, options)
    try:
        root, found = files.expand(url)
    except Exception as error:
        told = files.error(error)
        raise (ListingError(str(told)) if isinstance(told, DataError) else told) from error
    if not found:
        return None
    kinds = {one.lower().endswith((".parquet", ".pq")) for one in found}
    if len(kinds) > 1:
        raise DataError(f"{files.name}: CSV and Parquet files together; keep one kind")
    return (ParquetTable if kinds.pop() else CsvTable).open(files, found, root)


def to_table(data: Any) -> Table:
    """Return a frame as a table: pandas, Dask, Polars, or what gives Arrow streams."""
    name, faults = "DataFrame", dict[str, str]()
    if is_dask_frame(data):
        columns = _distinct(name, data.columns)
        return DaskTable(name=name, columns=columns, n_pieces=int(data.npartitions), frame=data)
    if is_pandas(data):
        columns = _distinct(name, data.columns)
        table = frame_to_arrow(data, faults)
    else:
        table = pa.table(data if hasattr(data, "__arrow_c_stream__") else data.collect())
        columns = _distinct(name, table.column_names)
    n_pieces = max(1, -(-table.num_rows // _SLICE_ROWS))
    return ArrowTable(name=name, columns=columns, n_pieces=n_pieces, n_rows=table.num_rows, faults=faults, table=table)


def _distinct(where: str, columns: Iterable[Any]) -> tuple[str, ...]:
    """Return names of columns as text, and refuse two that are alike."""
    names = tuple(map(str, columns))
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        said = " and ".join(f"two columns are called {name!r}" for name in twice[:5])
        raise DataError(f"{where}: {said}; give each a name of its own")
    return names


def frame_to_arrow(frame: Any, faults: dict[str, str] | None = None) -> pa.Table:
    """Return a pandas DataFrame as an Arrow table; columns that do not fit go to `faults`."""
    columns: dict[str, Any] = {}
    for i, name in enumerate(map(str, frame.columns)):
        series = frame.iloc[:, i]
        try:
            columns[name] = _series_to_arrow(series)
        except (DataError, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            if faults is None:
                raise DataError(f"column {name!r}: {one_line(error)}") from error
            faults[name] = str(error) if isinstance(error, DataError) else _mixed(series, error)
    return pa.table(columns)


def _series_to_arrow(series: Any) -> Any:
    if str(series.dtype).startswith("Sparse"):
        raise DataError(f"dtype {series.dtype}; rows are read dense: frame.sparse.to_dense()")
    if series.dtype.kind in "biuf" and isinstance(series.dtype, np.dtype):
        return pa.array(series.to_numpy())
    if str(series.dtype).startswith(("period", "interval")):
        series = series.astype(str)
    return pa.array(series, from_pandas=True)


def _mixed(series: Any, error: Exception) -> str:
    import pandas as pd

    cells = series.reset_index(drop=True).dropna()
    kinds = cells.map(type)
    stray = cells[pd.to_numeric(cells, errors="coerce").isna()]
    if 0 < len(stray) < len(cells) / 2:
        return stray_words(stray.iloc[0], int(stray.index[0]), len(stray))
    if kinds.nunique() > 1:
        named = ", ".join(kind.__name__ for kind in dict.fromkeys(kinds))
        return f"holds values of several types ({named}); give it one type, or drop it"
    return f"cannot be read ({one_line(error)}); convert or drop it"


def stray_words(value: Any, row: int, n: int) -> str:
    return (
        f"holds text among numbers: {printable(str(value))!r} in row {row} (counting from 0; "
        f"{plural(n, 'such cell')}); mend it or remove these rows"
    )
