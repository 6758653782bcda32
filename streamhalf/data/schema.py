"""Validation of rows: raw arrays become a checked block here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.errors import DataError

_BITS = 53  # Of the significand of a float64: all integers up to 2^53 are one
REMEDY = (
    "subtract an offset before it is stored (the feature's smallest value, or a start where it is "
    "a time stamp), so that every integer is at most 2^53 = 9,007,199,254,740,992"
)


def find_rounded(values: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return True for values that float64 cannot hold; None where it holds them all."""
    kind, nbytes = values.dtype.kind, values.dtype.itemsize
    if values.size == 0 or (kind in "fiu" and nbytes < 8) or (kind == "f" and nbytes == 8):
        return None
    if kind in "iu":
        if int(values.min()) >= -(1 << _BITS) and int(values.max()) <= 1 << _BITS:
            return None
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        sizes = np.abs(native).view(np.uint64)  # that of -2^63 too
        lowest_bit = sizes & (~sizes + np.uint64(1))
        found = (sizes > 1 << _BITS) & (sizes >> np.uint64(_BITS) >= lowest_bit)
    elif kind == "f":
        with np.errstate(over="ignore", under="ignore"):
            found = (values.astype(np.float64) != values) & (values == values)
    elif kind == "O":
        with np.errstate(invalid="ignore"):
            found = np.frompyfunc(_is_rounded, 1, 1)(values).astype(np.bool_)
    else:
        return None
    return found if found.any() else None


def words_on_rounded(value: Any) -> str:
    kind = "wider floats" if isinstance(value, np.floating) else "integers beyond 2^53"
    return f"{value!s}, which float64 would round, as {kind} are; {REMEDY}"


def refuse_rounded(name: str, values: NDArray[Any], columns: Sequence[Any] = ()) -> None:
    if values.ndim != 2 or (found := find_rounded(values)) is None:
        return
    row, column = np.argwhere(found)[0].tolist()
    feature, said = _name_of(columns, column), words_on_rounded(values[row, column])
    raise DataError(f"{name}: row {row} (counting from 0) holds in feature {feature} {said}")


def array_of(name: str, rows: Any) -> NDArray[Any]:
    """Rows as an array; integers among the floats of a list are refused where they are rounded."""
    found = np.asarray(rows)
    if isinstance(rows, list | tuple) and found.dtype.kind == "f":
        refuse_rounded(name, np.asarray(rows, dtype=object))
    return found


def _is_rounded(value: Any) -> bool:
    """Return True for an integer, or the text of one, that float64 cannot hold."""
    try:
        whole = int(value.removesuffix(".0") if isinstance(value, str) else value)
        return (isinstance(value, str) or whole == value) and whole != int(float(whole))
    except OverflowError:
        return isinstance(value, int)
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class LabelCoding:
    """The stored values that stand for -1 and +1."""

    low: Any
    high: Any
    rest: bool = False
    """Every value but `high` stands for -1, and `low` names them all."""

    @property
    def values(self) -> tuple[Any, Any]:
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.low}/{'+1' if self == SIGNS else self.high}"


LARGEST = 1e150  # Features beyond this are refused: their squares overflow
SIGNS, BITS = LabelCoding(-1, 1), LabelCoding(0, 1)


def find_coding(labels: str, values: NDArray[Any]) -> LabelCoding | None:
    """The coding that explains the values, or None where more of them must be seen.

    That is -1/+1, 0/1, or any other two; where there are more than two, those that are neither of
    a usual pair are named when they are read.
    """
    found = distinct(labels, values)
    numbers = all(isinstance(value, int | float) for value in found)
    usual = {value for value in found if value in (-1, 0, 1)} if numbers else set()
    for coding in (SIGNS, BITS) if usual - {1} else ():
        if usual <= set(coding.values) and (len(found) > 2 or usual == set(found)):
            return coding
    if len(found) < 3:
        return LabelCoding(*(found[::-1] if found == ["+", "-"] else found)) if len(found) == 2 else None
    shown = ", ".join(str(value) for value in found[:5])
    raise DataError(
        f"{labels}: values {shown} found; expected two, such as -1 and +1; recode the labels to "
        "two classes, or name the one to tell from the rest (positive=..., --positive VALUE)"
    )


