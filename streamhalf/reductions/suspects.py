"""The rows that a halfspace gets wrong: the furthest of them by name, all of them in counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.plane import are_wrong
from streamhalf.kernels.segments import MOST_SEGMENTS, Segments
from streamhalf.kernels.turns import Turns
from streamhalf.reductions.base import Summed

ROW_NBYTES = 18
"""Of a listed row."""


@dataclass(frozen=True, slots=True, eq=False)
class SuspectList:
    """Places for rows (int64), margins (float64), labels (int8) and proofs (bool).

    The first `count` are taken: largest normalised margin first, and of equal ones the first row.
    """

    count: int
    rows: NDArray[np.int64]
    margins: NDArray[np.float64]
    labels: NDArray[np.int8]
    proved: NDArray[np.bool_]

    @classmethod
    def furthest(
        cls,
        rows: NDArray[np.int64],
        margins: NDArray[np.float64],
        labels: NDArray[np.int8],
        proved: NDArray[np.bool_],
        *,
        limit: int,
    ) -> SuspectList:
        """The `limit` of these with the largest margins; earlier ones first where they tie."""
        order = np.argsort(-margins, kind="stable")[:limit]
        free = (0, limit - len(order))
        return cls(
            len(order),
            np.pad(rows[order], free),
            np.pad(margins[order], free),
            np.pad(labels[order], free),
            np.pad(proved[order], free),
        )

    def __add__(self, other: SuspectList) -> SuspectList:
        """The furthest of both lists; rows of this one come before those of the other."""
        limit, count = len(self.rows), other.count
        if self.count == limit > 0:  # what is not beyond the last one here has no place
            count = int(np.searchsorted(-other.margins[:count], -self.margins[-1]))
        mine, theirs = slice(self.count), slice(count)
        return SuspectList.furthest(
            np.concatenate([self.rows[mine], other.rows[theirs]]),
            np.concatenate([self.margins[mine], other.margins[theirs]]),
            np.concatenate([self.labels[mine], other.labels[theirs]]),
            np.concatenate([self.proved[mine], other.proved[theirs]]),
            limit=limit,
        )


@dataclass(frozen=True, slots=True, eq=False)
class SuspectsPartial:
    """Rows, wrong and proved ones by stretch (s,), wrong ones by label (2,), all int64.

    And sums of the features over wrong rows (d,) float64, and the list.
    """

    stretch_rows: NDArray[np.int64]
    stretch_wrong: NDArray[np.int64]
    stretch_proved: NDArray[np.int64]
    wrong_by_label: NDArray[np.int64]
    wrong_sums: NDArray[np.float64]
    listed: SuspectList

    @property
    def n_rows(self) -> int:
        """All rows."""
        return int(self.stretch_rows.sum())

    @property
    def n_wrong(self) -> int:
        """Those that the halfspace gets wrong."""
        return int(self.stretch_wrong.sum())

    @property
    def n_proved(self) -> int:
        """Those that every halfspace within the tested angle gets wrong."""
        return int(self.stretch_proved.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Suspects(Summed):
    """The `limit` wrong rows that are furthest on the wrong side, and counts of all.

    Stretches are equal contiguous parts of the `total_rows` rows of the data set.
    """

    turns: Turns
    total_rows: int
    limit: int

    name = "suspects"

    @property
    def stretches(self) -> Segments:
        """The stretches that rows are counted by."""
        return Segments(self.total_rows, max(1, min(MOST_SEGMENTS, self.total_rows)))

    def empty(self, dim: int) -> SuspectsPartial:
        """No rows."""
        none = Block(np.zeros((0, dim)), np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int64))
        return self.map(none)

    def map(self, block: Block) -> SuspectsPartial:
        """Find and rank the wrong rows of one block."""
        margins = self.turns.plane.margins(block.X)
        found = np.flatnonzero(are_wrong(margins, block.y))
        X, labels = np.take(block.X, found, axis=0), block.y[found]
        sines, proved = self.turns.measure(X, margins[found])
        rows, wrong, sure = (np.zeros(self.stretches.count, dtype=np.int64) for _ in range(3))
        for stretch, window in self.stretches.cut(block.rows):
            first, last = np.searchsorted(found, (window.start, window.stop))
            rows[stretch] = window.stop - window.start
            wrong[stretch] = last - first
            sure[stretch] = np.count_nonzero(proved[first:last])
        return SuspectsPartial(
            stretch_rows=rows,
            stretch_wrong=wrong,
            stretch_proved=sure,
            wrong_by_label=np.array([(labels < 0).sum(), (labels > 0).sum()], dtype=np.int64),
            wrong_sums=X.sum(axis=0, dtype=np.float64),
            listed=SuspectList.furthest(block.rows[found], sines, labels, proved, limit=self.limit),
        )

    def partial_nbytes(self, dim: int) -> int:
        """Mostly the list."""
        return ROW_NBYTES * self.limit + 8 * (3 * self.stretches.count + 2 + dim)
