"""A table seen once: rows of its pieces, gaps and types of its columns, labels, a sample of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from dask.delayed import delayed
from dask.system import CPU_COUNT
from numpy.typing import NDArray

from streamhalf.data.arrays import in_order
from streamhalf.data.clients import compute_on, holding_client
from streamhalf.data.schema import find_rounded
from streamhalf.data.tables import GAPS, CsvTable, DaskTable, Table, frame_to_arrow
from streamhalf.errors import DataError

_SAMPLE_ROWS = 1 << 18
_MOST_GAPS = 1 << 25
_MOST_LABELS = 1000
_KINDS = {
    "empty": ("null",),
    "text": ("string", "large_string", "string_view", "dictionary"),
    "number": ("integer", "floating", "boolean", "decimal", "duration", "time"),
    "date": ("date", "timestamp"),
}


def kind_of(dtype: pa.DataType) -> str:
    """Return what a column of this Arrow type holds: number, text, date, empty or another word."""
    found = (kind for kind, types in _KINDS.items() if any(getattr(pa.types, f"is_{one}")(dtype) for one in types))
    return next(found, str(dtype))


@dataclass(slots=True, eq=False)
class Counts:
    """Of one column: gaps, in which rows, the types of its pieces, an integer that float64 cannot hold and its row."""

    gaps: int = 0
    where: list[NDArray[np.int64]] = field(default_factory=list)
    types: dict[pa.DataType, None] = field(default_factory=dict)
    large: tuple[Any, int] | None = None

    @property
    def kinds(self) -> list[str]:
        """Return what the pieces hold that are not empty."""
        return list(dict.fromkeys(kind_of(one) for one in self.types if not pa.types.is_null(one)))


@dataclass(slots=True, eq=False)
class Survey:
    """All rows of a table, or of a piece of it, seen once: rows by piece, columns, labels, every so many rows."""

    sizes: list[int]
    counts: dict[str, Counts]
    labels: dict[Any, int]
    sample: pa.Table

    @property
    def n_rows(self) -> int:
        return sum(self.sizes)

    def gap_rows(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """Return the rows with a gap in one of the columns, rising."""
        found = [rows for name in columns for rows in self.counts[name].where]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def add(self, piece: Survey, *, where: bool) -> None:
        """Add the counts of the next piece; with `where`, remember which rows have gaps."""
        start = self.n_rows
        self.sizes += piece.sizes
        for name, new in piece.counts.items():
            counts = self.counts[name]
            counts.types |= new.types
            counts.gaps += new.gaps
            counts.where += [rows + start for rows in new.where if where and len(rows)]
            if counts.large is None and new.large is not None:
                counts.large = new.large[0], new.large[1] + start
        for value, n in piece.labels.items():
            if value in self.labels or len(self.labels) <= _MOST_LABELS:
                self.labels[value] = self.labels.get(value, 0) + n


def survey(table: Table, columns: Sequence[str], label: str | None, *, where: bool) -> Survey:
    """Read all rows once; with `where`, remember which rows have gaps.

    Of a CSV file, columns that are text in one block and numbers in another are read as text.
    """
    wanted = [*columns, *([label] if label is not None else [])]
    found = Survey([], {name: Counts() for name in wanted}, {}, pa.table({}))
    samples = []
    for piece in _look_at_pieces(table, wanted, label):
        found.add(piece, where=where)
        samples.append(piece.sample)
        if where and sum(counts.gaps for counts in found.counts.values()) > _MOST_GAPS:
            raise DataError(
                f"{table.name}: more than {_MOST_GAPS:,} gaps; with missing='drop' they are "
                "remembered row by row: use missing='fill', or drop the columns that have most"
            )
    found.sample = pa.table({name: _joined(name, samples, found.counts[name]) for name in columns})
    return found


def _look_at_pieces(table: Table, wanted: list[str], label: str | None) -> Iterator[Survey]:
    """Look at every piece, a few at once, in their order."""
    if isinstance(table, DaskTable):
        frame, most = table.select(wanted), max(1, _SAMPLE_ROWS // max(1, table.n_pieces))
        look = delayed(_look_at_frame, pure=False)
        parts = [look(part, wanted, label, most) for part in frame.to_delayed()]
        yield from compute_on(holding_client(frame), *parts)
        return
    step = max(1, -(-table.n_rows // _SAMPLE_ROWS))
    look_at = partial(_look_at_piece, table, wanted, label, step)
    yield from in_order(look_at, range(table.n_pieces), CPU_COUNT)


def _look_at_piece(table: Table, wanted: list[str], label: str | None, step: int, piece: int) -> Survey:
    rows = table.read(piece, wanted)
    found = _look_at(rows, wanted, label, step=step)
    if not isinstance(table, CsvTable):
        return found
    # integers that are too long for 64 bits come as floats
    doubtful = [name for name in wanted if name != label and _may_be_rounded(rows.column(name))]
    if (as_text := table.settled(doubtful)) is not None:
        texts = as_text.read(piece, doubtful)
        for name in doubtful:
            rounded = find_rounded(np.array(texts.column(name).to_pylist(), dtype=object))
            found.counts[name].large = _first_of(texts.column(name), rounded)
    return found


def _may_be_rounded(column: pa.ChunkedArray) -> bool:
    """Return True for floats that may have been integers beyond 2^53."""
    if not pa.types.is_floating(column.type) or column.null_count == len(column):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(column), 2.0**53)).as_py())


def _look_at_frame(frame: Any, wanted: list[str], label: str | None, most: int) -> Survey:
    return _look_at(frame_to_arrow(frame), wanted, label, step=max(1, -(-len(frame) // most)))


def _look_at(rows: pa.Table, wanted: list[str], label: str | None, *, step: int) -> Survey:
    """Count gaps and labels of a piece, and take every `step`-th row as a sample."""
    counts: dict[str, Counts] = {}
    for name in wanted:
        column, is_label = rows.column(name), name == label
        where = np.flatnonzero(gaps_of(column, marks=not is_label))
        large = None if is_label else first_rounded(column)
        counts[name] = Counts(len(where), [where], {column.type: None}, large)
    labels: dict[Any, int] = {}
    if label is not None:
        counted = pc.value_counts(plain_text(rows.column(label).drop_null()).combine_chunks())
        values, sizes = counted.field("values"), counted.field("counts").to_numpy()
        for i in np.argsort(-sizes, kind="stable")[: _MOST_LABELS + 1].tolist():
            value = values[i].as_py()
            if value == value and value != "":
                labels[value] = int(sizes[i])
    sample = rows.take(np.arange(0, rows.num_rows, step)) if step > 1 else rows
    return Survey([rows.num_rows], counts, labels, sample)


def first_rounded(column: pa.ChunkedArray) -> tuple[Any, int] | None:
    """Return the first integer that float64 cannot hold, and its row."""
    if not pa.types.is_integer(column.type) or column.type.bit_width < 64 or not len(column):
        return None
    return _first_of(column, find_rounded(pc.fill_null(column, 0).to_numpy()))


def _first_of(column: pa.ChunkedArray, found: NDArray[np.bool_] | None) -> tuple[Any, int] | None:
    row = 0 if found is None else int(np.argmax(found))
    return None if found is None else (column[row].as_py(), row)


def gaps_of(column: pa.ChunkedArray, *, marks: bool = True) -> NDArray[np.bool_]:
    """Return which cells are missing: null, NaN, or of text empty or (with `marks`) one of `GAPS`."""
    floats, text = pa.types.is_floating(column.type), kind_of(column.type) == "text"
    if not column.null_count and not text:
        values = column.to_numpy() if floats else None
        return np.zeros(len(column), np.bool_) if values is None else np.asarray(values != values)
    found = pc.is_null(column, nan_is_null=floats)
    if text and kind_of((plain := plain_text(column)).type) == "text":
        found = pc.or_(found, pc.is_in(plain, pa.array(GAPS if marks else [""]).cast(plain.type)))
    return np.asarray(found.to_numpy(zero_copy_only=False))


def plain_text(column: Any) -> Any:
    """Return dictionaries decoded, and views of strings as strings."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not pa.types.is_string_view(column.type):
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowNotImplementedError:  # before pyarrow 18
        return pa.chunked_array([pa.array(column.to_pylist(), pa.string())])


def _joined(name: str, samples: list[pa.Table], counts: Counts) -> pa.ChunkedArray:
    types = [one for one in counts.types if not pa.types.is_null(one)]
    if counts.kinds == ["text"]:
        target = pa.string()
    elif len(types) <= 1:
        target = types[0] if types else pa.null()
    else:
        only = counts.kinds[0] if len(counts.kinds) == 1 else ""
        target = {"number": pa.float64(), "date": pa.timestamp("us")}.get(only, pa.string())
    cast = [plain_text(one.column(name)).cast(target) for one in samples]
    return pa.chunked_array([chunk for part in cast for chunk in part.chunks], type=target)