def is_rest(low: Any, high: Any) -> bool:
    """Return True if one label stands for all but the other; 0.0 may have come back as 0."""
    names = {f"not {high}", f"not {float(high)}" if isinstance(high, int) else ""}
    return str(low) in names


def coding_like(labels: str, known: tuple[Any, ...], stored: Mapping[Any, Any]) -> LabelCoding:
    """The coding of a result's classes, by what is stored for each label; others are refused."""
    low, high = known
    rest = is_rest(low, high)
    if not rest and (strange := [str(one) for one in stored if one not in known]):
        raise DataError(
            f"{labels}: labels {' and '.join(strange[:5])}; the result knows {low} and {high}: recode the labels, or "
            "give the features alone where labels are not needed"
        )
    return LabelCoding(stored.get(low, low), stored.get(high, high), rest and low not in stored)


def distinct(labels: str, values: NDArray[Any]) -> list[Any]:
    """The values that occur, in their order; what is missing (NaN, None, no text) is left out."""
    if values.dtype.kind == "b":
        return list(np.unique(values).tolist())
    if values.dtype.kind in "iuf":
        found = np.unique(values)
        return [int(value) if value == int(value) else value for value in found[np.isfinite(found)].tolist()]
    kinds = set(values[_is_label(values)].tolist())
    try:
        return sorted(kinds)
    except TypeError as error:
        names = ", ".join(sorted({type(value).__name__ for value in kinds}))
        raise DataError(f"{labels}: values of several kinds ({names}); use one") from error


def is_feature_dtype(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (2, 4, 8))


def words_on_dtype(dtype: np.dtype[Any]) -> str:
    how = "convert it" if dtype.kind not in "mM" else "give the time since a start as a number"
    return f"dtype {dtype}; expected floats of 16 to 64 bits, integers or bool ({how})"


