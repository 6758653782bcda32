"""Encoding of tables: columns of any kind become numeric features, as a record that can be reused.

Numbers stay as they are; text becomes indicators of its most frequent values; dates become days and
cyclic parts; gaps are filled with the median beside an indicator. Constants, identifiers and what
other features determine are left out. Decisions rest on a sample of rows taken at regular
distances, counts of gaps and labels on all of them.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamhalf.data.schema import find_rounded, words_on_rounded
from streamhalf.data.tables import CsvTable, DaskTable, Table, frame_to_arrow, stray_words
from streamhalf.errors import DataError
from streamhalf.redact import plural, printable
from streamhalf.results import ColumnRecord, ColumnUse, DropReason, EncodingRecord, FeatureRecord, Part

MOST_VALUES = 32
"""Values of a category that can have an indicator, the one that is left out included."""

_SAMPLE_ROWS = 1 << 18
_MOST_GAPS = 1 << 25
_MOST_LABELS = 1000
_ID_SHARE = 0.9
_LEAST_SHARE = 0.05
"""Of rows, that the values of a category with an indicator must have together."""

_RESOLVED = 1e-10
"""Of the mean: values that spread by less are constant up to rounding."""

_COLLINEAR = 1e-8
"""Share of a feature's variance that others must leave unexplained."""

_COLLINEAR_ROWS, _MOST_COLLINEAR_DIM = 1 << 16, 1024
_ID_NAME = re.compile(r"(^|[_\W])(id|ids|index|rownames|rowid|uuid|guid|key)$|^unnamed", re.I)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$")
_SUB_ROWS = 4096


def kind_of(dtype: pa.DataType) -> str:
    """Return what a column of this Arrow type holds: number, text, date, empty or another word."""
    if pa.types.is_dictionary(dtype):
        return "text"
    if pa.types.is_null(dtype):
        return "empty"
    number = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_duration,
        pa.types.is_time,
    )
    if any(check(dtype) for check in number):
        return "number"
    if pa.types.is_date(dtype) or pa.types.is_timestamp(dtype):
        return "date"
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return "text" if any(check(dtype) for check in text) else str(dtype)


@dataclass(slots=True, eq=False)
class _Counts:
    """Of one column: gaps, in which rows, and the types of its pieces."""

    gaps: int = 0
    where: list[NDArray[np.int64]] = field(default_factory=list)
    types: dict[pa.DataType, None] = field(default_factory=dict)
    large: tuple[Any, int] | None = None


@dataclass(slots=True, eq=False)
class Survey:
    """All rows of a table, seen once: rows of pieces, gaps by column, labels, a sample."""

    sizes: list[int]
    counts: dict[str, _Counts]
    labels: dict[Any, int]
    sample: pa.Table

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
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


def survey(table: Table, columns: Sequence[str], label: str | None, *, where: bool, n_threads: int = 2) -> Survey:
    """Read all rows once; with `where`, remember which rows have gaps."""
    wanted = [*columns, *([label] if label is not None else [])]
    found = Survey([], {name: _Counts() for name in wanted}, {}, pa.table({}))
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
        if sum(counts.gaps for counts in found.counts.values()) > _MOST_GAPS and where:
            raise DataError(
                f"{table.name}: more than {_MOST_GAPS:,} gaps; with missing='drop' they are "
                "remembered row by row: use missing='fill', or drop the columns that have most"
            )
        for value, n in seen.labels.items():
            found.labels[value] = found.labels.get(value, 0) + n
            if len(found.labels) > _MOST_LABELS:
                found.labels = dict(list(found.labels.items())[: _MOST_LABELS + 1])
    found.sample = _concatenated(samples, found, columns)
    return found


