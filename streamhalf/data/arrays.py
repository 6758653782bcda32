"""Readers of arrays in memory and of Dask arrays; rows with gaps are left out or filled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from dask.base import compute
from numpy.typing import NDArray

from streamhalf.data.block import Reader, RowRange, RowRanges
from streamhalf.data.clients import compute_on, holding_client
from streamhalf.errors import DataError

if TYPE_CHECKING:
    import dask.array as da
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class ArrayReader(Reader):
    """Rows of NumPy arrays; passes read them in pieces of `unit_rows`, where these are kept rows of a store."""

    features: NDArray[Any]
    labels: NDArray[Any]
    unit_rows: int | None = None

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows, read-only; views where they are neighbours."""
        X, y = rows.take_from(self.features, 0), rows.take_from(self.labels, 0)
        X.flags.writeable = y.flags.writeable = False
        return X, y

    def prefetch(self, rows: RowRanges) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class PieceReader(Reader):
    """Rows of some blocks of NumPy arrays, each a pair (features, labels)."""

    blocks: tuple[RowRange, ...] = ()
    pieces: tuple[tuple[NDArray[Any], NDArray[Any]], ...] = ()
    features: Any = None
    labels: Any = None

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows, read-only."""
        starts = np.array([block.start for block in self.blocks], dtype=np.int64)
        rows = rows.cut(starts)
        homes = np.searchsorted(starts, rows.bounds[:, 0], side="right") - 1
        parts = [
            [group.take_from(array, int(starts[home])) for array in self.pieces[home]]
            for home, group in zip(np.unique(homes).tolist(), rows.grouped(homes), strict=True)
        ]
        X, y = parts[0] if len(parts) == 1 else (np.concatenate(one) for one in zip(*parts, strict=True))
        X.flags.writeable = y.flags.writeable = False
        return X, y

    def prefetch(self, rows: RowRanges) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class DaskReader(Reader):
    """Rows of Dask arrays, both chunked by the same rows, features in one piece.

    Chunks that are persisted are held by a cluster, which `client` is connected to.
    """

    features: da.Array
    labels: da.Array
    client: Client | None = None

    @classmethod
    def align(cls, features: da.Array, labels: da.Array) -> DaskReader:
        """Rechunk both arrays to the features' chunks of rows."""
        if features.ndim == 2 and len(features.chunks[1]) > 1:
            features = features.rechunk({1: -1})
        if labels.ndim == 1 and features.shape[:1] == labels.shape:
            labels = labels.rechunk((features.chunks[0],))
        return cls(features, labels, holding_client(features, labels))

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        X, y = self._compute(rows, self.features, self.labels)
        return X, y

    def read_labels(self, rows: RowRanges) -> NDArray[Any]:
        return self._compute(rows, self.labels)[0]

    def _compute(self, rows: RowRanges, *arrays: da.Array) -> list[NDArray[Any]]:
        """Compute rows, here or where persisted chunks are."""
        first, here = rows.span.start, self.client is None
        lazy = [one[first : rows.span.stop] for one in arrays]
        found = compute(*lazy, scheduler="synchronous") if here else compute_on(self.client, *lazy)
        return [rows.take_from(np.asarray(one), first) for one in found]

    @property
    def unit_rows(self) -> int:
        """Rows of the largest chunk: a part of one is not computed alone."""
        return int(max(self.features.chunks[0]))

    def delayed(self) -> list[tuple[Any, Any]]:
        """Return a pair of lazy (features, labels) for each chunk of rows."""
        return list(zip(self.features.to_delayed()[:, 0], self.labels.to_delayed(), strict=True))


MOST_DROPPED = 1 << 26  # Rows that can be left out: their numbers are held in memory
_SAMPLE_ROWS = 1 << 18
_N_THREADS = 4


