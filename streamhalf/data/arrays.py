"""Arrays in memory and Dask arrays as readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import compute
from numpy.typing import NDArray

from streamhalf.data.block import Reader, RowRange, RowRanges
from streamhalf.data.clients import compute_on, holding_client

if TYPE_CHECKING:
    import dask.array as da
    from distributed import Client


@dataclass(frozen=True, slots=True, eq=False)
class ArrayReader(Reader):
    """Rows of NumPy arrays."""

    features: NDArray[Any]
    labels: NDArray[Any]

    def read(self, rows: RowRanges) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows, read-only; views where they are neighbours."""
        X, y = rows.take_from(self.features, 0), rows.take_from(self.labels, 0)
        X.flags.writeable = y.flags.writeable = False
        return X, y

    def prefetch(self, rows: RowRanges) -> bool:
        """Return True: they are here."""
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
        """Return True: they are here."""
        return True


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows(ArrayReader):
    """Rows of a store that are kept in memory; passes read them in the same pieces as there."""

    unit_rows: int | None = None


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
        """Compute the rows, here or where persisted chunks are."""
        X, y = self._compute(rows, self.features, self.labels)
        return X, y

    def read_labels(self, rows: RowRanges) -> NDArray[Any]:
        """Compute the labels, and no features."""
        return self._compute(rows, self.labels)[0]

    def _compute(self, rows: RowRanges, *arrays: da.Array) -> list[NDArray[Any]]:
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