def _look_at_pieces(table: Table, wanted: list[str], label: str | None, n_threads: int) -> Iterator[_Seen]:
    """Look at every piece, a few at once, in their order."""
    n = table.n_pieces
    step = max(1, -(-table.n_rows // _SAMPLE_ROWS)) if table.n_rows else 0
    if isinstance(table, DaskTable):
        most = max(1, _SAMPLE_ROWS // max(1, n))
        yield from _look_at_partitions(table, wanted, label, most)
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="survey") as pool:
        coming: deque[Future[_Seen]] = deque()
        for piece in range(n):
            coming.append(pool.submit(_look_at_piece, table, piece, wanted, label, step))
            if len(coming) > 2 * n_threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


def _look_at_piece(table: Table, piece: int, wanted: list[str], label: str | None, step: int) -> _Seen:
    rows = table.read(piece, wanted)
    seen = look_at(rows, wanted, label, step=step)
    if isinstance(table, CsvTable):
        doubtful = [name for name in wanted if name != label and _has_large(rows.column(name))]
        seen.large.update(_rounded_texts(table, piece, doubtful))
    return seen


def _has_large(column: pa.ChunkedArray) -> bool:
    """Return True for floats that may have been integers beyond 2^53."""
    if not pa.types.is_floating(column.type) or column.null_count == len(column):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(column), 2.0**53)).as_py())


def _rounded_texts(table: CsvTable, piece: int, names: list[str]) -> Iterator[tuple[str, tuple[Any, int]]]:
    """Yield columns of floats with the first text of an integer that float64 cannot hold."""
    if (as_text := table.settled(names)) is None:
        return
    texts = as_text.read(piece, names)
    for name in names:
        found = find_rounded(np.array(texts.column(name).to_pylist(), dtype=object))
        if found is not None:
            row = int(np.argmax(found))
            yield name, (texts.column(name)[row].as_py(), row)


def _look_at_partitions(table: DaskTable, wanted: list[str], label: str | None, most: int) -> Iterator[_Seen]:
    from dask.delayed import delayed

    from streamhalf.data.clients import compute_on, holding_client

    frame = table.select(wanted)
    look = delayed(_look_at_frame, pure=False)
    parts = [look(part, wanted, label, most) for part in frame.to_delayed()]
    yield from compute_on(holding_client(frame), *parts)


