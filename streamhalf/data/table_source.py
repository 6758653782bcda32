"""Tables as sources: which columns, how they are encoded, which rows are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamhalf.data.arrays import ArrayReader, DaskReader, Layout, WithoutRows
from streamhalf.data.block import Reader, RowRanges
from streamhalf.data.clients import holding_client
from streamhalf.data.encoding import encode, large_faults, make_encoding, refuse
from streamhalf.data.schema import SIGNS, LabelCoding, coding_like, find_coding, plain_label
from streamhalf.data.source import (
    OwnColumns,
    Source,
    blocks_of,
    build_source,
    gathered,
    gathered_chunks,
    nearest_names,
    notices_of_labels,
)
from streamhalf.data.survey import Survey, gaps_of, plain_text, survey
from streamhalf.data.tables import CsvTable, DaskTable, Table, frame_to_arrow, to_table
from streamhalf.errors import DataError, UsageError
from streamhalf.redact import plural
from streamhalf.results import ColumnRecord, ColumnUse, EncodingRecord, FeatureRecord, Notice, NoticeCode

NAMING_LABELS = "label=... (--label COLUMN in a terminal)"
_KEPT_NBYTES = 256 << 20  # Encoded rows of at most so many bytes are held in memory
_MOST_NAMED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Options of a table: columns, label, encoding, gaps; `encoding` is that of a model."""

    label: str = "y"
    positive: str | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    encode: str = "auto"
    missing: str = "auto"
    encoding: EncodingRecord | None = None
    known: tuple[Any, ...] = ()
    """The classes of a model that stand for -1 and +1."""
    named: tuple[str, ...] = ()
    """Features of a model that was fitted on columns of numbers; taken where all are there."""


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """The column of the labels, and its values for the classes -1 and +1."""

    name: str
    coding: LabelCoding

    def signs(self, cells: pa.ChunkedArray) -> NDArray[np.int8]:
        """Return -1 and +1; 0 where there is no label, or another."""
        plain = plain_text(cells)
        positive = _equals(plain, self.coding.high)
        negative = ~positive if self.coding.rest else _equals(plain, self.coding.low)
        found = positive.astype(np.int8) - negative.astype(np.int8)
        found[gaps_of(cells, marks=False)] = 0
        return found

    @property
    def classes(self) -> tuple[Any, ...]:
        """Return the classes of -1 and +1, where these are others."""
        return () if self.coding == SIGNS else self.coding.values


def _equals(cells: pa.ChunkedArray, value: Any) -> NDArray[np.bool_]:
    if pa.types.is_null(cells.type):
        return np.zeros(len(cells), np.bool_)
    if not cells.null_count and pa.types.is_integer(cells.type) and isinstance(value, int):
        return np.asarray(cells.to_numpy() == value)  # several times faster than Arrow
    try:
        found = pc.equal(cells, pa.scalar(value))
    except pa.ArrowException:
        found = pc.equal(cells.cast(pa.string()), str(value))
    return np.asarray(pc.fill_null(found, False).to_numpy())


@dataclass(frozen=True, slots=True, eq=False)
class TableReader(Reader):
    """Reads rows of a table piece by piece; labels come as -1, +1, and 0 where there is none."""

    table: Table
    encoding: EncodingRecord
    label: LabelColumn | None
    starts: NDArray[np.int64]
    """First rows of the pieces, and the number of all rows."""

    @property
    def features(self) -> Layout:
        shape = (int(self.starts[-1]), len(self.encoding.features))
        return Layout(shape, np.dtype(self.encoding.dtype))

    @property
    def labels(self) -> Layout | None:
        return None if self.label is None else Layout((int(self.starts[-1]),), np.dtype(np.int8))

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        names = [*self.encoding.used, *(() if self.label is None else (self.label.name,))]
        tables = self._tables(rows, list(dict.fromkeys(names)))
        parts = [(encode(self.encoding, found), self._signs(found)) for found in tables]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])

    def read_labels(self, rows: RowRanges) -> NDArray[Any]:
        if self.label is None:
            return np.ones(rows.n_rows, dtype=np.int8)
        return np.concatenate([self._signs(found) for found in self._tables(rows, [self.label.name])])

    def _signs(self, found: pa.Table) -> NDArray[np.int8]:
        if self.label is None:
            return np.ones(found.num_rows, dtype=np.int8)
        return self.label.signs(found.column(self.label.name))

    def _tables(self, rows: RowRanges, columns: list[str]) -> Iterator[pa.Table]:
        """Read the pieces that the rows lie in, one after the other."""
        cut = rows.cut(self.starts[1:-1])
        homes = np.searchsorted(self.starts, cut.bounds[:, 0], side="right") - 1
        for piece, within in zip(np.unique(homes).tolist(), cut.grouped(homes), strict=True):
            first, stop = self.starts[piece : piece + 2].tolist()
            span = within.span
            found = self.table.read(piece, columns, span.stop - first)
            if found.num_rows < span.stop - first or (span.stop == stop and found.num_rows > stop - first):
                raise DataError(f"{self.table.name}: the rows changed after they were opened")
            neighbours = len(within) == 1
            yield found.slice(span.start - first, span.n_rows) if neighbours else found.take(within.numbers() - first)


