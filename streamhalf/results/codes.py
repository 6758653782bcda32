"""The base of all records, and codes that travel: the report makes their sentences."""

from __future__ import annotations

import enum
import math
import re
import threading
from reprlib import repr as shown
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np

from streamhalf.errors import DataError

T = TypeVar("T")
replace = msgspec.structs.replace
# msgspec prepares a class at its first use, which must not happen in two threads at once
_CONVERTING = threading.Lock()
_LARGEST = float(np.finfo(np.float64).max)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that goes to JSON and comes back as data only; its numbers are finite, or None."""


def finite(value: float) -> float:
    """Return the nearest number that JSON can hold; NaN counts as huge."""
    return _LARGEST if math.isnan(value) else min(max(float(value), -_LARGEST), _LARGEST)


def to_json(value: Any) -> Any:
    """Turn records into what `json.dumps` takes."""
    return msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a record")


def from_json(cls: type[T], data: Any, *, where: str = "document") -> T:
    """Rebuild a record; the error names the value that does not fit, and its place."""
    try:
        with _CONVERTING:
            return msgspec.convert(data, cls)
    except (msgspec.ValidationError, RecursionError) as error:
        what, _, place = str(error).replace("`", "").partition(" - at $")
        value = data
        for key, number in re.findall(r"\.(\w+)|\[(\d+)\]", place):  # .passes[0].name
            value = value[int(number)] if number else value[key]
        # a function, for in a plain replacement a backslash would count
        what = re.sub(r"got \w+$", lambda _: f"got {shown(value)}", what)
        raise DataError(f"{where}{place}: {what[:1].lower()}{what[1:]}") from None


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
        """Exit code of the command line."""
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
    """Transforms of rows before they are tested.

    As stored; centred and scaled to covariance I; or about a centre, with directions spread evenly, and distances from
    it and signs drawn anew.
    """

    STORED = "stored"
    ISOTROPIC = "isotropic"
    RADIAL = "radial"


class HalfspaceClass(enum.StrEnum):
    """The class of halfspaces that a number speaks of: all, or those through one point.

    The centre is the point to which the transform moves the origin: in the isotropic one the mean of the features, in
    the radial one that about which they are estimated to be spread evenly.
    """

    ANY = "any"
    CENTRE = "centre"
    ORIGIN = "origin"

    def within(self, other: HalfspaceClass) -> bool:
        """Return True if every halfspace of this class is one of the other's."""
        return other in (self, HalfspaceClass.ANY)


class Method(enum.StrEnum):
    """How a candidate was found.

    On the path of the theorem, by logistic regression, or by localised updates of a sample: from the Chow vector or
    from the regression, by Chow vectors or least squares, in the isotropic or in the radial transform.
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
    """The pass of Algorithm 3 that comes next, or that a test result is of."""

    INITIAL = "initial"
    UPDATE = "update"
    REFINE = "refine"
    THRESHOLDS = "thresholds"
    FINAL = "final"
    DONE = "done"


class Role(enum.StrEnum):
    """Role of a tester in the verdict.

    A required one decides. An early one warns; the final pass tests the same again. Below the tested scale (refinement)
    and of an extra test, doubts do not count, but a rejection does. An advisory one speaks of the order of rows; after
    a fallback one the run began anew with rows drawn at random.
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


# subjects of evidence: features are numbered from 0, directions are unit vectors, and None is no end


class SegmentQuantity(enum.StrEnum):
    """Quantity that is compared between segments of rows."""

    LABEL = "y"
    NORM = "|x|^2"
    FEATURE = "x"
    PRODUCT = "y x"


class Moment(Record, frozen=True, tag="moment"):
    """The mean of a product of features (of random directions, if sketched)."""

    variables: tuple[int, ...]
    sketched: bool = False


class SecondMoment(Record, frozen=True, tag="second-moment"):
    """The mean of (u·x)² along a direction."""

    direction: tuple[float, ...]


class Quadratic(Record, frozen=True, tag="quadratic"):
    """The mean square of a quadratic polynomial that is largest along a direction."""

    direction: tuple[float, ...]


class AcceptanceRate(Record, frozen=True, tag="acceptance-rate"):
    """The share of rows that localisation at scale delta accepts."""

    delta: float


class SlabShare(Record, frozen=True, tag="slab-share"):
    """The share of rows with a margin in [low, high)."""

    low: float | None
    high: float | None


class SlabSecondMoment(Record, frozen=True, tag="slab-second-moment"):
    """The second moment along a direction of the rows with a margin in [low, high)."""

    low: float | None
    high: float | None
    direction: tuple[float, ...]


class WedgeShare(Record, frozen=True, tag="wedge-share"):
    """The bound on the share of rows on which halfspaces within eta disagree with a candidate."""

    eta: float


class SegmentMean(Record, frozen=True, tag="segment-mean"):
    """The mean of a quantity (of one feature, or of its product with y) in one of `segments` equal segments of rows."""

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
