"""The parts of results: encoding of tables, test results, evidence, errors, transforms."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

import numpy as np

from streamhalf.kernels.plane import Plane
from streamhalf.redact import plural
from streamhalf.results.codes import HalfspaceClass, Method, Outcome, Record, Role, Stage, Subject, Transform


class ColumnUse(StrEnum):
    """Uses of a column."""

    NUMBER = "number"
    CATEGORY = "category"
    DATE = "date"
    DROPPED = "dropped"


class Part(StrEnum):
    """Parts of a column that a feature can hold."""

    VALUE = "value"
    IS = "is"
    OTHER = "other"
    MISSING = "missing"
    DAYS = "days"
    YEAR_SIN = "year sin"
    YEAR_COS = "year cos"
    WEEK_SIN = "week sin"
    WEEK_COS = "week cos"
    HOUR_SIN = "hour sin"
    HOUR_COS = "hour cos"


class DropReason(StrEnum):
    """Why a column, or a feature of one, is left out."""

    ASKED = "asked"
    CONSTANT = "constant"
    EMPTY = "empty"
    IDENTIFIER = "identifier"
    MANY_VALUES = "many values"
    COLLINEAR = "collinear"


class FeatureRecord(Record, frozen=True):
    """A feature made of a column; `value` is what an indicator stands for."""

    name: str
    part: Part = Part.VALUE
    value: str = ""


class ColumnRecord(Record, frozen=True):
    """A column of a table, and the features made of it.

    `gaps` are counted where the encoding was made; `fill` takes their place. `known` are the values of a category that
    are not rare; `base` is the one without an indicator. `form` is how numbers or dates are written in a column of
    text: the decimal mark, or a format of strptime.
    """

    name: str
    use: ColumnUse
    features: tuple[FeatureRecord, ...] = ()
    gaps: int = 0
    fill: float | None = None
    known: tuple[str, ...] = ()
    base: str | None = None
    reason: DropReason | None = None
    form: str = ""


class EncodingRecord(Record, frozen=True):
    """How the columns of a table become features of this dtype."""

    columns: tuple[ColumnRecord, ...]
    dtype: str = "float64"

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        return tuple(one.name for column in self.columns for one in column.features)

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the columns that features are made of."""
        return tuple(column.name for column in self.columns if column.features)


class Evidence(Record, frozen=True):
    """One measured quantity beside that of N(0, I).

    `deviation` is compared with `limit`, in the tester's unit; `observed` and `expected` are in that of the subject.
    """

    subject: Subject
    observed: float
    expected: float
    deviation: float
    limit: float


class TestResult(Record, frozen=True):
    """A tester's statistic against its tolerance `limit` and its quantile under the null hypothesis.

    `candidate` is the number of the halfspace it speaks of, `scale` the eta or delta it was tested at, `directions` the
    number of directions it was sketched on (None: no such thing).
    """

    __test__: ClassVar[bool] = False  # nothing for pytest to collect

    tester: str
    outcome: Outcome
    statistic: float
    limit: float
    null_quantile: float
    n_rows: int
    rows_needed: int | None = None
    evidence: tuple[Evidence, ...] = ()
    pass_name: str = ""
    stage: Stage | None = None
    role: Role = Role.REQUIRED
    candidate: int | None = None
    scale: float | None = None
    directions: int | None = None

    @property
    def share(self) -> float:
        """Statistic over limit: beyond 1 a tester may reject."""
        return self.statistic / self.limit if self.limit > 0 else self.statistic

    @property
    def has_say(self) -> bool:
        """True if the verdict counts it: not early warnings, nor doubts of an extra test."""
        doubts = self.outcome is Outcome.INCONCLUSIVE and self.role is Role.EXTRA
        return self.outcome is not Outcome.NOT_JUDGED and self.role is not Role.EARLY and not doubts

    @property
    def severity(self) -> tuple[int, float]:
        """Sort key: rejections last, and among equals those further beyond their limit."""
        return _SEVERITY[self.outcome], self.share


_SEVERITY = {Outcome.NOT_JUDGED: 0, Outcome.PASSED: 1, Outcome.INCONCLUSIVE: 2, Outcome.REJECTED: 3}


def worst_of(test_results: Iterable[TestResult]) -> TestResult | None:
    """Return the most severe of the test results that had a say."""
    return max((one for one in test_results if one.has_say), key=lambda one: one.severity, default=None)


def overall_outcome(test_results: Iterable[TestResult]) -> Outcome:
    """Return rejected if any tester rejects, else inconclusive if any is, else passed."""
    worst = worst_of(test_results)
    return Outcome.PASSED if worst is None else worst.outcome


