"""Rows whose label a halfspace contradicts: the surest by name, all of them in counts, and a sample for a review."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.probabilities import Probabilities
from streamhalf.kernels.margins import frozen
from streamhalf.kernels.plane import Plane, Turns, are_wrong
from streamhalf.kernels.segments import MOST_SEGMENTS, Segments
from streamhalf.kernels.streams import Stream, generator_of, uniforms_at
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.margin_counts import log_odds
from streamhalf.results.quality import CalibrationRecord

MOST_VALUES = 8  # Bins of a feature: its values, if a sample has no more, or eighths of the rows
# A listed row: the key that ranks it, and what is written of it
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
Listed = NDArray[np.void]


@dataclass(frozen=True, slots=True, eq=False)
class ValueCounts:
    """Rows in each bin of each feature, and the smallest and largest value seen there: (d, b)."""

    counts: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def empty(cls, dim: int) -> ValueCounts:
        shape = (dim, MOST_VALUES)
        return cls(np.zeros(shape, np.int64), np.full(shape, np.inf), np.full(shape, -np.inf))

    def __add__(self, other: ValueCounts) -> ValueCounts:
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return ValueCounts(self.counts + other.counts, low, high)


def quantile_edges(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where the bins of each feature begin but the first (d, b - 1), infinite where there is none."""
    edges = np.full((X.shape[1], MOST_VALUES - 1), np.inf)
    for j, values in enumerate(X.T):
        starts = np.unique(values)
        if len(starts) > MOST_VALUES:
            shares = np.linspace(0, 1, MOST_VALUES + 1)[:-1]
            starts = np.unique(np.quantile(values, shares, method="higher"))
        edges[j, : len(starts) - 1] = starts[1:]
    return edges


def count_values(
    X: NDArray[np.floating[Any]], edges: NDArray[np.float64], places: NDArray[np.int64] | None = None
) -> ValueCounts:
    """Count rows, all of them or those at some places, in bins."""
    from streamhalf.kernels import loops

    found = ValueCounts.empty(X.shape[1])
    chosen = np.arange(len(X)) if places is None else places
    loops.count_values(frozen(X), chosen, edges, found.counts, found.low, found.high)
    return found


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
    """Counts of all, misclassified, agreed and issue rows by segment (4, s), and the surest rows.

    Besides misclassified and issue rows by label (2, 2), issues and compared rows by value, and how many are to list.
    """

    segments: NDArray[np.int64]
    by_label: NDArray[np.int64]
    issue_values: ValueCounts
    row_values: ValueCounts
    n_listed: int
    listed: SuspectList

    @property
    def n_rows(self) -> int:
        return int(self.segments[0].sum())

    @property
    def n_wrong(self) -> int:
        return int(self.segments[1].sum())

    @property
    def n_issues(self) -> int:
        return int(self.segments[3].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Suspects(Reduction[SuspectsPartial, SuspectsPartial]):
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
        return self.map(Block(np.zeros((0, dim)), np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int64)))

    def map(self, block: Block) -> SuspectsPartial:
        """Find and rank the contradicted rows of one block."""
        places, margins, wrong = self.find_contradicted(block)
        rows = self.measure(block.take(places), margins)
        issues = rows["is_label_issue"]
        marks = np.stack([wrong, wrong & rows["agreed"], issues])
        counts = np.zeros((4, self.segments.count), dtype=np.int64)
        for segment, window in self.segments.cut(block.rows):
            first, last = np.searchsorted(places, (window.start, window.stop))
            counts[0, segment] = window.stop - window.start
            counts[1:, segment] = np.count_nonzero(marks[:, first:last], axis=1)
        listed = rows if self.misclassified else rows[issues]
        return SuspectsPartial(
            counts,
            np.stack([np.bincount(rows["label"][one] > 0, minlength=2) for one in (wrong, issues)]),
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
        plane = self.turns.plane
        places, margins = plane.find_wrong(block.X, block.y)
        if self.other is None:
            return places, margins, np.ones(len(places), dtype=np.bool_)
        places = np.union1d(places, np.flatnonzero(are_wrong(self.other.log_odds(block.rows), block.y)))
        margins = plane.margins(block.X[places])
        return places, margins, are_wrong(margins, block.y[places])

    def measure(self, some: Block, margins: NDArray[np.float64]) -> Listed:
        """Return what is listed of rows with these margins about the halfspace."""
        rows, positive = np.zeros(some.n_rows, dtype=ROW), some.y > 0
        sines, agreed = self.turns.measure(some.X, margins)
        rows["row"], rows["label"], rows["margin"], rows["agreed"] = some.rows, some.y, sines, agreed
        contradicted = are_wrong(margins, some.y)
        if self.calibration is None:  # labels of one class alone have no curve
            rows["suspicion"] = np.where(contradicted, sines, -sines)
            rows["label_score"] = (1 - rows["suspicion"]) / 2
            rows["is_label_issue"] = contradicted
            return rows
        models = [(self.calibration, margins / (self.turns.plane.length or 1.0))]
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


class Stratum(enum.StrEnum):
    """Parts of the rows, from the surest label issues to the rows that no model contradicts."""

    TOP = "top of the list"
    LIST = "rest of the list"
    CONTRADICTED = "contradicted, not listed"
    UNSUSPECTED = "unsuspected"


DRAWN = np.dtype([("uniform", np.float64), ("measured", ROW)])


@dataclass(frozen=True, slots=True, eq=False)
class DrawnStrata:
    """Rows of each stratum (4,) int64, and those drawn of each: of a partial as `DRAWN`, at last as `ROW`."""

    sizes: NDArray[np.int64]
    drawn: tuple[Listed, ...]

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())


