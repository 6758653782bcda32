"""The parts of results: outcomes, judgements, evidence, passes, certificates."""

from __future__ import annotations

import enum
import importlib.metadata
import platform
from collections.abc import Iterable
from dataclasses import dataclass

from streamhalf.names import plural


class Outcome(enum.StrEnum):
    """The three outcomes of a tester, and the word for one that had no say."""

    PASSED = "passed"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    NOT_JUDGED = "not judged"


class Verdict(enum.StrEnum):
    """What a run says in the end."""

    ACCEPTED = "accepted"
    PASSED = "passed"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> int:
        """What the command line returns for this verdict."""
        return {Verdict.REJECTED: 10, Verdict.INCONCLUSIVE: 11}.get(self, 0)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measured quantity beside what N(0, I) would give.

    `deviation` is the distance that is compared with `limit`, in the tester's own unit;
    `observed` and `expected` are in the unit of `name`.
    """

    name: str
    observed: float
    expected: float
    deviation: float
    limit: float
    direction: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A tester's word: statistic T against tolerance `limit` and null quantile q."""

    tester: str
    outcome: Outcome
    statistic: float
    limit: float
    null_quantile: float
    n_rows: int
    rows_needed: int | None = None
    evidence: tuple[Evidence, ...] = ()
    remark: str = ""
    pass_name: str = ""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass read, kept and took."""

    name: str
    rows_read: int
    bytes_read: int
    rows_accepted: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Halfspace:
    """sgn(normal·x + offset) on raw features; sgn(0) = +1."""

    normal: tuple[float, ...]
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class DataRecord:
    """Which data a result speaks of."""

    rows: int
    dim: int
    fingerprint: str
    source: str = ""

    def __str__(self) -> str:
        return f"{plural(self.rows, 'row')} of {plural(self.dim, 'feature')}"


@dataclass(frozen=True, slots=True)
class Versions:
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


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """Error on rows that no update used, and its exact binomial upper bound."""

    empirical: float
    upper: float
    n_rows: int


@dataclass(frozen=True, slots=True)
class OptRecord:
    """No halfspace errs on less: on the rows at hand, and (confidence 1 - tau) on their source."""

    lower_empirical: float
    lower: float


@dataclass(frozen=True, slots=True)
class AngleRecord:
    """No halfspace at an angle between these (radians) from the direction errs on less."""

    angle_low: float
    angle_high: float
    bound: float
    family: str


@dataclass(frozen=True, slots=True)
class CertificateRecord:
    """What the certificate pass found.

    It read all rows: `digest` is a digest of every one. The other numbers speak of `n_rows` of
    them, those in the windows that `share` and `seed` choose; all if `share` is 1. `error` is the
    error of the halfspace on them, `ratio` that over the bound (None where the bound is 0). The
    bound was computed from slabs along the unit vector `direction` (of whitened features, where
    rows were whitened; empty: that of the halfspace): `slab_error` and `n_slabs` say which. The
    angles, from that direction, say where the bound is weakest.
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
    advice: str
    direction: tuple[float, ...] = ()
    share: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class WhiteningRecord:
    """Whitened features are matrix·(x - mean)."""

    mean: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class HeldOutRecord:
    """The rows that measured the error: those in the ranges whose uniform lies in [low, high)."""

    ranges: tuple[tuple[int, ...], ...]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DiagnosticsRecord:
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


@dataclass(frozen=True, slots=True)
class CandidateRecord:
    """A candidate of the localisation: how it was found and how it did.

    `angle` is its angle to the returned halfspace in radians; `beta` bounds its disagreement with
    any halfspace within eps of it.
    """

    delta: float
    step: float
    overlap: float
    rows_seen: int
    rows_accepted: int
    angle: float
    error: float
    beta: float


@dataclass(frozen=True, slots=True)
class PassBudget:
    """What one pass will read."""

    name: str
    rows: int
    nbytes: int
    delta: float | None = None


_SEVERITY = (Outcome.NOT_JUDGED, Outcome.PASSED, Outcome.INCONCLUSIVE, Outcome.REJECTED)


def severity(judgement: Judgement) -> tuple[int, float]:
    """What judgements are ranked by: the outcome, then the statistic in units of its limit."""
    share = judgement.statistic / (judgement.limit or 1.0)
    # a share that is not a number compares with nothing; it is never the worst
    return _SEVERITY.index(judgement.outcome), share if share == share else -1.0


def worst(judgements: Iterable[Judgement]) -> Judgement | None:
    """The most severe among those that had a say; None where nobody had."""
    judged = (one for one in judgements if one.outcome is not Outcome.NOT_JUDGED)
    return max(judged, key=severity, default=None)


def overall_outcome(judgements: Iterable[Judgement]) -> Outcome:
    """Rejected if any tester rejects, else inconclusive if any is, else passed."""
    found = worst(judgements)
    return Outcome.PASSED if found is None else found.outcome