class PassRecord(Record, frozen=True):
    """Rows, bytes and time of one pass; `moved` counts bytes over the network."""

    name: str
    rows_read: int
    bytes_read: int
    rows_accepted: int
    seconds: float
    bytes_moved: int = 0
    requests: int = 0


class Halfspace(Record, frozen=True):
    """sgn(normal·x + offset) on stored features; sgn(0) = +1."""

    normal: tuple[float, ...]
    offset: float = 0.0

    @classmethod
    def of(cls, plane: Plane) -> Halfspace:
        return cls(tuple(plane.normal.tolist()), -float(plane.threshold) or 0.0)

    @property
    def plane(self) -> Plane:
        return Plane(np.array(self.normal, dtype=np.float64), -self.offset)


class DataRecord(Record, frozen=True):
    """Which data a result speaks of: names of features if there are any, the snapshot of a versioned store.

    `classes` are the labels that stand for -1 and +1, unless they are these; `encoding` is that of a table's columns.
    """

    rows: int
    dim: int
    fingerprint: str
    source: str = ""
    features: tuple[str, ...] = ()
    classes: tuple[bool | int | float | str, ...] = ()
    encoding: EncodingRecord | None = None
    snapshot: str = ""

    @property
    def label_names(self) -> tuple[str, str]:
        """Names of -1 and +1."""
        low, high = self.classes or ("-1", "+1")
        return str(low), str(high)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for every feature: its own, or x1, x2, ..."""
        return self.features or tuple(f"x{j + 1}" for j in range(self.dim))

    def __str__(self) -> str:
        return f"{plural(self.rows, 'row')} of {plural(self.dim, 'feature')}"


class LabelErrors(Record, frozen=True):
    """Rows of each label, and the errors of a halfspace among them."""

    positive: int
    negative: int
    positive_errors: int
    negative_errors: int

    @property
    def guess(self) -> int:
        """The label that errs least where every row gets it."""
        return 1 if self.positive > self.negative else -1

    @property
    def guess_error(self) -> float:
        """Error of always guessing that label, on the same rows."""
        return min(self.positive, self.negative) / max(1, self.positive + self.negative)

    @property
    def rates(self) -> tuple[float, float]:
        """Share of wrong rows among those labelled +1, and among those labelled -1."""
        return self.positive_errors / max(1, self.positive), self.negative_errors / max(1, self.negative)

    @property
    def balanced(self) -> float:
        """The mean of these rates: the error if both labels were equally frequent."""
        return sum(self.rates) / 2


class ErrorRecord(Record, frozen=True):
    """Error of a halfspace of the class `through` on rows that no update used, and its upper bound.

    The bound is binomial (`segments` None), or for so many contiguous segments of rows where errors come in clusters;
    then `upper_here` is the binomial one, for the rows of the data only. With 1 segment, errors drift along the rows.
    It fails with probability `tau`, shared over the candidates (None: the document's).
    """

    empirical: float
    upper: float
    n_rows: int
    segments: int | None = None
    through: HalfspaceClass = HalfspaceClass.ORIGIN
    tau: float | None = None
    by_label: LabelErrors | None = None
    upper_here: float | None = None

    @property
    def beats_guess(self) -> bool:
        """True if the halfspace is better than the constant guess on the rows of the data."""
        upper = self.upper if self.upper_here is None else self.upper_here
        return self.by_label is None or upper < self.by_label.guess_error


class TransformRecord(Record, frozen=True):
    """The row map of a run: rows of the isotropic transform are matrix·(x - centre).

    The radial transform also draws their length and sign from `seed` and the number of the row; the share `at_centre`
    of the rows lies at the centre and stays there.
    """

    kind: str = Transform.STORED.value
    centre: tuple[float, ...] = ()
    matrix: tuple[tuple[float, ...], ...] = ()
    seed: int | None = None
    at_centre: float = 0.0

    @property
    def whitened(self) -> bool:
        """True if features are mixtures of the stored ones, about a centre."""
        return self.kind in (Transform.ISOTROPIC, Transform.RADIAL)

    @property
    def through(self) -> HalfspaceClass:
        """The halfspaces without a threshold in this transform."""
        about_origin = bool(self.centre) and not any(self.centre)
        return HalfspaceClass.CENTRE if self.whitened and not about_origin else HalfspaceClass.ORIGIN

    def class_of(self, halfspace: Halfspace) -> HalfspaceClass:
        """Return the smallest class of this transform that a halfspace of the stored features belongs to."""
        normal, centre = np.array(halfspace.normal), np.array(self.centre)
        if self.through is HalfspaceClass.CENTRE and normal.shape == centre.shape:
            # a plane that came out of this transform is off by what margins of its rows are rounded by
            size = abs(halfspace.offset) + float(np.abs(normal) @ np.abs(centre))
            rounding = 4 * (len(normal) + 1) * float(np.finfo(np.float64).eps) * size
            if abs(halfspace.offset + float(normal @ centre)) <= rounding:
                return HalfspaceClass.CENTRE
        return HalfspaceClass.ANY if halfspace.offset else HalfspaceClass.ORIGIN


class TransformTrial(Record, frozen=True):
    """Trial of a transform: on a sample, and then (`tried`) by the tests of a run in it.

    `problem` is why there is no such transform, `features` (numbered from 0) those to blame, which are `constant` or
    collinear; `evidence` is what speaks most against it.
    """

    kind: Transform
    outcome: Outcome
    evidence: TestResult | None = None
    problem: str = ""
    tried: bool = False
    features: tuple[int, ...] = ()
    constant: bool = False


class HeldOutRecord(Record, frozen=True):
    """The rows that measured the error: those in the ranges whose uniform lies in [low, high)."""

    ranges: tuple[tuple[int, int], ...]
    low: float
    high: float


class LookRecord(Record, frozen=True):
    """Rows start, ..., stop - 1, added at one look, and the part of tau that it spent.

    The error was measured on those whose uniform of `seed` lies in [low, high).
    """

    start: int
    stop: int
    seed: int
    low: float
    high: float
    tau: float


class StreamRecord(Record, frozen=True):
    """Rows (start, stop) of a stream that the error and its bound, the tests, and the certificate speak of."""

    errors: tuple[int, int]
    tests: tuple[int, int]
    certificate: tuple[int, int] | None = None


class DiagnosticsRecord(Record, frozen=True):
    """Data of the pictures in a report.

    Of the first pass: `feature_moments` (d rows: means of he_1, he_2, ... of each feature) and `pair_moments` (d × d:
    normalised Hermite moments of degree 2; empty for wide data). Of the final pass, for the returned halfspace
    sgn(v·x - t), |v| = 1: rows in slabs of `slab_width` of v·x - t (the outer two are tails), and the largest second
    moment orthogonal to it between the `eigen_edges`. `threshold` is t, in the run's transform.
    """

    feature_moments: tuple[tuple[float, ...], ...]
    pair_moments: tuple[tuple[float, ...], ...]
    slab_width: float
    slab_counts: tuple[int, ...]
    eigen_edges: tuple[float, ...]
    eigenvalues: tuple[float, ...]
    threshold: float = 0.0


class CandidateRecord(Record, frozen=True):
    """A candidate of the localisation, or of a method that learns in memory; see docs/result.md.

    No final pass measured an `error` or `beta` that is None; `rate` is delta where it is None.
    """

    delta: float
    step: float
    overlap: float
    rows_seen: int
    rows_accepted: int
    angle: float
    error: float | None
    beta: float | None
    method: Method = Method.PATH
    threshold: float = 0.0
    rate: float | None = None


class PromiseRecord(Record, frozen=True):
    """Promise that the tests of all steps down to a scale support: error <= constant opt + eps; see docs/result.md.

    `constant` is the worst that a program found among the distributions that these tests leave, a lower bound on the
    worst case (None: quadratics were not tested in every direction and at every scale, or the scale is too fine).
    """

    delta: float
    eps: float
    deviation: float | None
    constant: float | None
    masses_off: float | None = None


class PassBudget(Record, frozen=True):
    """Planned reads of one pass, with its number of tasks if the data are known."""

    name: str
    rows: int
    nbytes: int
    delta: float | None = None
    n_tasks: int | None = None


class FrameRecord(Record, frozen=True):
    """The neighbourhood of a plane in which an update accepted rows: normal, threshold, scale."""

    normal: tuple[float, ...]
    threshold: float
    delta: float


class WatchReference(Record, frozen=True):
    """Held-out rows behind a result, as a watch compares new ones with them.

    `means`, `deviations` (standard) and `factors` are of the quantities of `reductions.RowProfile`, such as (x -
    centre) / scale of every feature. A mean varies by a factor more than that of independent rows where rows come in
    clusters. `beta` bounds the share of the rows on which halfspaces within `eta` (and `kappa` in threshold) of the
    returned one disagree with it.
    """

    n_rows: int
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    frames: tuple[FrameRecord, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    factors: tuple[float, ...]
    eta: float
    kappa: float
    beta: float
