"""The parts of results: judgements, evidence, passes, certificates."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable

import numpy as np

from streamhalf.kernels.plane import Plane
from streamhalf.names import plural
from streamhalf.records.base import Record
from streamhalf.records.codes import Advice, Outcome, Position, Role, Stage, Subject


class Evidence(Record, frozen=True):
    """One measured quantity beside what N(0, I) would give.

    `deviation` is the distance that is compared with `limit`, in the tester's own unit;
    `observed` and `expected` are in the unit of the subject.
    """

    subject: Subject
    observed: float
    expected: float
    deviation: float
    limit: float


class Judgement(Record, frozen=True):
    """A tester's word: statistic T against tolerance `limit` and null quantile q.

    `candidate` is the number of the halfspace it speaks of, `scale` the eta it was tested at,
    `directions` the number of directions it was sketched on, where there are such.
    """

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
    def severity(self) -> tuple[int, float]:
        """Orders judgements: rejections last, and among equals those further beyond their limit."""
        return _SEVERITY[self.outcome], self.share


_SEVERITY = {
    Outcome.NOT_JUDGED: 0,
    Outcome.PASSED: 1,
    Outcome.INCONCLUSIVE: 2,
    Outcome.REJECTED: 3,
}


def worst_of(judgements: Iterable[Judgement]) -> Judgement | None:
    """The judgement that matters most, among those that had a say.

    An extra one that cannot tell stands in nobody's way.
    """
    judged = (
        one
        for one in judgements
        if one.outcome is not Outcome.NOT_JUDGED
        and not (one.role is Role.EXTRA and one.outcome is Outcome.INCONCLUSIVE)
    )
    return max(judged, key=lambda one: one.severity, default=None)


def overall_outcome(judgements: Iterable[Judgement]) -> Outcome:
    """Rejected if any tester rejects, else inconclusive if any is, else passed."""
    worst = worst_of(judgements)
    return Outcome.PASSED if worst is None else worst.outcome


class PassRecord(Record, frozen=True):
    """What one pass read, kept and took."""

    name: str
    rows_read: int
    bytes_read: int
    rows_accepted: int
    seconds: float


class Halfspace(Record, frozen=True):
    """sgn(normal·x + offset) on stored features; sgn(0) = +1."""

    normal: tuple[float, ...]
    offset: float = 0.0

    @classmethod
    def of(cls, plane: Plane) -> Halfspace:
        """From a plane of the stored features."""
        return cls(tuple(plane.normal.tolist()), -float(plane.threshold) or 0.0)

    @property
    def plane(self) -> Plane:
        """The plane that bounds it."""
        return Plane(np.array(self.normal, dtype=np.float64), -self.offset)


class DataRecord(Record, frozen=True):
    """Which data a result speaks of."""

    rows: int
    dim: int
    fingerprint: str
    source: str = ""

    def __str__(self) -> str:
        return f"{plural(self.rows, 'row')} of {plural(self.dim, 'feature')}"


class Versions(Record, frozen=True):
    """What computed a result."""

    streamhalf: str
    python: str
    numpy: str
    dask: str
    zarr: str

    @classmethod
    def current(cls) -> Versions:
        """The versions at work here."""
        names = ("streamhalf", "numpy", "dask", "zarr")
        found = {name: importlib.metadata.version(name) for name in names}
        return cls(python=platform.python_version(), **found)


class ErrorRecord(Record, frozen=True):
    """Error on rows that no update used, and its exact binomial upper bound."""

    empirical: float
    upper: float
    n_rows: int


class OptRecord(Record, frozen=True):
    """No halfspace errs on less: on the rows at hand, and (confidence 1 - tau) on their source."""

    lower_empirical: float
    lower: float


class AngleRecord(Record, frozen=True):
    """No halfspace at an angle between these (radians) from the direction errs on less."""

    angle_low: float
    angle_high: float
    bound: float
    family: str


class CertificateRecord(Record, frozen=True):
    """What the certificate pass found.

    It read all rows: `digest` is a digest of every one. The other numbers speak of `n_rows` of
    them, those in the windows that `share` and `seed` choose; all if `share` is 1. `error` is the
    error of the halfspace on them, `ratio` that over the bound (None where the bound is 0). The
    bound was computed from slabs along the unit vector `direction` (of rows in the run's position;
    empty: that of the halfspace): `slab_error` and `n_slabs` say which. The angles, from that
    direction, say where the bound is weakest.
    """

    n_rows: int
    n_errors: int
    error: float
    opt: OptRecord
    ratio: float | None
    angle_low: float
    angle_high: float
    degree: int
    slab_error: float
    n_slabs: tuple[int, ...]
    digest: str
    profile: tuple[AngleRecord, ...]
    advice: Advice
    direction: tuple[float, ...] = ()
    share: float = 1.0
    seed: int = 0


class PositionRecord(Record, frozen=True):
    """The row map of a run: rows of the isotropic position are matrix·(x - centre)."""

    kind: str = Position.STORED.value
    centre: tuple[float, ...] = ()
    matrix: tuple[tuple[float, ...], ...] = ()

    @property
    def whitened(self) -> bool:
        """Whether features are mixtures of the stored ones, about their mean."""
        return self.kind == Position.ISOTROPIC


class HeldOutRecord(Record, frozen=True):
    """The rows that measured the error: those in the ranges whose uniform lies in [low, high)."""

    ranges: tuple[tuple[int, int], ...]
    low: float
    high: float


class DiagnosticsRecord(Record, frozen=True):
    """What the pictures of a report are drawn from.

    Of the first pass: `feature_moments` (d rows: means of he_1, he_2, ... of each feature) and
    `pair_moments` (d × d: normalised Hermite moments of degree 2; empty for wide data). Of the
    final pass, for the returned halfspace: rows in slabs of `slab_width` (the outer two are tails),
    and the largest second moment orthogonal to it between the `eigen_edges`.
    """

    feature_moments: tuple[tuple[float, ...], ...]
    pair_moments: tuple[tuple[float, ...], ...]
    slab_width: float
    slab_counts: tuple[int, ...]
    eigen_edges: tuple[float, ...]
    eigenvalues: tuple[float, ...]


class CandidateRecord(Record, frozen=True):
    """A candidate of the localisation: how it was found and how it did.

    `angle` is its angle to the returned halfspace in radians; `error` and `beta`, which bounds its
    disagreement with any halfspace within eps of it, are None where no final pass measured them.
    """

    delta: float
    step: float
    overlap: float
    rows_seen: int
    rows_accepted: int
    angle: float
    error: float | None
    beta: float | None


class PassBudget(Record, frozen=True):
    """What one pass will read."""

    name: str
    rows: int
    nbytes: int
    delta: float | None = None