@dataclass(frozen=True, slots=True, eq=False)
class ReviewSample(Reduction[DrawnStrata, DrawnStrata]):
    """The rows with the smallest uniform numbers of each stratum, `numbers` of them.

    The top of the list are the issues that rank at `cut` or above.
    """

    suspects: Suspects
    cut: float
    numbers: tuple[int, ...]
    seed: int
    stream: int

    name = "review-sample"

    def empty(self, dim: int) -> DrawnStrata:
        return DrawnStrata(np.zeros(len(Stratum), dtype=np.int64), tuple(map(_unused, self.numbers)))

    def map(self, block: Block) -> DrawnStrata:
        """Put every row of one block into its stratum, and draw."""
        places, margins, _ = self.suspects.find_contradicted(block)
        rows = self.suspects.measure(block.take(places), margins)
        issues, top = rows["is_label_issue"], rows["suspicion"] >= self.cut
        others = np.setdiff1d(np.arange(block.n_rows), places, assume_unique=True)
        uniforms = uniforms_at(self.seed, self.stream, block.rows)
        parts = (places[issues & top], places[issues & ~top], places[~issues], others)
        drawn = []
        for part, number in zip(parts, self.numbers, strict=True):
            chosen = np.sort(part[np.argsort(uniforms[part], kind="stable")[:number]])
            some = block.take(chosen)
            found = np.empty(some.n_rows, dtype=DRAWN)
            found["uniform"] = uniforms[chosen]
            found["measured"] = self.suspects.measure(some, self.suspects.turns.plane.margins(some.X))
            drawn.append(_first(found, number))
        return DrawnStrata(np.array(list(map(len, parts)), dtype=np.int64), tuple(drawn))

    def combine(self, *parts: DrawnStrata) -> DrawnStrata:
        strata = zip(self.numbers, *(part.drawn for part in parts), strict=True)
        drawn = tuple(_first(np.concatenate(same), number) for number, *same in strata)
        return DrawnStrata(np.sum([part.sizes for part in parts], axis=0), drawn)

    def finalize(self, partial: DrawnStrata) -> DrawnStrata:
        """Return the drawn rows in the order of their numbers."""
        drawn = tuple(one["measured"][np.isfinite(one["uniform"])] for one in partial.drawn)
        return DrawnStrata(partial.sizes, drawn)

    def partial_nbytes(self, dim: int) -> int:
        return DRAWN.itemsize * sum(self.numbers) + 8 * (len(Stratum) + 1)


def _unused(number: int) -> Listed:
    room = np.zeros(number, dtype=DRAWN)
    room["uniform"] = np.inf
    return room


def _first(rows: Listed, number: int) -> Listed:
    """Return `number` places, those with the smallest uniforms first."""
    kept = rows[np.argsort(rows["uniform"], kind="stable")[:number]]
    return np.concatenate([kept, _unused(number - len(kept))])


def share_out(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return how many rows are drawn of each stratum: half of them from the list.

    What a small stratum has no rows for goes to the others.
    """
    shares, left = [0] * len(sizes), number
    weights = (0.3, 0.2, 0.15, 0.35)
    while left > 0 and (free := [i for i, size in enumerate(sizes) if shares[i] < size]):
        total = sum(weights[i] for i in free)
        for i in free:
            more = max(1, round(left * weights[i] / total))
            shares[i] += min(more, sizes[i] - shares[i], number - sum(shares))
        left = number - sum(shares)
    return tuple(shares)