class Layout(NamedTuple):
    """Shape and type of an array that is made when it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True, eq=False)
class WithoutRows(Reader):
    """Another reader's rows but those that are left out, numbered without them."""

    inner: Reader
    dropped: NDArray[np.int64]

    @property
    def features(self) -> Layout:
        X = self.inner.features
        return Layout((X.shape[0] - len(self.dropped), X.shape[1]), np.dtype(X.dtype))

    @property
    def labels(self) -> Layout | None:
        y = self.inner.labels
        return None if y is None else Layout((y.shape[0] - len(self.dropped),), np.dtype(y.dtype))

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        stored = self._stored(rows)
        X, y = self.inner.read(stored)
        keep = self._kept(stored)
        return X[keep], y[keep]

    def read_labels(self, rows: RowRanges) -> NDArray[Any]:
        stored = self._stored(rows)
        return self.inner.read_labels(stored)[self._kept(stored)]

    def find_missing(self, rows: RowRanges) -> str | None:
        return self.inner.find_missing(self._stored(rows))

    def prefetch(self, rows: RowRanges) -> bool:
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
        return np.isin(stored.numbers(), self.dropped, assume_unique=True, invert=True)


@dataclass(frozen=True, slots=True, eq=False)
class FilledRows(Reader):
    """Another reader's rows, gaps of features replaced by a value for each, and flagged beside.

    Features in `flagged` have an indicator of their gaps after the features.
    """

    inner: Reader
    values: NDArray[np.float64]
    flagged: NDArray[np.int64]

    @property
    def features(self) -> Layout:
        X = self.inner.features
        return Layout((X.shape[0], X.shape[1] + len(self.flagged)), np.dtype(X.dtype))

    @property
    def labels(self) -> Any:
        return self.inner.labels

    @property
    def unit_rows(self) -> int | None:
        return self.inner.unit_rows

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        X, y = self.inner.read(rows)
        gaps = np.isnan(X)
        filled = np.where(gaps, self.values.astype(X.dtype), X)
        return np.concatenate([filled, gaps[:, self.flagged].astype(X.dtype)], axis=1), y

    def read_labels(self, rows: RowRanges) -> NDArray[Any]:
        return self.inner.read_labels(rows)

    def find_missing(self, rows: RowRanges) -> str | None:
        return self.inner.find_missing(rows)

    def prefetch(self, rows: RowRanges) -> bool:
        return self.inner.prefetch(rows)


def stored_numbers(dropped: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers in the stored data of rows that are numbered without the dropped."""
    if not len(dropped):
        return rows
    before = dropped - np.arange(len(dropped))
    return rows + np.searchsorted(before, rows, side="right")


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Gaps of stored rows: how many by feature, in which rows, and medians of a sample."""

    by_feature: NDArray[np.int64]
    rows: NDArray[np.int64]
    medians: NDArray[np.float64]


def find_gaps(name: str, reader: Reader, blocks: RowRanges) -> Gaps:
    """Read all rows once, several blocks at a time, and find NaN; a missing chunk is an error."""
    by_feature = np.zeros(reader.features.shape[1], dtype=np.int64)
    step = max(1, blocks.span.stop // _SAMPLE_ROWS)
    found, sample = [], []
    for rows, (X, y) in in_order(lambda rows: (rows, reader.read(RowRanges.of((rows,)))), blocks, _N_THREADS):
        gaps = np.isnan(X) if X.dtype.kind == "f" else np.zeros(X.shape, dtype=np.bool_)
        bad = gaps.any(axis=1) | _no_label(y)
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
    present = [column[~np.isnan(column)] for column in seen.T]
    medians = np.array([np.median(values) if len(values) else 0.0 for values in present])
    return Gaps(by_feature, np.concatenate(found).astype(np.int64), medians)


def _no_label(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind == "f":
        return np.asarray(np.isnan(y))
    if y.dtype.kind == "O":
        return np.array([one is None or one != one or one == "" for one in y.tolist()], dtype=bool)
    return np.zeros(len(y), dtype=np.bool_)


def in_order(work: Callable[[T], R], items: Iterable[T], n_threads: int) -> Iterator[R]:
    """Do the work for each item, a few at once; yield results in the order of the items."""
    with ThreadPoolExecutor(n_threads, thread_name_prefix="in-order") as pool:
        coming: deque[Future[R]] = deque()
        for item in items:
            coming.append(pool.submit(work, item))
            if len(coming) > 2 * n_threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