@dataclass(frozen=True, slots=True, eq=False)
class TableColumns(OwnColumns):
    """All columns of a table; `starts` are the first rows of its pieces."""

    table: Table
    starts: NDArray[np.int64]

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.columns

    def take(self, rows: NDArray[np.int64], names: Sequence[str]) -> dict[str, Any]:
        """Return columns of rows, piece by piece; without rows, of the type in the first piece."""
        homes = np.searchsorted(self.starts, rows, side="right") - 1
        pieces = np.unique(homes).tolist() or [0]
        parts = [self.table.read(piece, names).take(rows[homes == piece] - self.starts[piece]) for piece in pieces]
        found = pa.concat_tables(parts, promote_options="permissive")
        return {name: plain_text(found.column(name)).combine_chunks() for name in names}


def open_table(table: Table, options: TableOptions, *, labelled: bool) -> Source:
    """Open a table: settle columns, labels and encoding in one pass over its rows."""
    label = options.label if labelled else None
    columns = _choose(table, options, label)
    readable = [name for name in columns if name not in table.faults]
    where = options.missing == "drop"
    found = survey(table, readable, label, where=where)
    mixed = [name for name, counts in found.counts.items() if len(counts.kinds) > 1]
    if isinstance(table, CsvTable) and (settled := table.settled(mixed)):
        table = settled
        found = survey(table, readable, label, where=where)
    if found.n_rows == 0:
        raise DataError(f"{table.name}: no rows, only names of columns; give a file with rows")
    faults: list[str] = []
    coded = None if label is None else _settle_labels(found, label, options, faults)
    if label is not None and not where and (gaps := found.counts[label].gaps):
        faults.append(
            f"no label in {plural(gaps, 'row')} of {found.n_rows:,}, column {label!r}; leave these rows out "
            "(missing='drop', --missing drop)"
        )
    faults += [f"column {name!r} {table.faults[name]}" for name in columns if name in table.faults]
    encoding = options.encoding or _encoding(table, found, readable, options, faults)
    refuse(table.name, faults + (large_faults(found, encoding) if encoding else []))
    assert encoding is not None
    dropped = np.empty(0, np.int64)
    if where:
        used = [*encoding.used, *([label] if label is not None else [])]
        dropped = found.gap_rows([name for name in used if name in found.counts])
        if len(dropped) == found.n_rows:
            raise DataError(f"{table.name}: every row has gaps; use missing='fill' (--missing)")
    starts = np.concatenate([[0], np.cumsum(found.sizes)]).astype(np.int64)
    source = _build(TableReader(table, encoding, coded, starts), options, dropped)
    said = [*source.notices, *(() if coded is None else notices_of_labels(coded.name, coded.coding))]
    if len(dropped):
        said.append(Notice.of(NoticeCode.ROWS_DROPPED, dropped=len(dropped), stored=found.n_rows))
    if options.encoding is None and (told := _told(encoding)) is not None:
        said.append(told)
    if isinstance(table, CsvTable) and isinstance(source.reader, TableReader | WithoutRows):
        said.append(Notice.of(NoticeCode.SLOW_TABLE, size=table.nbytes))
    own = TableColumns(table, starts)
    source = replace(source, notices=tuple(said), encoding=encoding, dropped=dropped, own=own)
    return source.named(_names_of(encoding), () if coded is None else coded.classes)


def _told(encoding: EncodingRecord) -> Notice | None:
    """Return the notice of an encoding; None where columns of numbers stay as they are."""
    used = [one for one in encoding.columns if one.features]
    gone = tuple(one.name for one in encoding.columns if not one.features)
    gaps = sum(one.gaps for one in used if one.fill is not None or one.use == ColumnUse.CATEGORY)
    if not gone and encoding.features == encoding.used:
        return None
    return Notice.of(
        NoticeCode.TABLE_ENCODED,
        columns=len(used),
        features=len(encoding.features),
        dropped=", ".join(gone[:8]) + (", ..." if len(gone) > 8 else ""),
        gaps=gaps,
    )


