"""Rows with gaps in stored arrays: found in one pass, and left out or filled."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Reader, RowRange, RowRanges
from streamhalf.errors import DataError

MOST_DROPPED = 1 << 26
"""Rows that can be left out: their numbers are held in memory."""

_SAMPLE_ROWS = 1 << 18
_N_THREADS = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """Shape and type of an array that is made when it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all its values."""
        return int(np.prod(self.shape)) * self.dtype.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class WithoutRows(Reader):
    """Another reader's rows but those that are left out, numbered without them."""

    inner: Reader
    dropped: NDArray[np.int64]

    @property
    def features(self) -> Layout:
        """Return shape and type of the features that are left."""
        X = self.inner.features
        return Layout((X.shape[0] - len(self.dropped), X.shape[1]), np.dtype(X.dtype))

    @property
    def labels(self) -> Layout | None:
        """Return shape and type of the labels that are left."""
        y = self.inner.labels
        return None if y is None else Layout((y.shape[0] - len(self.dropped),), np.dtype(y.dtype))

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        """Read the rows, and leave out what lies between them."""
        stored = self._stored(rows)
        X, y = self.inner.read(stored)
        keep = self._kept(stored)
        return X[keep], y[keep]

    def read_labels(self, rows: RowRanges) -> NDArray[Any]:
        """Read the labels alone."""
        stored = self._stored(rows)
        return self.inner.read_labels(stored)[self._kept(stored)]

    def find_missing(self, rows: RowRanges) -> str | None:
        """Say what of the rows is not stored, or None."""
        return self.inner.find_missing(self._stored(rows))

    def prefetch(self, rows: RowRanges) -> bool:
        """Have the rows fetched without waiting, where the other reader can."""
        return self.inner.prefetch(self._stored(rows))

    def blocks(self, stored: RowRanges) -> RowRanges:
        """Return blocks of stored rows as ranges of the rows that are left."""
        bounds = stored.bounds - np.searchsorted(self.dropped, stored.bounds)
        return RowRanges(bounds[bounds[:, 1] > bounds[:, 0]])

    def _stored(self, rows: RowRanges) -> RowRanges:
        first = stored_numbers(self.dropped, rows.bounds[:, 0])
        last = stored_numbers(self.dropped, rows.bounds[:, 1] - 1)
        return RowRanges(np.stack([first, last + 1], axis=1))

    def _kept(self, stored: RowRanges) -> NDArray[np.bool_]:
        numbers = stored.numbers()
        at = np.searchsorted(self.dropped, numbers)
        return np.asarray(np.append(self.dropped, -1)[at] != numbers)


@dataclass(frozen=True, slots=True, eq=False)
class FilledRows(Reader):
    """Another reader's rows, gaps of features replaced by a value for each, and flagged beside."""

    inner: Reader
    values: NDArray[np.float64]
    flagged: NDArray[np.int64]
    """Features whose gaps have an indicator after the features."""

    @property
    def features(self) -> Layout:
        """Return shape and type of the features with their indicators."""
        X = self.inner.features
        return Layout((X.shape[0], X.shape[1] + len(self.flagged)), np.dtype(X.dtype))

    @property
    def labels(self) -> Any:
        """Return the labels."""
        return self.inner.labels

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        """Read the rows and fill their gaps."""
        X, y = self.inner.read(rows)
        gaps = np.isnan(X)
        filled = np.where(gaps, self.values.astype(X.dtype), X)
        return np.concatenate([filled, gaps[:, self.flagged].astype(X.dtype)], axis=1), y

    def read_labels(self, rows: RowRanges) -> NDArray[Any]:
        """Read the labels alone."""
        return self.inner.read_labels(rows)

    def find_missing(self, rows: RowRanges) -> str | None:
        """Say what of the rows is not stored, or None."""
        return self.inner.find_missing(rows)

    def prefetch(self, rows: RowRanges) -> bool:
        """Have the rows fetched without waiting, where the other reader can."""
        return self.inner.prefetch(rows)

    @property
    def unit_rows(self) -> int | None:
        """Return the rows of a stored chunk that is read whole, else None."""
        return self.inner.unit_rows


def stored_numbers(dropped: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers in the stored data of rows that are numbered without the dropped."""
    if not len(dropped):
        return rows
    before = dropped - np.arange(len(dropped))
    return rows + np.searchsorted(before, rows, side="right")


@dataclass(slots=True, eq=False)
class Gaps:
    """Gaps of stored rows: how many by feature, in which rows, and medians of a sample."""

    by_feature: NDArray[np.int64]
    rows: NDArray[np.int64]
    medians: NDArray[np.float64]


def find_gaps(name: str, reader: Reader, blocks: RowRanges) -> Gaps:
    """Read all rows once, several blocks at a time, and find NaN; a missing chunk is an error."""
    dim = reader.features.shape[1]
    by_feature = np.zeros(dim, dtype=np.int64)
    step = max(1, blocks.span.stop // _SAMPLE_ROWS)
    found, sample = [], []
    for rows, X, y in _each(reader, blocks):
        gaps = np.isnan(X) if X.dtype.kind == "f" else np.zeros(X.shape, dtype=np.bool_)
        bad = gaps.any(axis=1)
        bad |= _no_label(y)
        if bad.any() and (missing := reader.find_missing(RowRanges.of((rows,)))):
            raise DataError(missing)
        by_feature += gaps.sum(axis=0)
        found.append(np.flatnonzero(bad) + rows.start)
        sample.append(X[-rows.start % step :: step].astype(np.float64))
        if sum(map(len, found)) > MOST_DROPPED:
            raise DataError(
                f"{name}: more than {MOST_DROPPED:,} rows have gaps; that is no data to leave rows "
                "out of: fill the gaps (missing='fill', --missing fill)"
            )
    seen = np.concatenate(sample)
    medians = np.zeros(dim)
    for j in range(dim):
        values = seen[:, j][~np.isnan(seen[:, j])]
        medians[j] = np.median(values) if len(values) else 0.0
    return Gaps(by_feature, np.concatenate(found).astype(np.int64), medians)


def _no_label(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind == "f":
        return np.asarray(np.isnan(y))
    if y.dtype.kind == "O":
        return np.array([one is None or one != one or one == "" for one in y.tolist()], dtype=bool)
    return np.zeros(len(y), dtype=np.bool_)


def _each(reader: Reader, blocks: RowRanges) -> Iterator[tuple[RowRange, NDArray[Any], NDArray[Any]]]:
    def read(rows: RowRange) -> tuple[RowRange, NDArray[Any], NDArray[Any]]:
        return rows, *reader.read(RowRanges.of((rows,)))

    with ThreadPoolExecutor(_N_THREADS, thread_name_prefix="find-gaps") as pool:
        rest = iter(blocks)
        coming = [pool.submit(read, rows) for rows in islice(rest, _N_THREADS)]
        while coming:
            yield coming.pop(0).result()
            coming += [pool.submit(read, rows) for rows in islice(rest, 1)]
