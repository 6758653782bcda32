"""What a valid row is, and the one place where raw arrays become a checked block."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.errors import DataError


class LabelCoding(enum.StrEnum):
    """How the two classes are written."""

    SIGNS = "-1/+1"
    BITS = "0/1"

    @property
    def values(self) -> tuple[int, int]:
        """The stored values of -1 and +1."""
        return (-1, 1) if self is LabelCoding.SIGNS else (0, 1)


def find_coding(labels: str, values: NDArray[Any]) -> LabelCoding | None:
    """The coding that explains the values, or None where they hold +1 only (both would do)."""
    found = {float(value) for value in np.unique(values)}
    if found <= {1.0}:
        return None
    for coding in LabelCoding:
        if found <= set(coding.values):
            return coding
    shown = ", ".join(f"{value:g}" for value in sorted(found)[:5])
    raise DataError(
        f"{labels}: values {shown} found; expected -1 and +1, or 0 and 1; recode the labels to two "
        "classes"
    )


@dataclass(frozen=True, slots=True, eq=False)
class RowSchema:
    """Names, dimension, coding and stored chunk sizes, for checks and for words in errors.

    `columns` are the names of the single features, if they have any.
    """

    features: str
    labels: str
    dim: int
    coding: LabelCoding
    features_chunk_rows: int
    labels_chunk_rows: int
    columns: tuple[str, ...] = ()

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
        features = np.ascontiguousarray(X, dtype=X.dtype.newbyteorder("="))
        self._check_features(rows, features)
        return Block(features, self._map_labels(rows, y), rows)

    def read_arrays(
        self, item: tuple[RowRanges, RowRange, NDArray[Any], NDArray[Any]]
    ) -> tuple[Block]:
        """The block of rows of a chunk that is in memory already."""
        ranges, chunk, X, y = item
        if ranges.n_rows < chunk.n_rows == len(X) == len(y):
            X, y = ranges.take_from(X, chunk.start), ranges.take_from(y, chunk.start)
        return (self.block(ranges, X, y),)

    def _check_features(self, rows: NDArray[np.int64], X: NDArray[np.floating[Any]]) -> None:
        finite = np.isfinite(X)
        if finite.all():
            return
        bad = np.flatnonzero(~finite.all(axis=1))
        column = int(np.flatnonzero(~finite[bad[0]])[0])
        name = f" {self.columns[column]!r}" if self.columns else ""
        what = f"NaN or infinite values (first: {X[bad[0], column]} in feature {column + 1}{name})"
        chunk = rows[bad[0]] // self.features_chunk_rows
        raise DataError(
            f"{self.features}: {_found(rows, bad, chunk)} {what}; remove or impute these rows"
        )

    def _map_labels(self, rows: NDArray[np.int64], y: NDArray[Any]) -> NDArray[np.int8]:
        low, high = self.coding.values
        positive = y == high
        if np.count_nonzero(positive) + np.count_nonzero(y == low) != len(y):
            bad = np.flatnonzero(~(positive | (y == low)))
            chunk = rows[bad[0]] // self.labels_chunk_rows
            raise DataError(
                f"{self.labels}: {_found(rows, bad, chunk)} other values than {low} and {high} "
                f"(first: {y[bad[0]]}); recode the labels to two classes"
            )
        labels: NDArray[np.int8] = positive.view(np.int8) * np.int8(2)
        labels -= np.int8(1)
        return labels


def _found(rows: NDArray[np.int64], bad: NDArray[np.int64], chunk: int) -> str:
    """Words for those of the rows that hold what they should not; the first lies in a chunk."""
    shown = ", ".join(map(str, rows[bad[:3]])) + (", ..." if len(bad) > 3 else "")
    among = f"{len(bad)} among rows {rows[0]} to {rows[-1]}, chunk {chunk}"
    return f"row {shown} (counting from 0; {among}) holds"