def _choose(table: Table, options: TableOptions, label: str | None) -> list[str]:
    """Return the columns that features are made of; one error for all names that are wrong."""
    own = list(table.columns)
    if label is not None and label not in own:
        raise DataError(
            f"{table.name}: no column named {label!r}; {nearest_names(label, own)}; name the "
            f"column of the labels: {NAMING_LABELS}"
        )
    named = options.named if set(own) & set(options.named) else ()
    if wanted := named if options.encoding is None else options.encoding.used:
        _require(wanted, own)
        return list(wanted)
    faults = []
    for field_, names in (("columns", options.columns), ("drop", options.drop)):
        if unknown := [name for name in names if name not in own]:
            hint = nearest_names(unknown[0], own)
            faults.append(f"{field_}: {', '.join(map(repr, unknown))} not among the columns; {hint}")
        if label is not None and label in names:
            faults.append(f"{field_}: {label!r} is the label; leave it out of {field_}")
    if faults:
        raise UsageError("; ".join(faults))
    asked = options.columns or tuple(own)
    kept = [name for name in asked if name != options.label and name not in options.drop]
    if label is not None and label in table.faults:
        refuse(table.name, [f"column {name!r} {table.faults[name]}" for name in (label, *kept) if name in table.faults])
    if not kept:
        raise DataError(f"{table.name}: no column is left for features beside the label; give a table with more")
    return kept


def _require(wanted: Sequence[str], own: Sequence[str]) -> None:
    if missing := [name for name in wanted if name not in own]:
        raise DataError(
            f"columns: {', '.join(missing[:_MOST_NAMED])} not found among {', '.join(own)}; give "
            "data with all columns that the model was fitted on"
        )


def _encoding(
    table: Table, found: Survey, columns: Sequence[str], options: TableOptions, faults: list[str]
) -> EncodingRecord | None:
    """Return the encoding of the columns; gaps are refused by name where that is asked for."""
    automatic = options.encode == "auto" and not options.named
    missing = options.missing
    if missing == "auto":
        missing = "fill" if automatic else "refuse"
    gaps = [(name, found.counts[name].gaps) for name in columns if found.counts[name].gaps]
    if missing == "refuse" and gaps:
        shown = ", ".join(f"{name!r} {n:,}" for name, n in gaps[:_MOST_NAMED])
        faults.append(
            f"gaps in {plural(len(gaps), 'column')} ({shown}) of {found.n_rows:,} rows; leave these rows out "
            "(missing='drop', --missing drop) or fill the gaps with medians (missing='fill')"
        )
    fill = missing == "fill"
    return make_encoding(table, found, columns, automatic=automatic, fill=fill, named=options.columns, faults=faults)


def _settle_labels(found: Survey, label: str, options: TableOptions, faults: list[str]) -> LabelColumn | None:
    """Return what the labels stand for; what is wrong goes to `faults`."""
    values, positive = list(found.labels), options.positive
    if not values:
        faults.append(f"column {label!r} holds no label; name another: label=...")
        return None
    if options.known:
        return LabelColumn(label, coding_like(label, options.known, {plain_label(one): one for one in values}))
    if positive is not None:
        high = next((one for one in values if str(one) == positive), None)
        if high is None:
            nearest = nearest_names(positive, map(str, values[:50]))
            raise UsageError(f"positive: {positive!r} is no value of {label!r}; {nearest}")
        if len(values) > 2:
            return LabelColumn(label, LabelCoding(f"not {high}", high, rest=True))
        values.sort(key=lambda one: one == high)
    elif len(values) > 2:
        largest = sorted(found.labels.items(), key=lambda one: -one[1])[:6]
        shown = ", ".join(f"{value} ({n:,} rows)" for value, n in largest) + (", ..." if len(values) > 6 else "")
        several = f"more than {len(values) - 1:,}" if len(values) > 1000 else f"{len(values):,}"
        faults.append(
            f"{label}: {several} classes found: {shown}; expected two: name the one to tell "
            "from the rest (positive=..., --positive VALUE)"
        )
        return None
    words = not all(isinstance(one, int | float) for one in values)
    if len(values) == 1 and (words or positive is not None):
        faults.append(f"{label}: only one label, {values[0]}, was found; two classes are needed")
        return None
    coding = LabelCoding(*values) if positive is not None else find_coding(label, np.array(values)) or SIGNS
    if any(isinstance(value, bool) for value in values):
        coding = LabelCoding(*map(bool, coding.values))
    return LabelColumn(label, coding)


def _names_of(encoding: EncodingRecord) -> tuple[str, ...]:
    """Return the names of the features; none where columns have numbers for names."""
    return () if all(map(str.isdigit, encoding.features)) else encoding.features


