"""Codes that travel: why a search stopped, what was noticed, what was looked at.

Each is a small value; the report makes its sentence.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import msgspec

from streamhalf.results.base import Record


class Outcome(enum.StrEnum):
    """The three outcomes of a tester, and the word for one that had no say."""

    PASSED = "passed"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    NOT_JUDGED = "not judged"


class Verdict(enum.StrEnum):
    """Verdict of a run."""

    ACCEPTED = "accepted"
    CERTIFIED = "certified"
    PASSED = "passed"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> int:
        """Exit code of the command line for this verdict."""
        return {Verdict.REJECTED: 10, Verdict.INCONCLUSIVE: 11}.get(self, 0)


class RowsKept(enum.StrEnum):
    """Where the rows of lazy arrays are for the time of a run."""

    MEMORY = "memory"
    CLUSTER = "cluster"
    FOLDER = "folder"
    NOWHERE = "nowhere"


class Sampling(enum.StrEnum):
    """How passes that learn share the rows."""

    WINDOWS = "windows"
    ROWS = "rows"
    REUSE = "reuse"


class Transform(enum.StrEnum):
    """How rows are laid before they are tested.

    As they are stored; centred and of spread I; or about a centre with directions spread evenly,
    distances from it and signs drawn anew.
    """

    STORED = "stored"
    ISOTROPIC = "isotropic"
    RADIAL = "radial"


class HalfspaceClass(enum.StrEnum):
    """The class of halfspaces that a number speaks of: all, or those through one point.

    The centre is the point to which the transform moves the origin: in the isotropic one the mean
    of the features, in the radial one that about which they are estimated to be spread evenly.
    """

    ANY = "any"
    CENTRE = "centre"
    ORIGIN = "origin"

    def within(self, other: HalfspaceClass) -> bool:
        """Return True if every halfspace of this class is one of the other's."""
        return other in (self, HalfspaceClass.ANY)


class Method(enum.StrEnum):
    """How a candidate was found.

    On the path of the theorem, by logistic regression, or by localised updates of a sample: from
    the Chow vector or from the regression, by Chow vectors or least squares, in the isotropic or
    in the radial transform.
    """

    PATH = "path"
    REGRESSION = "regression"
    CHOW = "chow"
    SQUARES = "least squares"
    REGRESSION_CHOW = "regression, then chow"
    REGRESSION_SQUARES = "regression, then least squares"
    RADIAL_CHOW = "radial, chow"
    RADIAL_SQUARES = "radial, least squares"
    RADIAL_REGRESSION_CHOW = "radial, regression, then chow"
    RADIAL_REGRESSION_SQUARES = "radial, regression, then least squares"


class Stage(enum.StrEnum):
    """The pass of Algorithm 3 that comes next, or that a test_result is of."""

    INITIAL = "initial"
    UPDATE = "update"
    REFINE = "refine"
    THRESHOLDS = "thresholds"
    FINAL = "final"
    DONE = "done"


class Role(enum.StrEnum):
    """Role of a tester in the verdict.

    A required one decides; an early one warns, and what it is about is tested again in the final
    pass; below the tested scale (refinement), and of an extra test, doubts do not count, but a
    rejection does; an advisory one speaks of the order of rows, and a fallback is one upon which
    the run began anew with rows drawn at random.
    """

    REQUIRED = "required"
    EARLY = "early"
    REFINEMENT = "refinement"
    EXTRA = "extra"
    ADVISORY = "advisory"
    FALLBACK = "fallback"


class StopReason(enum.StrEnum):
    """Why the localisation went no further."""

    REACHED_EPS = "reached eps"
    NOISE_DOMINATES = "noise dominates"
    NO_PROGRESS = "no progress"
    MOST_UPDATES = "most updates"
    ROWS_USED_UP = "rows used up"
    TESTER_REJECTED = "a tester rejected"
    TOO_FEW_ROWS = "too few rows"

    @property
    def is_noise(self) -> bool:
        """True if the labels stopped it: more rows would not help."""
        return self in (StopReason.NOISE_DOMINATES, StopReason.NO_PROGRESS)


class Stop(Record, frozen=True):
    """Why the localisation stopped, and at which scale where that matters."""

    reason: StopReason
    delta: float | None = None


# what a piece of evidence is about


class SegmentQuantity(enum.StrEnum):
    """Quantity that is compared between segments of rows."""

    LABEL = "y"
    NORM = "|x|^2"
    FEATURE = "x"
    PRODUCT = "y x"