def _look_at_frame(frame: Any, wanted: list[str], label: str | None, most: int) -> _Seen:
    return look_at(frame_to_arrow(frame), wanted, label, step=max(1, -(-len(frame) // most)))


def look_at(rows: pa.Table, wanted: list[str], label: str | None, *, step: int) -> _Seen:
    """Count gaps and labels of a piece, and take every `step`-th row as a sample."""
    gaps, large = {}, {}
    for name in wanted:
        column = rows.column(name)
        gaps[name] = np.flatnonzero(gaps_of(column))
        if name != label and (found := _find_rounded(column)) is not None:
            large[name] = found
    labels: dict[Any, int] = {}
    if label is not None:
        counted = pc.value_counts(plain_text(rows.column(label).drop_null()).combine_chunks())
        values, counts = counted.field("values"), counted.field("counts").to_numpy()
        for i in np.argsort(-counts, kind="stable")[: _MOST_LABELS + 1].tolist():
            value = values[i].as_py()
            if value == value:
                labels[value] = int(counts[i])
    taken = rows.take(np.arange(0, rows.num_rows, step)) if step > 1 else rows
    types = {name: rows.column(name).type for name in wanted}
    return _Seen(rows.num_rows, gaps, types, large, labels, taken)


def _find_rounded(column: pa.ChunkedArray) -> tuple[Any, int] | None:
    """Return the first integer that float64 cannot hold, and its row."""
    if not pa.types.is_integer(column.type) or column.type.bit_width < 64 or not len(column):
        return None
    found = find_rounded(pc.fill_null(column, 0).to_numpy())
    if found is None:
        return None
    row = int(np.argmax(found))
    return column[row].as_py(), row


def gaps_of(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return which cells are missing: null, NaN, or (of text) empty."""
    floats = pa.types.is_floating(column.type)
    if not column.null_count and not floats and kind_of(column.type) != "text":
        return np.zeros(len(column), dtype=np.bool_)
    if floats and not column.null_count:
        values = column.to_numpy()
        return np.asarray(values != values)
    found = pc.is_null(column, nan_is_null=floats)
    if kind_of(column.type) == "text" and kind_of((plain := plain_text(column)).type) == "text":
        found = pc.or_(found, pc.fill_null(pc.equal(plain, ""), False))
    return np.asarray(found.to_numpy())


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


def _concatenated(samples: list[pa.Table], found: Survey, wanted: Sequence[str]) -> pa.Table:
    """Join samples of pieces, whose types may differ."""
    columns = {}
    for name in wanted:
        parts = [one.column(name) for one in samples]
        types = [one for one in found.counts[name].types if not pa.types.is_null(one)]
        kinds = {kind_of(one) for one in types}
        plain = [plain_text(part) for part in parts]
        if kinds == {"text"}:
            target = pa.string()
        elif len(types) <= 1:
            target = types[0] if types else pa.null()
        elif kinds == {"number"}:
            target = pa.float64()
        elif kinds == {"date"}:
            target = pa.timestamp("us")
        else:
            target = pa.string()
        cast = [part.cast(target) for part in plain]
        chunks = [chunk for part in cast for chunk in part.chunks]
        columns[name] = pa.chunked_array(chunks, type=target)
    return pa.table(columns)


def make_encoding(
    table: Table, found: Survey, columns: Sequence[str], *, automatic: bool, fill: bool
) -> EncodingRecord:
    """Decide what becomes of every column, or raise one error that names all that is wrong.

    Parameters
    ----------
    table, found
        The table and its survey.
    columns
        The columns that features are made of.
    automatic
        False to take numbers alone, as they are.
    fill
        Fill gaps, instead of leaving rows with gaps out or refusing them.
    """
    records, faults = [], []
    for name in columns:
        counts = found.counts[name]
        said = fault_of(found.sample.column(name), counts, automatic=automatic)
        if said is None:
            record = _encode_column(name, found.sample.column(name), counts, found.n_rows)
            records.append(record if automatic else _as_it_is(name, counts))
            if not fill:
                records[-1] = _without_gaps(records[-1])
        else:
            faults.append(f"column {name!r} {said}")
    if faults:
        shown = "; ".join(faults[:12]) + (f"; and {len(faults) - 12} more" if faults[12:] else "")
        more = "" if len(faults) == 1 else f"{len(faults)} columns cannot be used: "
        raise DataError(f"{table.name}: {more}{shown} (leave columns out with drop=, --drop)")
    dtype = _dtype_of([found.counts[one.name] for one in records if one.features], records)
    encoding = EncodingRecord(tuple(records), dtype)
    if automatic:
        encoding = _without_collinear(encoding, found.sample)
    if not encoding.features:
        raise DataError(
            f"{table.name}: no column is left for features ("
            + (", ".join(f"{one.name!r} {one.reason}" for one in records[:12]) or "there is none")
            + "); give columns that vary, or encode='none' for numbers as they are"
        )
    return encoding


def refuse_large(table: Table, found: Survey, encoding: EncodingRecord) -> None:
    """Refuse integers that float64 cannot hold in columns of a given encoding."""
    for column in encoding.columns:
        number = column.features and column.use is ColumnUse.NUMBER
        if number and (large := found.counts[column.name].large) is not None:
            raise DataError(f"{table.name}: column {column.name!r} {_large_words(*large)}")


def _large_words(value: Any, row: int) -> str:
    return f"holds in row {row} (counting from 0) {words_on_rounded(value)}"


def fault_of(sample: pa.ChunkedArray, counts: _Counts, *, automatic: bool) -> str | None:
    """Say why a column cannot be used; None if it can."""
    kinds = list(dict.fromkeys(kind_of(one) for one in counts.types if not pa.types.is_null(one)))
    if counts.large is not None:
        return _large_words(*counts.large)
    others = [kind for kind in kinds if kind not in ("number", "text", "date")]
    if others:
        return f"has dtype {others[0]}; give numbers, text or dates"
    if not automatic and kinds and kinds != ["number"]:
        return (
            f"has dtype {next(iter(counts.types))}; features are dense numbers: encode it "
            "(encode='auto' does), convert it or drop it"
        )
    if "text" in kinds and (stray := _stray(sample)):
        return stray
    if kinds == ["date"] and not _days_resolve(sample):
        return "holds dates that days as float64 cannot tell apart; give time since a start"
    return None


def _days_resolve(dates: pa.ChunkedArray) -> bool:
    """Return False where dates differ, but by less than is resolved beside their mean."""
    ends = pc.min_max(dates)
    first, last = ends["min"], ends["max"]
    if not first.is_valid or first == last:
        return True
    days = days_of(pa.array([first, last], dates.type))
    return bool(days[1] - days[0] > _RESOLVED * np.abs(days).max())


def _stray(sample: pa.ChunkedArray) -> str | None:
    """Name the first cell that is no number, where most of a column of text are numbers."""
    text = sample.combine_chunks()
    if kind_of(text.type) != "text":
        return None
    distinct = pc.unique(pc.drop_null(text)).to_pylist()
    if not distinct:
        return None
    strange = {value for value in distinct if value and not _is_number(value)}
    if not strange or 2 * len(strange) >= len(distinct) or len(distinct) < 3:
        return None
    cells = np.flatnonzero(pc.is_in(text, pa.array(sorted(strange))).to_numpy(False))
    if 2 * len(cells) >= len(text):
        return None
    return stray_words(text[int(cells[0])].as_py(), int(cells[0]), len(cells))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_it_is(name: str, counts: _Counts) -> ColumnRecord:
    return ColumnRecord(name, ColumnUse.NUMBER, (FeatureRecord(name),), counts.gaps)


def _without_gaps(column: ColumnRecord) -> ColumnRecord:
    """Return a column whose gaps are not filled, for rows that have none."""
    kept = tuple(one for one in column.features if one.part is not Part.MISSING)
    return ColumnRecord(column.name, column.use, kept, column.gaps, None, column.known, column.base, column.reason)


def _encode_column(name: str, sample: pa.ChunkedArray, counts: _Counts, n_rows: int) -> ColumnRecord:
    """Return the record of a column; what to leave out is decided by the sample."""

    def dropped(reason: DropReason) -> ColumnRecord:
        return ColumnRecord(name, ColumnUse.DROPPED, (), counts.gaps, reason=reason)

    missing = gaps_of(sample)
    present = sample.filter(pa.array(~missing)).combine_chunks()
    if not len(present):
        return dropped(DropReason.EMPTY)
    kind = kind_of(sample.type)
    if kind == "text" and (stamps := stamps_of_text(present)) is not None:
        present, kind = stamps, "date"
    flag = (FeatureRecord(f"{name} missing", Part.MISSING),) if counts.gaps else ()
    if kind == "text":
        return _encode_category(name, present, counts, n_rows)
    values = days_of(present) if kind == "date" else numbers_of(present)
    varies = bool((values != values[0]).any())
    if not varies and not flag:
        return dropped(DropReason.CONSTANT)
    fill = float(np.median(values))
    if pa.types.is_integer(sample.type):
        fill = float(round(fill))
    if kind == "date":
        parts = tuple(FeatureRecord(f"{name}: {part}", part) for part in _date_parts(values))
        return ColumnRecord(name, ColumnUse.DATE, (*parts, *flag), counts.gaps, fill)
    if pa.types.is_integer(sample.type) and not flag and _is_identifier(name, values):
        return dropped(DropReason.IDENTIFIER)
    value = (FeatureRecord(name),) if varies else ()
    return ColumnRecord(name, ColumnUse.NUMBER, (*value, *flag), counts.gaps, fill)


def _is_identifier(name: str, values: NDArray[np.float64]) -> bool:
    """Tell numbers of rows, and distinct numbers under a name such as id."""
    if len(values) < 3:
        return False
    steps = np.diff(values)
    if len(values) > MOST_VALUES and steps[0] > 0 and (steps == steps[0]).all():
        return True
    return bool(_ID_NAME.search(name)) and len(np.unique(values)) > _ID_SHARE * len(values)


def _encode_category(name: str, present: pa.Array, counts: _Counts, n_rows: int) -> ColumnRecord:
    """Return indicators of frequent values, of all others together, and of gaps, but one."""
    counted = pc.value_counts(present)
    values, sizes = counted.field("values").to_pylist(), counted.field("counts").to_numpy()
    order = sorted(range(len(values)), key=lambda i: (-int(sizes[i]), values[i]))
    n, n_values = len(present), len(values)

    def dropped(reason: DropReason) -> ColumnRecord:
        return ColumnRecord(name, ColumnUse.DROPPED, (), counts.gaps, reason=reason)

    if n_values == 1 and not counts.gaps:
        return dropped(DropReason.CONSTANT)
    if n_values > MOST_VALUES and n_values > _ID_SHARE * n:
        return dropped(DropReason.IDENTIFIER)
    rare = n_values > MOST_VALUES
    known = order[: MOST_VALUES - 1] if rare else order
    if rare and sizes[known].sum() < _LEAST_SHARE * n:
        return dropped(DropReason.MANY_VALUES)
    sizes_of: list[tuple[int, FeatureRecord]] = [
        (int(sizes[i]), FeatureRecord(f"{name}={printable(values[i])}", Part.IS, values[i])) for i in known
    ]
    if rare:
        others = n - int(sizes[known].sum())
        sizes_of.append((others, FeatureRecord(f"{name} other", Part.OTHER)))
    if counts.gaps:
        n_gaps = counts.gaps * n // max(1, n_rows - counts.gaps)
        sizes_of.append((n_gaps, FeatureRecord(f"{name} missing", Part.MISSING)))
    base = max(sizes_of, key=lambda one: one[0])[1]
    features = tuple(one for _, one in sizes_of if one is not base)
    words = tuple(values[i] for i in known) if rare else ()
    return ColumnRecord(
        name,
        ColumnUse.CATEGORY,
        features,
        counts.gaps,
        known=words,
        base=base.value if base.part is Part.IS else str(base.part),
    )


def _date_parts(days: NDArray[np.float64]) -> Iterator[Part]:
    """Yield the parts of dates that vary."""
    span = float(days.max() - days.min())
    if span > 0:
        yield Part.DAYS
    if span > 60:
        yield from (Part.YEAR_SIN, Part.YEAR_COS)
    if len(np.unique(np.floor(days))) > 2:
        yield from (Part.WEEK_SIN, Part.WEEK_COS)
    if (days != np.floor(days)).any():
        yield from (Part.HOUR_SIN, Part.HOUR_COS)


def _dtype_of(counts: list[_Counts], records: list[ColumnRecord]) -> str:
    """Return the type that all numbers have, float64 where they have several."""
    types = {one for column in counts for one in column.types if kind_of(one) == "number" and not pa.types.is_null(one)}
    plain = all([feature.part for feature in one.features] == [Part.VALUE] for one in records if one.features)
    if len(types) == 1:
        (only,) = types
        if pa.types.is_floating(only) or (plain and pa.types.is_integer(only)):
            return str(np.dtype(only.to_pandas_dtype()))
        if pa.types.is_boolean(only):
            return "float32"
    return "float64" if types else "float32"


def _without_collinear(record: EncodingRecord, sample: pa.Table) -> EncodingRecord:
    """Leave features out that those before them determine, or that are constant in the sample."""
    dim = len(record.features)
    if not 0 < dim <= _MOST_COLLINEAR_DIM:
        return record
    whole = sample.filter(pa.array(_complete(record, sample)))
    whole = whole.take(np.arange(0, whole.num_rows, max(1, whole.num_rows // _COLLINEAR_ROWS)))
    if whole.num_rows <= 2 * dim:
        return record
    X = encode(record, whole).astype(np.float64)
    if not np.isfinite(X).all():
        return record
    plain = np.array([one.part is Part.VALUE for c in record.columns for one in c.features])
    order = np.argsort(~plain, kind="stable")
    spread = X.std(axis=0)
    varies = spread > _RESOLVED * np.abs(X.mean(axis=0))
    Z = (X - X.mean(axis=0)) / np.where(varies, spread, np.inf)
    kept = _independent(Z.T @ Z / len(Z), order)
    gone = {name for name, keep in zip(record.features, kept, strict=True) if not keep}
    if not gone:
        return record
    columns = []
    for column in record.columns:
        left = tuple(one for one in column.features if one.name not in gone)
        if column.features and not left:
            columns.append(ColumnRecord(column.name, ColumnUse.DROPPED, (), column.gaps, reason=DropReason.COLLINEAR))
        else:
            columns.append(
                ColumnRecord(
                    column.name, column.use, left, column.gaps, column.fill, column.known, column.base, column.reason
                )
            )
    return EncodingRecord(tuple(columns), record.dtype)


def _complete(record: EncodingRecord, sample: pa.Table) -> NDArray[np.bool_]:
    """Return which rows of a sample have all that the encoding does not fill."""
    keep = np.ones(sample.num_rows, dtype=np.bool_)
    for column in record.columns:
        fills = column.fill is not None or any(one.part is Part.MISSING for one in column.features)
        if column.features and column.gaps and not fills:
            keep &= ~gaps_of(sample.column(column.name))
    return keep


def _independent(gram: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which features, taken in this order, those before them do not determine."""
    dim = len(gram)
    kept = np.zeros(dim, dtype=np.bool_)
    residual = gram.copy()
    for j in order:
        pivot = residual[j, j]
        if pivot <= _COLLINEAR:
            continue
        kept[j] = True
        row = residual[j] / math.sqrt(pivot)
        residual -= np.outer(row, row)
    return kept


def numbers_of(column: Any) -> NDArray[Any]:
    """Return numbers as an array; NaN where one is missing."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    elif pa.types.is_duration(column.type) or pa.types.is_time(column.type):
        unit = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[column.type.unit]
        width = pa.int32() if column.type.bit_width == 32 else pa.int64()
        column = pc.divide(column.cast(width).cast(pa.float64(), safe=False), unit)
    if column.null_count and not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)  # what would be rounded was refused
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def stamps_of_text(column: Any) -> Any:
    """Return text as timestamps; None unless every value is a date as of ISO 8601."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    coded = column.dictionary_encode()
    if not all(value is None or _ISO.match(value) for value in coded.dictionary.to_pylist()):
        return None
    for zone in (None, "UTC"):
        try:
            return coded.dictionary.cast(pa.timestamp("us", tz=zone)).take(coded.indices)
        except pa.ArrowInvalid:
            continue
    return None


def days_of(column: Any) -> NDArray[np.float64]:
    """Return dates as days since 1970; NaN where one is missing."""
    if kind_of(column.type) == "text":
        column = plain_text(column)
        found = stamps_of_text(pc.if_else(pc.equal(column, ""), None, column))
        if found is None:
            raise ValueError("text that is no date")
        column = found
    if pa.types.is_timestamp(column.type) and column.type.tz:
        column = column.cast(pa.timestamp("us", tz="UTC"))
    stamps = column.cast(pa.timestamp("us")) if not pa.types.is_timestamp(column.type) else column
    unit = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[stamps.type.unit]
    seconds = pc.divide(stamps.cast(pa.int64()).cast(pa.float64(), safe=False), unit)
    return numbers_of(pc.divide(seconds, 86_400.0))


def encode(record: EncodingRecord, rows: pa.Table) -> NDArray[Any]:
    """Return the features (rows, features) of rows of a table."""
    n, dtype = rows.num_rows, np.dtype(record.dtype)
    X = np.empty((n, len(record.features)), dtype=dtype)
    plain: list[tuple[int, NDArray[Any]]] = []
    at = 0
    for column in record.columns:
        if column.features:
            plain += [(at + j, values) for j, values in enumerate(_features_of(column, rows.column(column.name)))]
            at += len(column.features)
    for start in range(0, n, _SUB_ROWS):  # few rows at once, so that they stay in the cache
        window = slice(start, start + _SUB_ROWS)
        for j, values in plain:
            X[window, j] = values[window]
    return X


def _features_of(column: ColumnRecord, cells: pa.ChunkedArray) -> list[NDArray[Any]]:
    """Return the features of one column."""
    missing = gaps_of(cells) if column.fill is not None or column.use != ColumnUse.NUMBER else None
    if column.use is ColumnUse.CATEGORY:
        return _indicators(column, cells, missing)
    values = _numbers(column, cells)
    if column.fill is not None and missing is not None and missing.any():
        values = np.where(missing, column.fill, values)
    found = []
    for one in column.features:
        if one.part is Part.VALUE or one.part is Part.DAYS:
            found.append(values)
        elif one.part is Part.MISSING:
            found.append(np.zeros(len(cells)) if missing is None else missing)
        else:
            found.append(_cyclic(one.part, values))
    return found


def _numbers(column: ColumnRecord, cells: pa.ChunkedArray) -> NDArray[Any]:
    """Return numbers or days; an error where the column holds something else now."""
    kind = kind_of(cells.type)
    if column.use is ColumnUse.NUMBER and (found := _find_rounded(cells)) is not None:
        raise DataError(f"column {column.name!r} holds {words_on_rounded(found[0])}")
    try:
        if kind == "empty":
            return np.full(len(cells), np.nan)
        if column.use is ColumnUse.DATE:
            return days_of(cells)
        if kind != "number":
            cells = plain_text(cells)
            cells = pc.if_else(pc.equal(cells, ""), None, cells).cast(pa.float64())
        return numbers_of(cells)
    except (pa.ArrowException, ValueError, TypeError) as error:
        wanted = "dates" if column.use is ColumnUse.DATE else "numbers"
        raise DataError(
            f"column {column.name!r}: {cells.type} found where {wanted} were fitted; convert it, or fit again"
        ) from error


_PERIODS = {
    Part.YEAR_SIN: (365.2425, np.sin),
    Part.YEAR_COS: (365.2425, np.cos),
    Part.WEEK_SIN: (7.0, np.sin),
    Part.WEEK_COS: (7.0, np.cos),
    Part.HOUR_SIN: (1.0, np.sin),
    Part.HOUR_COS: (1.0, np.cos),
}


def _cyclic(part: Part, days: NDArray[np.float64]) -> NDArray[np.float64]:
    period, wave = _PERIODS[part]
    whole = np.floor(days) if part in (Part.WEEK_SIN, Part.WEEK_COS) else days
    return np.asarray(wave(2 * math.pi * whole / period))


def _indicators(column: ColumnRecord, cells: pa.ChunkedArray, missing: NDArray[np.bool_] | None) -> list[NDArray[Any]]:
    """Return 1 where a row has the value of a feature; of unseen values only "other" is 1."""
    text = plain_text(cells)
    if kind_of(text.type) != "text":
        text = text.cast(pa.string())
    wanted = [one.value for one in column.features if one.part is Part.IS]
    listed = list(dict.fromkeys([*wanted, *column.known]))
    codes = pc.index_in(text, pa.array(listed, pa.string()).cast(text.type))
    places = pc.fill_null(codes, -1).to_numpy()
    gaps = np.zeros(len(cells), np.bool_) if missing is None else missing
    found: list[NDArray[Any]] = []
    for one in column.features:
        if one.part is Part.MISSING:
            found.append(gaps)
        elif one.part is Part.OTHER:
            found.append((places < 0) & ~gaps)
        else:
            found.append((places == listed.index(one.value)) & ~gaps)
    return found


def count_words(record: EncodingRecord) -> str:
    """Return one sentence on what became of the columns."""
    used = [one for one in record.columns if one.features]
    gone = [one for one in record.columns if not one.features]
    said = f"{plural(len(used), 'column')} became {plural(len(record.features), 'feature')}"
    return said + (f", {len(gone)} left out" if gone else "")
