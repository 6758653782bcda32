"""Result of an audit of labels; the document that `audit --json` writes."""

from __future__ import annotations

from typing import Literal

from streamhalf.redact import plural
from streamhalf.results.codes import Notice, Record
from streamhalf.results.parts import DataRecord, Halfspace, PassRecord
from streamhalf.results.quality import CalibrationRecord
from streamhalf.results.results import Document, RunRecord, Versions


class Suspect(Record, frozen=True):
    """A row whose label the halfspace, or the other model, contradicts.

    `label_score` is the probability of the given label at this margin (`other_score` that of the
    other model), `margin` the sine of the angle by which the halfspace would have to turn to get
    the row right. `agreed`: every halfspace within the result's angle and shift of threshold gets
    it wrong too. `values` are those of the result's `columns`, of the user.
    """

    row: int
    given_label: bool | int | float | str
    predicted_label: bool | int | float | str
    is_label_issue: bool
    label_score: float
    margin: float
    agreed: bool
    other_score: float | None = None
    values: tuple[bool | int | float | str | None, ...] = ()


class Segment(Record, frozen=True):
    """Rows start, ..., stop - 1: how many are misclassified, agreed, and label issues."""

    start: int
    stop: int
    n_wrong: int
    n_agreed: int
    n_issues: int = 0


class Gathering(Record, frozen=True):
    """Rows with one value of a column, or of one segment (then `column` is empty), where issues gather.

    `n_issues` of the `all_issues` issues that were looked at have the value, and about a `share` of
    all rows, so chance would give `expected`. Were issues spread at random, any of the values that
    were looked at would have as many with probability `chance` at most.
    """

    column: str
    value: str
    n_issues: int
    all_issues: int
    share: float
    expected: float
    chance: float


class StratumRecord(Record, frozen=True):
    """Reviewed rows of one stratum, and the least and largest number of wrong labels in it."""

    name: str
    n_rows: int
    n_reviewed: int
    n_wrong: int
    n_unsure: int
    low: int
    high: int


class CountInterval(Record, frozen=True):
    """At least `low` and at most `high` of `n_rows` labels are wrong."""

    low: int
    high: int
    n_rows: int


class ReviewRecord(Record, frozen=True):
    """Wrong labels among the listed and among all rows, at confidence 1 - tau.

    `precision` is the share of wrong labels among reviewed rows of the list; `more_reviews` as
    many again would about halve the interval of all rows.
    """

    tau: float
    strata: tuple[StratumRecord, ...]
    listed: CountInterval
    rows: CountInterval
    precision: float | None = None
    more_reviews: int | None = None


class ConflictSet(Record, frozen=True):
    """Rows of which at least one label is wrong under every halfspace.

    The sum of weight · label · (features, 1) over the rows is exactly 0; weights are fractions.
    """

    rows: tuple[int, ...]
    labels: tuple[int, ...]
    features: tuple[tuple[float, ...], ...]
    weights: tuple[str, ...]


class ConflictSets(Document, frozen=True, kw_only=True):
    """Disjoint sets of rows in conflict; the document that `audit --proofs` writes.

    Every halfspace contradicts at least one label of each set.
    """

    schema: Literal["streamhalf-conflicts-1"] = "streamhalf-conflicts-1"
    data: DataRecord
    sets: tuple[ConflictSet, ...]
    versions: Versions


class AuditResult(Document, frozen=True, kw_only=True):
    """Label issues of a data set: how many rows contradict a halfspace, which, and where.

    Agreement is that of all halfspaces within `angle` (radians, in the run's transform; None: no
    row is marked) whose thresholds, at normals of length 1, differ by up to `threshold_shift`.
    `least_wrong` labels at least are contradicted by every halfspace, with any threshold.
    """

    schema: Literal["streamhalf-audit-1"] = "streamhalf-audit-1"
    halfspace: Halfspace
    transform: str
    angle: float | None = None
    threshold_shift: float = 0.0
    n_wrong: int
    n_agreed: int
    n_wrong_negative: int
    n_wrong_positive: int
    n_issues: int
    n_issues_negative: int
    n_issues_positive: int
    n_listed: int
    least_wrong: int | None = None
    ranked: bool = True
    misclassified: bool = False
    out: str = ""
    calibration: CalibrationRecord | None = None
    other_calibration: CalibrationRecord | None = None
    columns: tuple[str, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    segments: tuple[Segment, ...] = ()
    gatherings: tuple[Gathering, ...] = ()
    review: ReviewRecord | None = None
    passes: tuple[PassRecord, ...] = ()
    data: DataRecord
    versions: Versions
    run: RunRecord | None = None
    notices: tuple[Notice, ...] = ()

    def __repr__(self) -> str:
        agreed = f", {self.n_agreed:,} agreed" if self.angle is not None else ""
        return (
            f"<AuditResult: {plural(self.n_issues, 'label issue')} among "
            f"{self.n_wrong:,} misclassified rows{agreed}, {self.data}>"
        )
