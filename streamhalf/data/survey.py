"""A table seen once: rows of its pieces, gaps and types of its columns, labels, a sample of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from dask.delayed import delayed
from numpy.typing import NDArray

from streamhalf.data.arrays import in_order
from streamhalf.data.clients import compute_on, holding_client
from streamhalf.data.schema import find_rounded
from streamhalf.data.tables import GAPS, CsvTable, DaskTable, Table, frame_to_arrow
from streamhalf.errors import DataError

_SAMPLE_ROWS = 1 << 18
_MOST_GAPS = 1 << 25
_MOST_LABELS = 1000

_NUMBERS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_duration,
    pa.types.is_time,
)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary)


def kind_of(dtype: pa.DataType) -> str:
    """Return what a column of this Arrow type holds: number, text, date, empty or another word."""
    if pa.types.is_null(dtype):
        return "empty"
    if any(check(dtype) for check in _TEXTS):
        return "text"
    if any(check(dtype) for check in _NUMBERS):
        return "number"
    return "date" if pa.types.is_date(dtype) or pa.types.is_timestamp(dtype) else str(dtype)


@dataclass(slots=True, eq=False)
class Counts:
    """Of one column: gaps, in which rows, the types of its pieces, an integer that float64 cannot hold."""

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
    """All rows of a table, seen once."""

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


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """One piece, looked at."""

    n_rows: int
    gaps: dict[str, NDArray[np.int64]]
    types: dict[str, pa.DataType]
    large: dict[str, tuple[Any, int]]
    labels: dict[Any, int]
    sample: pa.Table


def survey(table: Table, columns: Sequence[str], label: str | None, *, where: bool, n_threads: int) -> Survey:
    """Read all rows once; with `where`, remember which rows have gaps.

    Of a CSV file, columns that are text in one block and numbers in another are read as text.
    """
    wanted = [*columns, *([label] if label is not None else [])]
    found = Survey([], {name: Counts() for name in wanted}, {}, pa.table({}))
    samples = []
    for seen in _look_at_pieces(table, wanted, label, n_threads):
        start = found.n_rows
        found.sizes.append(seen.n_rows)
        samples.append(seen.sample)
        for name in wanted:
            counts = found.counts[name]
            counts.types.setdefault(seen.types[name])
            counts.gaps += len(seen.gaps[name])
            if where and len(seen.gaps[name]):
                counts.where.append(seen.gaps[name] + start)
            if counts.large is None and name in seen.large:
                value, row = seen.large[name]
                counts.large = value, row + start
        if where and sum(counts.gaps for counts in found.counts.values()) > _MOST_GAPS:
            raise DataError(
                f"{table.name}: more than {_MOST_GAPS:,} gaps; with missing='drop' they are "
                "remembered row by row: use missing='fill', or drop the columns that have most"
            )
        for value, n in seen.labels.items():
            if value in found.labels or len(found.labels) <= _MOST_LABELS:
                found.labels[value] = found.labels.get(value, 0) + n
    found.sample = pa.table({name: _joined(name, samples, found.counts[name]) for name in columns})
    return found


def _look_at_pieces(table: Table, wanted: list[str], label: str | None, n_threads: int) -> Iterator[_Seen]:
    if isinstance(table, DaskTable):
        frame, most = table.select(wanted), max(1, _SAMPLE_ROWS // max(1, table.n_pieces))
        look = delayed(_look_at_frame, pure=False)
        parts = [look(part, wanted, label, most) for part in frame.to_delayed()]
        yield from compute_on(holding_client(frame), *parts)
        return
    step = max(1, -(-table.n_rows // _SAMPLE_ROWS))
    yield from in_order(
        lambda piece: _look_at_piece(table, piece, wanted, label, step), range(table.n_pieces), n_threads
    )


def _look_at_piece(table: Table, piece: int, wanted: list[str], label: str | None, step: int) -> _Seen:
    rows = table.read(piece, wanted)
    seen = _look_at(rows, wanted, label, step=step)
    if not isinstance(table, CsvTable):
        return seen
    # integers that are too long for 64 bits come as floats
    doubtful = [name for name in wanted if name != label and _may_be_rounded(rows.column(name))]
    if (as_text := table.settled(doubtful)) is not None:
        texts = as_text.read(piece, doubtful)
        for name in doubtful:
            found = find_rounded(np.array(texts.column(name).to_pylist(), dtype=object))
            if found is not None:
                row = int(np.argmax(found))
                seen.large[name] = texts.column(name)[row].as_py(), row
    return seen


def _may_be_rounded(column: pa.ChunkedArray) -> bool:
    """Return True for floats that may have been integers beyond 2^53."""
    if not pa.types.is_floating(column.type) or column.null_count == len(column):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(column), 2.0**53)).as_py())


def _look_at_frame(frame: Any, wanted: list[str], label: str | None, most: int) -> _Seen:
    return _look_at(frame_to_arrow(frame), wanted, label, step=max(1, -(-len(frame) // most)))


def _look_at(rows: pa.Table, wanted: list[str], label: str | None, *, step: int) -> _Seen:
    """Count gaps and labels of a piece, and take every `step`-th row as a sample."""
    gaps, large = {}, {}
    for name in wanted:
        column = rows.column(name)
        gaps[name] = np.flatnonzero(gaps_of(column, marks=name != label))
        if name != label and (found := first_rounded(column)) is not None:
            large[name] = found
    labels: dict[Any, int] = {}
    if label is not None:
        counted = pc.value_counts(plain_text(rows.column(label).drop_null()).combine_chunks())
        values, counts = counted.field("values"), counted.field("counts").to_numpy()
        for i in np.argsort(-counts, kind="stable")[: _MOST_LABELS + 1].tolist():
            value = values[i].as_py()
            if value == value and value != "":
                labels[value] = int(counts[i])
    taken = rows.take(np.arange(0, rows.num_rows, step)) if step > 1 else rows
    types = {name: rows.column(name).type for name in wanted}
    return _Seen(rows.num_rows, gaps, types, large, labels, taken)


def first_rounded(column: pa.ChunkedArray) -> tuple[Any, int] | None:
    """Return the first integer that float64 cannot hold, and its row."""
    if not pa.types.is_integer(column.type) or column.type.bit_width < 64 or not len(column):
        return None
    found = find_rounded(pc.fill_null(column, 0).to_numpy())
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