def working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of computation: the features' own floats, or ones that hold integers."""
    if dtype.kind == "f" and dtype.itemsize > 2:
        return dtype.newbyteorder("=")
    return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class RowSchema:
    """Names, dimension, coding and stored chunk sizes, for checks and for words in errors.

    `columns` are the names of the features, if they have any; `classes` what labels that were coded before stand for.
    """

    features: str
    labels: str
    dim: int
    coding: LabelCoding
    features_chunk_rows: int
    labels_chunk_rows: int
    columns: tuple[str, ...] = ()
    classes: tuple[Any, ...] = ()

    @property
    def label_values(self) -> tuple[bool | int | float | str, ...]:
        """Return the labels that -1 and +1 stand for."""
        return tuple(map(plain_label, self.classes or self.coding.values))

    def block(self, ranges: RowRanges, X: NDArray[Any], y: NDArray[Any]) -> Block:
        """Check raw rows and map labels to ±1."""
        n_rows = ranges.n_rows
        if X.shape != (n_rows, self.dim) or y.shape != (n_rows,):
            span = ranges.span
            raise DataError(
                f"{self.features}, {self.labels}: rows {span.start} to {span.stop - 1} came with "
                f"shapes {X.shape} and {y.shape}; the data changed after they were opened"
            )
        rows = ranges.numbers()
        self._check_exact(rows, X)
        features = np.ascontiguousarray(X, dtype=working_dtype(X.dtype))
        self._check_features(rows, features)
        return Block(features, self._map_labels(rows, y), rows)

    def read_arrays(self, item: tuple[RowRanges, RowRange, NDArray[Any], NDArray[Any]]) -> tuple[Block]:
        """The block of rows of a chunk that is in memory already."""
        ranges, chunk, X, y = item
        if ranges.n_rows < chunk.n_rows == len(X) == len(y):
            X, y = ranges.take_from(X, chunk.start), ranges.take_from(y, chunk.start)
        return (self.block(ranges, X, y),)

    def _check_exact(self, rows: NDArray[np.int64], X: NDArray[Any]) -> None:
        if not is_feature_dtype(X.dtype):  # chunks of a Dask array may break its promise
            raise DataError(f"{self.features}: row {rows[0]} came with {words_on_dtype(X.dtype)}")
        if (rounded := find_rounded(X)) is not None:
            where, place, name = self._locate(rows, rounded)
            raise DataError(f"{where} in feature {name} {words_on_rounded(X[place])}")

    def _check_features(self, rows: NDArray[np.int64], X: NDArray[np.floating[Any]]) -> None:
        flat = X.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            # the cheapest that no NaN and no infinity gets past; large values may fail it too
            if math.isfinite(flat @ flat):
                return
        # NaN is within no bounds
        if float(X.min()) >= -LARGEST and float(X.max()) <= LARGEST:
            return
        finite = np.isfinite(X)
        if finite.all():
            row, column = np.unravel_index(int(np.argmax(np.abs(X))), X.shape)
            raise DataError(
                f"{self.features}: row {rows[row]} (counting from 0) holds {X[row, column]:.3g} in "
                f"feature {_name_of(self.columns, int(column))}; the limit is {LARGEST:g}, whose square is "
                "still a number: scale the feature, or remove what is no measurement"
            )
        where, place, name = self._locate(rows, ~finite)
        remedy = (
            "leave these rows out (missing='drop', --missing drop), fill gaps with medians "
            "(missing='fill'), or impute them (of a data frame: frame.dropna())"
            if np.isnan(X[place])
            else "replace infinities or remove these rows (of a data frame: "
            "frame.replace([numpy.inf, -numpy.inf], numpy.nan).dropna())"
        )
        raise DataError(f"{where} NaN or infinite values (first: {X[place]} in feature {name}); {remedy}")

    def _locate(self, rows: NDArray[np.int64], found: NDArray[np.bool_]) -> tuple[str, tuple[int, int], str]:
        """Words for the rows in which something (n, d) was found; the first place, and its feature."""
        bad = np.flatnonzero(found.any(axis=1))
        column = int(np.argmax(found[bad[0]]))
        where = f"{self.features}: {_found(rows, bad, self.features_chunk_rows)}"
        return where, (int(bad[0]), column), _name_of(self.columns, column)

    def _map_labels(self, rows: NDArray[np.int64], y: NDArray[Any]) -> NDArray[np.int8]:
        low, high = self.coding.values
        positive = y == high
        negative = ~positive & _is_label(y) if self.coding.rest else y == low
        if np.count_nonzero(positive) + np.count_nonzero(negative) != len(y):
            bad = np.flatnonzero(~(positive | negative))
            where, first = f"{self.labels}: {_found(rows, bad, self.labels_chunk_rows)}", y[bad[0]]
            if not _is_label(y)[bad[0]]:
                raise DataError(
                    f"{where} no label ({first}); remove rows without one (of a data frame: frame.dropna())"
                )
            raise DataError(
                f"{where} other values than {low} and {high} (first: {first}); recode the labels to "
                "two classes, or name the one to tell from the rest (positive=..., --positive VALUE)"
            )
        labels: NDArray[np.int8] = positive.view(np.int8) * np.int8(2)
        labels -= np.int8(1)
        return labels


def _is_label(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels are not missing."""
    if y.dtype.kind in "biu":
        return np.ones(len(y), dtype=np.bool_)
    if y.dtype.kind == "f":
        return np.asarray(y == y)
    return np.array([one == one and one not in (None, "", b"") for one in y.tolist()], dtype=bool)


def plain_label(value: Any) -> bool | int | float | str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    whole = isinstance(value, float) and value.is_integer()
    return int(value) if whole else value if isinstance(value, int | float) else str(value)


def _name_of(columns: Sequence[Any], column: int) -> str:
    return repr(columns[column]) if len(columns) else f"{column + 1}, counting from 1"


def _found(rows: NDArray[np.int64], bad: NDArray[np.int64], chunk_rows: int) -> str:
    """Words for those of the rows that hold what they should not."""
    chunk = rows[bad[0]] // chunk_rows
    shown = ", ".join(map(str, rows[bad[:3]])) + (", ..." if len(bad) > 3 else "")
    among = f"{len(bad)} among rows {rows[0]} to {rows[-1]}, chunk {chunk}"
    return f"row {shown} (counting from 0; {among}) holds"
