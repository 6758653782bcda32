"""Rows whose label a halfspace contradicts: the surest by name, all of them in counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.probabilities import Probabilities
from streamhalf.kernels.plane import Plane, are_wrong
from streamhalf.kernels.segments import MOST_SEGMENTS, Segments
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.turns import Turns
from streamhalf.kernels.uniforms import generator_of
from streamhalf.reductions.base import Summed
from streamhalf.reductions.margin_counts import log_odds
from streamhalf.reductions.value_counts import MOST_VALUES, ValueCounts, count_values
from streamhalf.results.quality import CalibrationRecord

ROW = np.dtype(
    [
        ("row", np.int64),
        ("suspicion", np.float64),
        ("label_score", np.float64),
        ("margin", np.float64),
        ("other_score", np.float64),
        ("label", np.int8),
        ("is_label_issue", np.bool_),
        ("agreed", np.bool_),
    ]
)
"""A listed row: the key that ranks it, and what is written of it."""

Listed = NDArray[np.void]


@dataclass(frozen=True, slots=True, eq=False)
class OtherModel:
    """Probabilities of label +1 by another model, one for each row of the data, and their curve."""

    probabilities: Probabilities | NDArray[np.floating[Any]]
    calibration: CalibrationRecord

    def log_odds(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-odds of label +1 of these rows, which stand for margins."""
        return log_odds(self.probabilities[rows])


@dataclass(frozen=True, slots=True, eq=False)
class PlaneModel:
    """A plane with a normal of length 1, and the probability of label +1 at its margins."""

    plane: Plane
    calibration: CalibrationRecord


@dataclass(frozen=True, slots=True, eq=False)
class SuspectList:
    """Room for rows, of which the first `count` are taken, in the order of their numbers."""

    count: int
    rows: Listed

    @classmethod
    def surest(cls, parts: Sequence[Listed], limit: int) -> SuspectList:
        """Return the `limit` rows that rank highest; of equal ones the first."""
        keys = np.concatenate([part["suspicion"] for part in parts])
        kept = _largest(keys, limit)
        room, count, start = np.zeros(limit, dtype=ROW), 0, 0
        for part in parts:
            chosen = np.flatnonzero(kept[start : start + len(part)])
            np.take(part, chosen, out=room[count : count + len(chosen)], mode="clip")  # "raise" would copy twice
            count, start = count + len(chosen), start + len(part)
        return cls(count, room)

    def __add__(self, other: SuspectList) -> SuspectList:
        """Return the surest of both; rows of this list come before those of the other."""
        mine, theirs = self.taken, other.taken
        if self.count == len(self.rows) and other.count:  # the room here is full
            theirs = theirs[theirs["suspicion"] > mine["suspicion"].min()]
        return SuspectList.surest((mine, theirs), len(self.rows)) if len(theirs) else self

    @property
    def taken(self) -> Listed:
        return self.rows[: self.count]


def _largest(keys: NDArray[np.float64], limit: int) -> NDArray[np.bool_]:
    """Return True for the `limit` largest keys; of equal ones the first."""
    beyond = len(keys) - limit
    if beyond <= 0:
        return np.ones(len(keys), dtype=np.bool_)
    least = np.partition(keys, beyond)[beyond]
    kept = keys > least
    kept[np.flatnonzero(keys == least)[: limit - np.count_nonzero(kept)]] = True
    return np.asarray(kept)


@lru_cache(maxsize=1)
def _drawn_rows(total_rows: int, share: float, seed: int) -> NDArray[np.int64]:
    """Return row numbers, each drawn with probability `share`: the gaps between them are geometric."""
    most = int(total_rows * share + 10 * math.sqrt(total_rows * share)) + 100
    rows = np.cumsum(generator_of(seed, Stream.COMPARED).geometric(share, most)) - 1
    return np.asarray(rows[rows < total_rows])