def _build(reader: TableReader, options: TableOptions, dropped: NDArray[np.int64]) -> Source:
    """Return a source of the rows: in memory where they are few, else read piece by piece."""
    label, table = reader.label, reader.table
    n_rows, dim = reader.features.shape
    row_nbytes = dim * reader.features.dtype.itemsize
    found: Reader
    if isinstance(table, DaskTable):
        found = _lazy_reader(reader, table, dropped)
        blocks, chunk = blocks_of(found)
    elif n_rows * row_nbytes <= _KEPT_NBYTES:
        X, y = reader.read(RowRanges.evenly(n_rows, n_rows))
        if len(dropped):
            X, y = np.delete(X, dropped, axis=0), np.delete(y, dropped)
        found = ArrayReader(X, y)
        blocks, chunk = blocks_of(found)
    else:
        found, chunk = reader, int(np.diff(reader.starts).max())
        blocks = gathered(np.diff(reader.starts), row_nbytes)
        if len(dropped):
            found = WithoutRows(reader, dropped)
            blocks = found.blocks(blocks)
    return build_source(
        table.name,
        found,
        blocks,
        names=("X", label.name if label is not None else options.label),
        chunk_rows=(chunk, chunk),
        labelled=label is not None,
        columns=_names_of(reader.encoding),
    )


def _lazy_reader(reader: TableReader, table: DaskTable, dropped: NDArray[np.int64]) -> DaskReader:
    """Return the partitions of a Dask DataFrame as lazy arrays of known lengths."""
    import dask.array as da
    from dask.delayed import delayed

    encoding, label = reader.encoding, reader.label
    edges = np.searchsorted(dropped, reader.starts)
    drops = [dropped[a:b] - start for a, b, start in zip(edges[:-1], edges[1:], reader.starts, strict=False)]
    sizes = (np.diff(reader.starts) - np.diff(edges)).tolist()

    def lazy(work: Any, columns: Sequence[str], given: Any, tail: tuple[int, ...], dtype: Any) -> Any:
        parts = table.select(columns).to_delayed()
        work = delayed(work, pure=False)
        return da.concatenate(
            [
                da.from_delayed(work(part, given, gone), (n, *tail), np.dtype(dtype))
                for part, n, gone in zip(parts, sizes, drops, strict=True)
            ]
        )

    dim = len(encoding.features)
    X = lazy(_encode_partition, encoding.used, encoding, (dim,), encoding.dtype)
    if label is None:
        y = da.ones(X.shape[0], chunks=(X.chunks[0],), dtype=np.int8)
    else:
        y = lazy(_sign_partition, [label.name], label, (), np.int8)
    rows = gathered_chunks(X.chunks[0], dim * X.dtype.itemsize)
    return replace(DaskReader.align(X.rechunk({0: rows}), y), client=holding_client(table.frame))


def _encode_partition(frame: Any, encoding: EncodingRecord, dropped: NDArray[np.int64]) -> NDArray[Any]:
    return np.delete(encode(encoding, frame_to_arrow(frame)), dropped, axis=0)


def _sign_partition(frame: Any, label: LabelColumn, dropped: NDArray[np.int64]) -> NDArray[np.int8]:
    return np.delete(label.signs(frame_to_arrow(frame).column(0)), dropped)


def map_frame(
    function: Callable[[NDArray[Any]], NDArray[Any]],
    frame: Any,
    encoding: EncodingRecord | None,
    named: tuple[str, ...],
    *,
    dtype: Any,
) -> Any:
    """Apply a function of features to rows of a frame, encoded as those of a model.

    Returns an array, or of a Dask DataFrame a lazy series with its index.
    """
    table = to_table(frame)
    if encoding is None:
        encoding = plain_encoding(named if set(named) & set(table.columns) else table.columns)
    _require(encoding.used, table.columns)
    if isinstance(table, DaskTable):
        chosen = table.select(encoding.used)
        meta = chosen._meta.iloc[:, 0].astype(object).astype(dtype).rename("prediction")
        return chosen.map_partitions(_map_partition, function, encoding, dtype, meta=meta)
    if faults := [name for name in encoding.used if name in table.faults]:
        raise DataError(f"{table.name}: column {faults[0]!r} {table.faults[faults[0]]}")
    pieces = (table.read(piece, encoding.used) for piece in range(table.n_pieces))
    return np.concatenate([function(encode(encoding, rows)) for rows in pieces])


def _map_partition(
    part: Any, function: Callable[[NDArray[Any]], NDArray[Any]], encoding: EncodingRecord, dtype: Any
) -> Any:
    import pandas as pd

    found = function(encode(encoding, frame_to_arrow(part))) if len(part) else np.empty(0, dtype)
    return pd.Series(found, index=part.index, name="prediction")


def plain_encoding(names: Sequence[str]) -> EncodingRecord:
    columns = (ColumnRecord(one, ColumnUse.NUMBER, (FeatureRecord(one),)) for one in names)
    return EncodingRecord(tuple(columns))
