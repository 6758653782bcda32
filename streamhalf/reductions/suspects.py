"""The rows that a halfspace gets wrong: the furthest of them by name, all of them in counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.segments import MOST_SEGMENTS, Segments
from streamhalf.kernels.turns import Turns
from streamhalf.reductions.base import Summed

ROW_NBYTES = 18
"""Of a listed row."""


@dataclass(frozen=True, slots=True, eq=False)
class SuspectList:
    """Places for rows (int64), normalised margins (float64), labels (int8) and proofs (bool).

    The first `count` are taken, in the order of the rows: to sort them by margin is for the end.
    """

    count: int
    rows: NDArray[np.int64]
    margins: NDArray[np.float64]
    labels: NDArray[np.int8]
    agreed: NDArray[np.bool_]

    @classmethod
    def furthest(
        cls,
        rows: NDArray[np.int64],
        margins: NDArray[np.float64],
        labels: NDArray[np.int8],
        agreed: NDArray[np.bool_],
        *,
        limit: int,
    ) -> SuspectList:
        """The `limit` of these rising rows with the largest margins; the first where they tie."""
        kept = _largest(margins, limit)
        columns = (rows[kept], margins[kept], labels[kept], agreed[kept])
        found = cls(
            len(columns[0]),
            np.zeros(limit, dtype=np.int64),
            np.zeros(limit),
            np.zeros(limit, dtype=np.int8),
            np.zeros(limit, dtype=np.bool_),
        )
        places: tuple[NDArray[Any], ...] = (
            found.rows,
            found.margins,
            found.labels,
            found.agreed,
        )
        for place, column in zip(places, columns, strict=True):
            place[: found.count] = column
        return found

    def __add__(self, other: SuspectList) -> SuspectList:
        """The furthest of both lists; rows of this one come before those of the other."""
        mine: slice | NDArray[np.intp] = slice(self.count)
        theirs: slice | NDArray[np.intp] = slice(other.count)
        if self.count == len(self.rows) and other.count:  # the room here is full
            theirs = np.flatnonzero(other.margins[theirs] > self.margins.min())
            if not len(theirs):
                return self
        return SuspectList.furthest(
            np.concatenate([self.rows[mine], other.rows[theirs]]),
            np.concatenate([self.margins[mine], other.margins[theirs]]),
            np.concatenate([self.labels[mine], other.labels[theirs]]),
            np.concatenate([self.agreed[mine], other.agreed[theirs]]),
            limit=len(self.rows),
        )


def _largest(margins: NDArray[np.float64], limit: int) -> slice | NDArray[np.intp]:
    """Where the `limit` largest margins are, in their order; of equal ones the first."""
    beyond = len(margins) - limit
    if beyond <= 0:
        return slice(None)
    least = np.partition(margins, beyond)[beyond]
    kept = margins > least
    kept[np.flatnonzero(margins == least)[: limit - np.count_nonzero(kept)]] = True
    return np.flatnonzero(kept)


@dataclass(frozen=True, slots=True, eq=False)
class SuspectsPartial:
    """Rows, wrong and agreed ones by segment (s,), wrong ones by label (2,), all int64.

    And sums of the features over wrong rows (d,) float64, and the list.
    """

    segment_rows: NDArray[np.int64]
    segment_wrong: NDArray[np.int64]
    segment_agreed: NDArray[np.int64]
    wrong_by_label: NDArray[np.int64]
    wrong_sums: NDArray[np.float64]
    listed: SuspectList

    @property
    def n_rows(self) -> int:
        """All rows."""
        return int(self.segment_rows.sum())

    @property
    def n_wrong(self) -> int:
        """Those that the halfspace gets wrong."""
        return int(self.segment_wrong.sum())

    @property
    def n_agreed(self) -> int:
        """Those that every halfspace within the tested angle gets wrong."""
        return int(self.segment_agreed.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Suspects(Summed):
    """The `limit` wrong rows that are furthest on the wrong side, and counts of all.

    Segments are equal contiguous parts of the `total_rows` rows of the data set.
    """

    turns: Turns
    total_rows: int
    limit: int

    name = "suspects"

    @property
    def segments(self) -> Segments:
        """The segments that rows are counted by."""
        return Segments(self.total_rows, max(1, min(MOST_SEGMENTS, self.total_rows)))

    def empty(self, dim: int) -> SuspectsPartial:
        """No rows."""
        none = Block(np.zeros((0, dim)), np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int64))
        return self.map(none)

    def map(self, block: Block) -> SuspectsPartial:
        """Find and rank the wrong rows of one block."""
        found, margins = self.turns.plane.find_wrong(block.X, block.y)
        X, labels = np.take(block.X, found, axis=0), block.y[found]
        sines, agreed = self.turns.measure(X, margins)
        rows, wrong, sure = (np.zeros(self.segments.count, dtype=np.int64) for _ in range(3))
        for segment, window in self.segments.cut(block.rows):
            first, last = np.searchsorted(found, (window.start, window.stop))
            rows[segment] = window.stop - window.start
            wrong[segment] = last - first
            sure[segment] = np.count_nonzero(agreed[first:last])
        return SuspectsPartial(
            segment_rows=rows,
            segment_wrong=wrong,
            segment_agreed=sure,
            wrong_by_label=np.array([np.count_nonzero(labels == y) for y in (-1, 1)]),
            wrong_sums=np.ones(len(X)) @ X.astype(np.float64),
            listed=SuspectList.furthest(block.rows[found], sines, labels, agreed, limit=self.limit),
        )

    def partial_nbytes(self, dim: int) -> int:
        """Mostly the list."""
        return ROW_NBYTES * self.limit + 8 * (3 * self.segments.count + 2 + dim)