@dataclass(frozen=True, slots=True, eq=False)
class SuspectsPartial:
    """Rows, misclassified, agreed and issue ones by segment (s,), by label the latter two (2,).

    And issues and compared rows by value, rows to list, and the surest of them.
    """

    segment_rows: NDArray[np.int64]
    segment_wrong: NDArray[np.int64]
    segment_agreed: NDArray[np.int64]
    segment_issues: NDArray[np.int64]
    wrong_by_label: NDArray[np.int64]
    issues_by_label: NDArray[np.int64]
    issue_values: ValueCounts
    row_values: ValueCounts
    n_listed: int
    listed: SuspectList

    @property
    def n_rows(self) -> int:
        return int(self.segment_rows.sum())

    @property
    def n_wrong(self) -> int:
        return int(self.segment_wrong.sum())

    @property
    def n_agreed(self) -> int:
        return int(self.segment_agreed.sum())

    @property
    def n_issues(self) -> int:
        return int(self.segment_issues.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Suspects(Summed):
    """The `limit` surest label issues (or, with `misclassified`, contradicted labels), and counts.

    A row is an issue by the mean of the calibrated scores of all models: that of the halfspace, of a
    `second` look, which contradicts no row by itself, and of another model.
    `edges` are those of bins of the features, for issues and for a `share` of all rows, drawn with `seed`.
    Segments are equal contiguous parts of the `total_rows` rows of the data set.
    """

    turns: Turns
    calibration: CalibrationRecord | None
    total_rows: int
    limit: int
    misclassified: bool = False
    other: OtherModel | None = None
    second: PlaneModel | None = None
    edges: NDArray[np.float64] | None = None
    share: float = 1.0
    seed: int = 0

    name = "suspects"

    @property
    def segments(self) -> Segments:
        return Segments(self.total_rows, max(1, min(MOST_SEGMENTS, self.total_rows)))

    def empty(self, dim: int) -> SuspectsPartial:
        none = Block(np.zeros((0, dim)), np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int64))
        return self.map(none)

    def map(self, block: Block) -> SuspectsPartial:
        """Find and rank the contradicted rows of one block."""
        places, margins, wrong = self.find_contradicted(block)
        rows = self.measure(block.take(places), margins)
        counts = np.zeros((4, self.segments.count), dtype=np.int64)
        for segment, window in self.segments.cut(block.rows):
            first, last = np.searchsorted(places, (window.start, window.stop))
            part = slice(first, last)
            counts[:, segment] = (
                window.stop - window.start,
                np.count_nonzero(wrong[part]),
                np.count_nonzero((rows["agreed"] & wrong)[part]),
                np.count_nonzero(rows["is_label_issue"][part]),
            )
        issues = rows["is_label_issue"]
        listed = rows if self.misclassified else rows[issues]
        return SuspectsPartial(
            *(counts[0], counts[1], counts[2], counts[3]),
            _by_label(rows["label"][wrong]),
            _by_label(rows["label"][issues]),
            self._count(block.X, places[issues]),
            self._count(block.X, self._compared(block.rows)),
            len(listed),
            SuspectList.surest((listed,), self.limit),
        )

    def _count(self, X: NDArray[np.floating[Any]], places: NDArray[np.int64]) -> ValueCounts:
        return ValueCounts.empty(X.shape[1]) if self.edges is None else count_values(X, self.edges, places)

    def _compared(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return places of rows that stand for all."""
        if self.share >= 1 or not len(rows):
            return np.arange(len(rows))
        drawn = _drawn_rows(self.total_rows, self.share, self.seed)
        drawn = drawn[np.searchsorted(drawn, rows[0]) : np.searchsorted(drawn, rows[-1], side="right")]
        if rows[-1] - rows[0] == len(rows) - 1:
            return np.asarray(drawn - rows[0])
        places = np.searchsorted(rows, drawn)
        return np.asarray(places[rows[places] == drawn])

    def find_contradicted(self, block: Block) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.bool_]]:
        """Return places that a model contradicts, their margins, and whether the halfspace does."""
        places, margins = self.turns.plane.find_wrong(block.X, block.y)
        wrong = np.ones(len(places), dtype=np.bool_)
        if self.other is None:
            return places, margins, wrong
        against = np.flatnonzero(are_wrong(self.other.log_odds(block.rows), block.y))
        places = np.union1d(places, against)
        margins = self.turns.plane.margins(block.X[places])
        return places, margins, are_wrong(margins, block.y[places])

    def measure(self, some: Block, margins: NDArray[np.float64]) -> Listed:
        """Return what is listed of rows with these margins about the halfspace."""
        rows, positive = np.zeros(some.n_rows, dtype=ROW), some.y > 0
        sines, agreed = self.turns.measure(some.X, margins)
        unit = margins / (self.turns.plane.length or 1.0)
        rows["row"], rows["label"], rows["margin"] = some.rows, some.y, sines
        rows["agreed"] = agreed
        contradicted = are_wrong(margins, some.y)
        if self.calibration is None:  # labels of one class alone have no curve
            rows["label_score"] = (1 - np.where(contradicted, sines, -sines)) / 2
            rows["suspicion"] = np.where(contradicted, sines, -sines)
            rows["is_label_issue"] = contradicted
            return rows
        models = [(self.calibration, unit)]
        if self.second is not None:
            models.append((self.second.calibration, self.second.plane.margins(some.X)))
        if self.other is not None:
            models.append((self.other.calibration, odds := self.other.log_odds(some.rows)))
            contradicted |= are_wrong(odds, some.y)
        scores = [curve.label_scores(one, positive) for curve, one in models]
        rows["label_score"] = scores[0]
        rows["other_score"] = 0.0 if self.other is None else scores[-1]
        pairs = zip(models, scores, strict=True)
        rows["suspicion"] = np.mean([curve.suspicions(one, positive, own) for (curve, one), own in pairs], axis=0)
        most = np.mean([curve.issue_scores() for curve, _ in models], axis=0)
        limits = np.where(positive, most[1], most[0])
        rows["is_label_issue"] = contradicted & (np.mean(scores, axis=0) <= limits)
        return rows

    def partial_nbytes(self, dim: int) -> int:
        return ROW.itemsize * self.limit + 8 * (4 * self.segments.count + 5 + 6 * MOST_VALUES * dim)


def _by_label(labels: NDArray[np.int8]) -> NDArray[np.int64]:
    return np.array([np.count_nonzero(labels == y) for y in (-1, 1)])
