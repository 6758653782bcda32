"""Encoding of tables: columns of any kind become numeric features, as a record that can be reused.

Numbers stay as they are; text becomes indicators of its most frequent values; dates become days and
cyclic parts; gaps are filled with the median beside an indicator. Constants, identifiers and what
other features determine are left out. Decisions rest on a sample of rows taken at regular
distances, counts of gaps and labels on all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamhalf.data.schema import words_on_rounded
from streamhalf.data.survey import Counts, Survey, first_rounded, gaps_of, kind_of, plain_text
from streamhalf.data.tables import CsvTable, Table, stray_words
from streamhalf.errors import DataError
from streamhalf.redact import printable
from streamhalf.results import ColumnRecord, ColumnUse, DropReason, EncodingRecord, FeatureRecord, Part, replace

MOST_VALUES = 32  # Values of a category that can have an indicator, the one that is left out included
_ID_SHARE = 0.9
_LEAST_SHARE = 0.05  # Of rows, that the values of a category with an indicator must have together
_WORD_SHARE = 0.01  # Of rows, from which words among few numbers are meant
_RESOLVED = 1e-10  # Of the mean: values that spread by less are constant up to rounding
_COLLINEAR = 1e-8  # Share of a feature's variance that others must leave unexplained
_COLLINEAR_ROWS, _MOST_COLLINEAR_DIM = 1 << 16, 1024
_ID_NAME = re.compile(r"(^|[_\W])(id|ids|index|rownames|rowid|uuid|guid|key)$|^unnamed", re.I)
_SUB_ROWS = 4096
_MOST_FAULTS = 12
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$")
_DAYS = ("%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%m-%Y", "%m-%d-%Y",
         "%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y")  # fmt: skip
# How dates are written beside ISO 8601; of two that fit all values the first
_DATE_FORMS = [f"{day}{time}" for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S", " %I:%M:%S %p", " %I:%M %p")]
_EARLIEST = np.datetime64("1000-01-01", "s").astype(np.int64)
_SIGNS = "[-+]?[$€£¥]? ?[-+]?"
# How numbers are written in text, by the decimal mark: with thousands, currencies and percents
_NUMBERS = {
    ".": _SIGNS + r"(?:\d+|[1-9]\d{0,2}(?:[,' \x{a0}\x{202f}]\d{3})+)?(?:\.\d*)?(?:[eE][-+]?\d+)? ?[$€£¥%]?",
    ",": _SIGNS + r"(?:\d+|[1-9]\d{0,2}(?:[.' \x{a0}\x{202f}]\d{3})+)?(?:,\d*)?(?:[eE][-+]?\d+)? ?[$€£¥%]?",
}
_PLAIN = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"


def make_encoding(
    table: Table,
    found: Survey,
    columns: Sequence[str],
    *,
    automatic: bool,
    fill: bool,
    named: Container[str],
    faults: list[str],
) -> EncodingRecord | None:
    """Decide what becomes of every one of the columns; what is wrong goes to `faults`, a sentence for each.

    Without `automatic`, numbers alone are taken, as they are. `fill` fills gaps, instead of leaving rows with gaps out
    or refusing them. Columns in `named` were asked for: numbers among them are no identifiers.
    """
    records: list[ColumnRecord] = []
    before = len(faults)
    for name in columns:
        counts, sample = found.counts[name], found.sample.column(name)
        if said := _fault_of(sample, counts, automatic=automatic):
            faults.append(f"column {name!r} {said}")
        elif automatic:
            one = _encode_column(name, sample, counts, found.n_rows, loose=isinstance(table, CsvTable))
            if one.reason is DropReason.IDENTIFIER and name in named and kind_of(sample.type) == "number":
                one = _as_it_is(name, counts)
            records.append(one if fill else _without_gaps(one))
        else:
            records.append(_as_it_is(name, counts))
    if len(faults) > before:
        return None
    encoding = EncodingRecord(tuple(records), _dtype_of(found, records))
    if automatic:
        encoding = _without_collinear(encoding, found.sample)
    if not encoding.features:
        shown = ", ".join(f"{one.name!r} {one.reason}" for one in records[:_MOST_FAULTS]) or "there is none"
        faults.append(
            f"no column is left for features ({shown}); give columns that vary, or encode='none' for numbers as "
            "they are"
        )
    return encoding


def refuse(name: str, faults: Sequence[str]) -> None:
    if faults:
        shown = "; ".join(faults[:_MOST_FAULTS])
        more = f"; and {len(faults) - _MOST_FAULTS} more" if len(faults) > _MOST_FAULTS else ""
        of_columns = any(one.startswith("column ") for one in faults)
        raise DataError(f"{name}: {shown}{more}{' (leave columns out with drop=, --drop)' if of_columns else ''}")


def large_faults(found: Survey, encoding: EncodingRecord) -> list[str]:
    numbers = (one for one in encoding.columns if one.features and one.use is ColumnUse.NUMBER)
    larges = {one.name: found.counts[one.name].large for one in numbers}
    return [f"column {name!r} {_large_words(*large)}" for name, large in larges.items() if large is not None]


def _large_words(value: Any, row: int) -> str:
    return f"holds in row {row} (counting from 0) {words_on_rounded(value)}"


def _fault_of(sample: pa.ChunkedArray, counts: Counts, *, automatic: bool) -> str | None:
    """Say why a column cannot be used; None if it can."""
    kinds = counts.kinds
    if counts.large is not None:
        return _large_words(*counts.large)
    if others := [kind for kind in kinds if kind not in ("number", "text", "date")]:
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
    if not ends["min"].is_valid or ends["min"] == ends["max"]:
        return True
    first, last = _days_of(pa.array([ends["min"], ends["max"]], dates.type))
    return bool(last - first > _RESOLVED * max(abs(first), abs(last)))


def _stray(sample: pa.ChunkedArray) -> str | None:
    """Name the first cell that is no number, where most of a column of text are numbers.

    Few values with some words among them that are not rare (0, 1, 2, 3+) are a category.
    """
    text = plain_text(sample).combine_chunks()
    if kind_of(text.type) != "text":
        return None
    distinct = pc.unique(text.filter(pa.array(~gaps_of(text))))
    if len(distinct) < 3:
        return None
    strange = distinct.filter(pc.invert(pc.or_(_are_numbers(distinct, "."), _are_numbers(distinct, ","))))
    cells = np.flatnonzero(pc.is_in(text, strange).to_numpy(False))
    if not len(strange) or 2 * len(strange) >= len(distinct) or 2 * len(cells) >= len(text):
        return None
    if len(distinct) <= MOST_VALUES and len(cells) >= _WORD_SHARE * len(text):
        return None
    return stray_words(text[int(cells[0])].as_py(), int(cells[0]), len(cells))


def _are_numbers(texts: pa.Array, mark: str) -> pa.BooleanArray:
    fits = pc.match_substring_regex(texts, f"^(?:{_NUMBERS[mark]})$")
    return pc.and_(fits, pc.match_substring_regex(texts, "[0-9]"))


def _number_form(values: pa.Array, *, loose: bool) -> str:
    """Return the decimal mark of numbers in distinct texts; empty where some value is none.

    Unless `loose`, plain numbers alone are words: whoever stored them as text meant codes.
    """
    if not loose and pc.all(pc.match_substring_regex(values, _PLAIN)).as_py():
        return ""
    for mark in _NUMBERS:
        if pc.all(_are_numbers(values, mark)).as_py():
            units = pc.unique(pc.replace_substring_regex(values, "[^$€£¥%]", ""))
            return mark if len(units) == 1 else ""
    return ""


def _date_form(values: pa.Array) -> str:
    """Return how dates in text are written, other than by ISO 8601; empty where some value is none."""
    first = values[0].as_py()
    if not first[-1:].isalnum() or not any(map(str.isdigit, first)):
        return ""
    for form in _DATE_FORMS:
        if _stamps(values[:1], form) is not None and _stamps(values, form) is not None:
            return form
    return ""


def _stamps(text: Any, form: str) -> Any:
    """Return text as timestamps; None unless every value is a date of this form (ISO 8601 if empty)."""
    if isinstance(text, pa.ChunkedArray):
        text = text.combine_chunks()
    coded = text.dictionary_encode()
    values = coded.dictionary
    if form:
        found = pc.strptime(values, format=form, unit="s", error_is_null=True)
        early = pc.any(pc.less(found.cast(pa.int64()), int(_EARLIEST))).as_py()
        return None if found.null_count > values.null_count or early else found.take(coded.indices)
    if not all(value is None or _ISO.match(value) for value in values.to_pylist()):
        return None
    for zone in (None, "UTC"):
        try:
            return values.cast(pa.timestamp("us", tz=zone)).take(coded.indices)
        except pa.ArrowInvalid:
            continue
    return None


def _as_it_is(name: str, counts: Counts) -> ColumnRecord:
    return ColumnRecord(name, ColumnUse.NUMBER, (FeatureRecord(name),), counts.gaps)


def _dropped(name: str, gaps: int, reason: DropReason) -> ColumnRecord:
    return ColumnRecord(name, ColumnUse.DROPPED, (), gaps, reason=reason)


def _without_gaps(column: ColumnRecord) -> ColumnRecord:
    """Return a column whose gaps are not filled, for rows that have none."""
    kept = tuple(one for one in column.features if one.part is not Part.MISSING)
    return replace(column, features=kept, fill=None)


def _encode_column(name: str, sample: pa.ChunkedArray, counts: Counts, n_rows: int, *, loose: bool) -> ColumnRecord:
    missing = gaps_of(sample)
    present = sample.filter(pa.array(~missing)).combine_chunks()
    if not len(present):
        return _dropped(name, counts.gaps, DropReason.EMPTY)
    kind, form = kind_of(sample.type), ""
    if kind == "text":
        distinct = plain_text(pc.unique(present))
        marked = bool((missing & ~gaps_of(sample, marks=False)).any())
        if (stamps := _stamps(present, "")) is not None or (form := _date_form(distinct)):
            present, kind = (_stamps(present, form) if form else stamps), "date"
        elif form := _number_form(distinct, loose=loose or marked):
            present, kind = _numbers_in(present, form), "number"
        else:
            return _encode_category(name, present, counts, n_rows)
    flag = (FeatureRecord(f"{name} missing", Part.MISSING),) if counts.gaps else ()
    values = _days_of(present) if kind == "date" else _numbers_of(present)
    varies = bool((values != values[0]).any())
    if not varies and not flag:
        return _dropped(name, counts.gaps, DropReason.CONSTANT)
    fill = float(np.median(values))
    whole = pa.types.is_integer(sample.type)
    if kind == "date":
        parts = tuple(FeatureRecord(f"{name}: {part}", part) for part in _date_parts(values))
        return ColumnRecord(name, ColumnUse.DATE, (*parts, *flag), counts.gaps, fill, form=form)
    if whole and not flag and _is_identifier(name, values):
        return _dropped(name, counts.gaps, DropReason.IDENTIFIER)
    value = (FeatureRecord(name),) if varies else ()
    fill = float(round(fill)) if whole else fill
    return ColumnRecord(name, ColumnUse.NUMBER, (*value, *flag), counts.gaps, fill, form=form)


def _is_identifier(name: str, values: NDArray[np.float64]) -> bool:
    """Tell numbers of rows, and distinct numbers under a name such as id."""
    if len(values) < 3:
        return False
    steps = np.diff(values)
    if len(values) > MOST_VALUES and steps[0] > 0 and (steps == steps[0]).all():
        return True
    return bool(_ID_NAME.search(name)) and len(np.unique(values)) > _ID_SHARE * len(values)


def _encode_category(name: str, present: pa.Array, counts: Counts, n_rows: int) -> ColumnRecord:
    """Return indicators of frequent values, of all others together, and of gaps, but one."""
    counted = pc.value_counts(present)
    values, sizes = counted.field("values").to_pylist(), counted.field("counts").to_numpy()
    order = sorted(range(len(values)), key=lambda i: (-int(sizes[i]), values[i]))
    n, n_values, rare = len(present), len(values), len(values) > MOST_VALUES
    known = order[: MOST_VALUES - 1] if rare else order
    reason = None
    if n_values == 1 and not counts.gaps:
        reason = DropReason.CONSTANT
    elif rare and n_values > _ID_SHARE * n:
        reason = DropReason.IDENTIFIER
    elif rare and sizes[known].sum() < _LEAST_SHARE * n:
        reason = DropReason.MANY_VALUES
    if reason is not None:
        return _dropped(name, counts.gaps, reason)
    sized = [(int(sizes[i]), FeatureRecord(f"{name}={printable(values[i])}", Part.IS, values[i])) for i in known]
    if rare:
        sized.append((n - int(sizes[known].sum()), FeatureRecord(f"{name} other", Part.OTHER)))
    if counts.gaps:
        n_gaps = counts.gaps * n // max(1, n_rows - counts.gaps)
        sized.append((n_gaps, FeatureRecord(f"{name} missing", Part.MISSING)))
    base = max(sized, key=lambda one: one[0])[1]
    return ColumnRecord(
        name,
        ColumnUse.CATEGORY,
        tuple(one for _, one in sized if one is not base),
        counts.gaps,
        known=tuple(values[i] for i in known) if rare else (),
        base=base.value if base.part is Part.IS else str(base.part),
    )


def _date_parts(days: NDArray[np.float64]) -> Iterator[Part]:
    span = float(days.max() - days.min())
    if span > 0:
        yield Part.DAYS
    if span > 60:
        yield from (Part.YEAR_SIN, Part.YEAR_COS)
    if len(np.unique(np.floor(days))) > 2:
        yield from (Part.WEEK_SIN, Part.WEEK_COS)
    if (days != np.floor(days)).any():
        yield from (Part.HOUR_SIN, Part.HOUR_COS)


def _dtype_of(found: Survey, records: list[ColumnRecord]) -> str:
    """Return the type that all numbers have, float64 where they have several."""
    used = [one for one in records if one.features]
    types = {one for column in used for one in found.counts[column.name].types if kind_of(one) == "number"}
    plain = all([feature.part for feature in one.features] == [Part.VALUE] for one in used)
    written = any(one.use is ColumnUse.NUMBER and one.form for one in used)
    if len(types) == 1 and not written:
        (only,) = types
        if pa.types.is_floating(only) or (plain and pa.types.is_integer(only)):
            return str(np.dtype(only.to_pandas_dtype()))
        if pa.types.is_boolean(only):
            return "float32"
    return "float64" if types or written else "float32"


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
    spread, centre = X.std(axis=0), X.mean(axis=0)
    Z = (X - centre) / np.where(spread > _RESOLVED * np.abs(centre), spread, np.inf)
    kept = _independent(Z.T @ Z / len(Z), np.argsort(~plain, kind="stable"))
    gone = {name for name, keep in zip(record.features, kept, strict=True) if not keep}
    columns = []
    for column in record.columns:
        left = tuple(one for one in column.features if one.name not in gone)
        if column.features and not left:
            column = _dropped(column.name, column.gaps, DropReason.COLLINEAR)
        columns.append(replace(column, features=left))
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
    kept = np.zeros(len(gram), dtype=np.bool_)
    residual = gram.copy()
    for j in order:
        if (pivot := residual[j, j]) > _COLLINEAR:
            kept[j] = True
            row = residual[j] / math.sqrt(pivot)
            residual -= np.outer(row, row)
    return kept


_UNITS = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


def _numbers_of(column: Any) -> NDArray[Any]:
    """Return numbers as an array; NaN where one is missing."""
    if pa.types.is_duration(column.type) or pa.types.is_time(column.type):
        width = pa.int32() if column.type.bit_width == 32 else pa.int64()
        column = pc.divide(column.cast(width).cast(pa.float64(), safe=False), _UNITS[column.type.unit])
    elif not pa.types.is_floating(column.type) and (column.null_count or not pa.types.is_integer(column.type)):
        column = column.cast(pa.float64(), safe=False)  # what would be rounded was refused
    return np.asarray(column)


def _numbers_in(text: Any, form: str) -> Any:
    """Return numbers that are written in text as floats; gaps are missing."""
    text = pc.if_else(pa.array(gaps_of(text)), None, text)
    mark = form or "."
    fits = pc.match_substring_regex(text, f"^(?:{_NUMBERS[mark]})$")
    if not pc.all(fits, min_count=0).as_py():
        strange = text.filter(pc.invert(fits))[0].as_py()
        raise ValueError(f"{printable(strange)!r}")
    text = pc.replace_substring_regex(text, r"[$€£¥%' +\x{a0}\x{202f}]", "")
    text = pc.replace_substring(text, "," if mark == "." else ".", "")
    return pc.replace_substring(text, ",", ".").cast(pa.float64())


def _days_of(column: Any, form: str = "") -> NDArray[np.float64]:
    """Return dates as days since 1970; NaN where one is missing."""
    if kind_of(column.type) == "text":
        text = plain_text(column)
        column = _stamps(pc.if_else(pa.array(gaps_of(text)), None, text), form)
        if column is None:
            raise ValueError("text that is no date" + (f" as of {form}" if form else ""))
    if pa.types.is_timestamp(column.type) and column.type.tz:
        column = column.cast(pa.timestamp("us", tz="UTC"))
    stamps = column if pa.types.is_timestamp(column.type) else column.cast(pa.timestamp("us"))
    seconds = pc.divide(stamps.cast(pa.int64()).cast(pa.float64(), safe=False), _UNITS[stamps.type.unit])
    return _numbers_of(pc.divide(seconds, 86_400.0))


def encode(record: EncodingRecord, rows: pa.Table) -> NDArray[Any]:
    n = rows.num_rows
    X = np.empty((n, len(record.features)), dtype=np.dtype(record.dtype))
    used = (column for column in record.columns if column.features)
    features = [values for column in used for values in _features_of(column, rows.column(column.name))]
    for start in range(0, n, _SUB_ROWS):  # few rows at once, so that they stay in the cache
        window = slice(start, start + _SUB_ROWS)
        for j, values in enumerate(features):
            X[window, j] = values[window]
    return X


def _features_of(column: ColumnRecord, cells: pa.ChunkedArray) -> list[NDArray[Any]]:
    fills = column.fill is not None or column.use is not ColumnUse.NUMBER
    missing = gaps_of(cells) if fills else np.zeros(len(cells), np.bool_)
    if column.use is ColumnUse.CATEGORY:
        return _indicators(column, cells, missing)
    values = _values_of(column, cells)
    if column.fill is not None and missing.any():
        values = np.where(missing, column.fill, values)
    plain = {Part.VALUE: values, Part.DAYS: values, Part.MISSING: missing}
    return [plain[one.part] if one.part in plain else _cyclic(one.part, values) for one in column.features]


def _values_of(column: ColumnRecord, cells: pa.ChunkedArray) -> NDArray[Any]:
    """Return numbers or days; an error where the column holds something else now."""
    kind = kind_of(cells.type)
    if column.use is ColumnUse.NUMBER and (found := first_rounded(cells)) is not None:
        raise DataError(f"column {column.name!r} holds {words_on_rounded(found[0])}")
    try:
        if kind == "empty":
            return np.full(len(cells), np.nan)
        if column.use is ColumnUse.DATE:
            return _days_of(cells, column.form)
        return _numbers_of(cells if kind == "number" else _numbers_in(plain_text(cells), column.form))
    except (pa.ArrowException, ValueError, TypeError) as error:
        wanted = "dates" if column.use is ColumnUse.DATE else "numbers"
        said = f" ({error})" if isinstance(error, ValueError) and not isinstance(error, pa.ArrowException) else ""
        raise DataError(
            f"column {column.name!r}: {cells.type} found where {wanted} were fitted{said}; convert it, or fit again"
        ) from error


# Days after which a cyclic part comes again; the hour is that of a day
_PERIODS = {"year": 365.2425, "week": 7.0, "hour": 1.0}


def _cyclic(part: Part, days: NDArray[np.float64]) -> NDArray[np.float64]:
    name, wave = part.value.split()
    angles = 2 * math.pi * (np.floor(days) if name == "week" else days) / _PERIODS[name]
    return np.sin(angles) if wave == "sin" else np.cos(angles)


def _indicators(column: ColumnRecord, cells: pa.ChunkedArray, gaps: NDArray[np.bool_]) -> list[NDArray[Any]]:
    """Return 1 where a row has the value of a feature; of unseen values only "other" is 1."""
    text = plain_text(cells)
    if kind_of(text.type) != "text":
        text = text.cast(pa.string())
    wanted = [one.value for one in column.features if one.part is Part.IS]
    listed = list(dict.fromkeys([*wanted, *column.known]))
    codes = pc.index_in(text, pa.array(listed, pa.string()).cast(text.type))
    places = np.where(gaps, len(listed), pc.fill_null(codes, -1).to_numpy())
    numbers = {Part.MISSING: len(listed), Part.OTHER: -1}
    return [
        places == (listed.index(one.value) if one.part is Part.IS else numbers[one.part]) for one in column.features
    ]
