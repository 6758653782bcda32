"""What a run should tell its user besides its numbers; the sentences are made elsewhere."""

from __future__ import annotations

from typing import TypeAlias

from streamhalf.results.base import Record
from streamhalf.results.codes import RowsKept, SegmentQuantity


class LabelsAbsent(Record, frozen=True, tag="labels-absent"):
    """There are no labels of the name `array`: features were looked at, labels were not."""

    array: str


class LabelsAreBits(Record, frozen=True, tag="labels-are-bits"):
    """Labels are stored as 0 and 1, and 0 is read as -1."""

    array: str


class LabelsRead(Record, frozen=True, tag="labels-read"):
    """Labels are two values of their own, the first of which is read as -1."""

    array: str
    low: str
    high: str


class FeaturesConverted(Record, frozen=True, tag="features-converted"):
    """Features are stored as integers, and computed with as floats."""

    array: str
    stored: str
    used: str


class OneClass(Record, frozen=True, tag="one-class"):
    """All labels are the same."""

    label: int


class NearlyOneClass(Record, frozen=True, tag="nearly-one-class"):
    """Only a small share of the rows has this label."""

    label: int
    share: float


class NoBetterThanGuess(Record, frozen=True, tag="no-better-than-guess"):
    """The constant guess of a label errs on `error`, about as little as the halfspace."""

    label: int
    error: float


class EpsNotReached(Record, frozen=True, tag="eps-not-reached"):
    """The scale that was asked for could not be tested; where noise stopped it, rows do not help.

    `reached` is None where no scale was.
    """

    asked: float
    reached: float | None
    noise: bool


class NoRoom(Record, frozen=True, tag="no-room"):
    """A certificate takes so many bytes at least, and certificate_memory (`room`) is less."""

    nbytes: int
    room: int


class FewerAtOnce(Record, frozen=True, tag="fewer-at-once"):
    """There is `room` for so many of the largest tasks in a process, of `nbytes` at most each.

    Fewer than it has `threads`: others wait.
    """

    at_once: int
    threads: int
    nbytes: int
    room: int


class RepeatedRows(Record, frozen=True, tag="repeated-rows"):
    """A share of the rows is met more than once; a row is met so many times on average."""

    share: float
    times: float


class ErrorsDisagree(Record, frozen=True, tag="errors-disagree"):
    """The error on all rows is above the upper bound that the held-out rows gave."""

    held_out: float
    upper: float
    all_rows: float


class ErrorsCluster(Record, frozen=True, tag="errors-cluster"):
    """Errors come in clusters: their share varies `factor` times as much as chance would have it.

    It is compared between segments of rows, and bounded by the means of `segments` of them; 1: it
    drifts, and nothing is said about other rows.
    """

    segments: int
    factor: float


class RunsOn(Record, frozen=True, tag="runs-on"):
    """The run uses a cluster that nobody named for it; `why` says how it came to be chosen."""

    place: str
    why: str


class LazyRows(Record, frozen=True, tag="lazy-rows"):
    """The rows are lazy arrays: computed once and `kept`, or, nowhere kept, by every pass."""

    nbytes: int
    kept: RowsKept
    place: str = ""


class Resumed(Record, frozen=True, tag="resumed"):
    """A run goes on from so many finished passes in a checkpoint folder."""

    place: str
    passes: int


class Remark(Record, frozen=True, tag="remark"):
    """A notice of an older document, as it was worded there."""

    text: str


class RowsInOrder(Record, frozen=True, tag="rows-in-order"):
    """The mean of a quantity varies `factor` times as much between segments as chance has it."""

    quantity: SegmentQuantity
    feature: int | None
    factor: float


class RadiiDrawn(Record, frozen=True, tag="radii-drawn"):
    """In radial transform lengths and signs of rows are drawn: the tests say nothing about them.

    `at_centre` is the share of rows at the centre, which every halfspace through it takes for +1.
    """

    at_centre: float


Notice: TypeAlias = (
    LabelsAbsent
    | LabelsAreBits
    | LabelsRead
    | FeaturesConverted
    | OneClass
    | NearlyOneClass
    | NoBetterThanGuess
    | NoRoom
    | FewerAtOnce
    | EpsNotReached
    | RepeatedRows
    | ErrorsDisagree
    | ErrorsCluster
    | RowsInOrder
    | RadiiDrawn
    | Resumed
    | RunsOn
    | LazyRows
    | Remark
)