class Moment(Record, frozen=True, tag="moment"):
    """The mean of a product of features (numbered from 0; of random directions, if sketched)."""

    variables: tuple[int, ...]
    sketched: bool = False


class SecondMoment(Record, frozen=True, tag="second-moment"):
    """The mean of (u·x)² along a unit vector."""

    direction: tuple[float, ...]


class Quadratic(Record, frozen=True, tag="quadratic"):
    """The mean square of a quadratic polynomial that is largest along a unit vector."""

    direction: tuple[float, ...]


class AcceptanceRate(Record, frozen=True, tag="acceptance-rate"):
    """The share of rows that localisation at scale delta accepts."""

    delta: float


class SlabShare(Record, frozen=True, tag="slab-share"):
    """The share of rows with a margin in [low, high); None: without an end."""

    low: float | None
    high: float | None


class SlabSecondMoment(Record, frozen=True, tag="slab-second-moment"):
    """The second moment along a unit vector of the rows with a margin in [low, high)."""

    low: float | None
    high: float | None
    direction: tuple[float, ...]


class WedgeShare(Record, frozen=True, tag="wedge-share"):
    """The bound on the share of rows on which halfspaces within eta disagree with a candidate."""

    eta: float


class SegmentMean(Record, frozen=True, tag="segment-mean"):
    """The mean of a quantity (of one feature, or of its product with y) over a segment of rows.

    `segment` is its number, from 0, of `segments` equal ones.
    """

    segment: int
    quantity: SegmentQuantity
    feature: int | None = None
    segments: int | None = None


class Named(Record, frozen=True, tag="named"):
    """Something that goes by a name of its own."""

    name: str


Subject: TypeAlias = (
    Moment | SecondMoment | Quadratic | AcceptanceRate | SlabShare | SlabSecondMoment | WedgeShare | SegmentMean | Named
)


class NoticeCode(enum.StrEnum):
    """Codes of notices, with the fields of each."""

    LABELS_ABSENT = "labels-absent"  # array: no labels of this name, features alone were tested
    LABELS_ARE_BITS = "labels-are-bits"  # array: stored as 0 and 1, 0 is read as -1
    LABELS_READ = "labels-read"  # array, low, high: two values, the first is read as -1
    FEATURES_CONVERTED = "features-converted"  # array, stored, used: dtypes
    ROWS_DROPPED = "rows-dropped"  # dropped, stored: rows with gaps that were left out
    GAPS_FILLED = "gaps-filled"  # gaps, features: with medians, an indicator beside each
    TABLE_ENCODED = "table-encoded"  # columns, features, dropped (names), gaps
    SLOW_TABLE = "slow-table"  # size: bytes of CSV that every pass parses
    ONE_CLASS = "one-class"  # label: of all rows
    NEARLY_ONE_CLASS = "nearly-one-class"  # label, share: of few rows
    NO_BETTER_THAN_GUESS = "no-better-than-guess"  # label, error: of the constant guess
    NO_ROOM = "no-room"  # size, room: bytes that a certificate takes more than certificate_memory
    FEWER_AT_ONCE = "fewer-at-once"  # at_once, threads, size, room: tasks that fit in memory
    EPS_NOT_REACHED = "eps-not-reached"  # asked, reached (None: no scale), noise: stopped it
    REPEATED_ROWS = "repeated-rows"  # share met more than once, times on average
    ERRORS_DISAGREE = "errors-disagree"  # held_out, upper, all_rows: above the held-out bound
    ERRORS_CLUSTER = "errors-cluster"  # segments that bound them (1: drift), factor over chance
    ROWS_IN_ORDER = "rows-in-order"  # quantity, feature, factor over chance between segments
    RADII_DRAWN = "radii-drawn"  # at_centre: share of rows; lengths and signs were drawn
    RESUMED = "resumed"  # place, passes: that a checkpoint held
    RUNS_ON = "runs-on"  # place, why: a cluster that was not named
    LAZY_ROWS = "lazy-rows"  # size in bytes, kept (a `RowsKept`), place


class Notice(Record, frozen=True):
    """Something that a run tells its user besides its numbers, by code."""

    code: NoticeCode
    fields: dict[str, bool | int | float | str | None] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, code: NoticeCode, **fields: bool | int | float | str | None) -> Notice:
        """Return the notice of a code with these fields."""
        return cls(code, fields)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]
