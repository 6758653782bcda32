"""What an audit of labels found; the document that `audit --json` writes."""

from __future__ import annotations

from typing import Literal

from streamhalf.redact import plural
from streamhalf.results.base import Record
from streamhalf.results.codes import Notice
from streamhalf.results.parts import DataRecord, Halfspace, PassRecord
from streamhalf.results.provenance import RunRecord, Versions
from streamhalf.results.results import Document


class Suspect(Record, frozen=True):
    """A row that the halfspace gets wrong.

    `margin` is the sine of the angle by which the halfspace would have to turn to get it right, 0
    to 1; `label_score` is (1 - margin) / 2, so that the most suspicious rows score least. `agreed`
    says that every halfspace within the result's angle and shift of threshold gets the row wrong
    too; it does not say that somebody changed the label.
    """

    row: int
    given_label: int | float | str
    predicted_label: int | float | str
    label_score: float
    margin: float
    agreed: bool


class Segment(Record, frozen=True):
    """How many of the rows start, ..., stop - 1 are wrong, and how many are agreed."""

    start: int
    stop: int
    n_wrong: int
    n_agreed: int


class FeatureShift(Record, frozen=True):
    """A feature over all rows (or a quarter of a million of them) and over the wrong ones.

    `shift` is the difference of the means in standard deviations of all rows.
    """

    name: str
    mean: float
    deviation: float
    wrong_mean: float
    shift: float


class AuditResult(Document, frozen=True, kw_only=True):
    """How many labels a halfspace gets wrong, where they are, and the first of the suspects.

    Agreement is that of all halfspaces within `angle` (radians, in the run's transform; None: no row
    is marked) whose thresholds, at normals of length 1, differ by up to `threshold_shift`.
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
    n_listed: int
    ranked: bool = True
    out: str = ""
    suspects: tuple[Suspect, ...] = ()
    segments: tuple[Segment, ...] = ()
    features: tuple[FeatureShift, ...] = ()
    passes: tuple[PassRecord, ...] = ()
    data: DataRecord
    versions: Versions
    run: RunRecord | None = None
    notices: tuple[Notice, ...] = ()

    def __repr__(self) -> str:
        agreed = f", {self.n_agreed:,} agreed" if self.angle is not None else ""
        return f"<AuditResult: {plural(self.n_wrong, 'suspect')}{agreed}, {self.data}>"
