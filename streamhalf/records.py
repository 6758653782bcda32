"""What a run leaves behind: frozen values that go to JSON and come back as data only."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import importlib.metadata
import json
import math
import platform
import types
import typing
from dataclasses import dataclass, field
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from streamhalf.errors import DataError
from streamhalf.names import plural

if TYPE_CHECKING:
    import xarray as xr

T = TypeVar("T")

_KEY = "key"
"""Metadata of a field that has another name in JSON."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentTestResult:
    """What the moment test of a data set found."""

    schema: str = "streamhalf-test-1"
    verdict: Verdict
    tau: float
    seed: int
    whitened: bool
    testers: tuple[Judgement, ...]
    passes: tuple[PassRecord, ...]
    data: DataRecord
    versions: Versions
    notices: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<MomentTestResult {self.verdict}: {self.data}>"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """What the tester-learner found; the document that `fit --json` writes."""

    schema: str = "streamhalf-fit-1"
    verdict: Verdict
    halfspace: Halfspace | None
    error: ErrorRecord | None
    eps: float
    tau: float
    seed: int
    opt: OptRecord | None = None
    ratio: float | None = None
    rows_needed: int | None
    split: str
    whitened: bool
    stopped_because: str
    candidates: tuple[CandidateRecord, ...]
    chosen: int | None
    testers: tuple[Judgement, ...]
    passes: tuple[PassRecord, ...]
    data: DataRecord
    versions: Versions
    notices: tuple[str, ...] = ()
    certificate: CertificateRecord | None = None
    held_out: HeldOutRecord | None = None
    whitening: WhiteningRecord | None = None
    measurements: DiagnosticsRecord | None = field(default=None, metadata={_KEY: "diagnostics"})
    digest: str = ""

    @property
    def diagnostics(self) -> xr.Dataset:
        """What the testers measured, as a labelled Dataset: to plot, to select from, to store."""
        from streamhalf.report.diagnostics import to_dataset  # a result shows itself when asked

        return to_dataset(self)

    def __repr__(self) -> str:
        said = [f"error {self.error.empirical:.4g}"] if self.error else []
        said += [f"opt at least {self.opt.lower_empirical:.4g}"] if self.opt else []
        said += [f"{self.rows_needed:,} rows needed"] if self.rows_needed is not None else []
        return (
            f"<FitResult {self.verdict}: {', '.join([*said, f'eps {self.eps:.4g}'])}, {self.data}>"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyResult:
    """The certified interval of somebody's classifier; the document of `certify --json`."""

    schema: str = "streamhalf-certificate-1"
    halfspace: Halfspace
    error: ErrorRecord
    opt: OptRecord
    ratio: float | None
    tau: float
    certificate: CertificateRecord
    passes: tuple[PassRecord, ...]
    data: DataRecord
    versions: Versions
    notices: tuple[str, ...] = ()
    whitening: WhiteningRecord | None = None
    digest: str = ""

    def __repr__(self) -> str:
        return (
            f"<CertifyResult: error {self.error.empirical:.4g}, opt at least "
            f"{self.opt.lower_empirical:.4g}, {self.data}>"
        )


AS_WRITTEN = "document is as written"
"""The claim that a document has not been changed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a result file, computed again from the data."""

    name: str
    claimed: str
    recomputed: str
    holds: bool


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """Which claims of a result file hold."""

    claims: tuple[Claim, ...]
    passes: tuple[PassRecord, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether all of them do."""
        return all(claim.holds for claim in self.claims)

    def __repr__(self) -> str:
        failed = ", ".join(claim.name for claim in self.claims if not claim.holds)
        return f"<VerifyResult: {plural(len(self.claims), 'claim')}, {failed or 'none'} wrong>"


Sealed = TypeVar("Sealed", FitResult, CertifyResult)


def document_digest(record: FitResult | CertifyResult) -> str:
    """Digest of everything else that the document says."""
    content = to_json(dataclasses.replace(record, digest=""))
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def is_as_written(record: FitResult | CertifyResult) -> bool:
    """Whether the document has not been changed since it was sealed."""
    return record.digest == document_digest(record)


def seal(record: Sealed) -> Sealed:
    """The record with its own digest, so that a changed number is found out."""
    return dataclasses.replace(record, digest=document_digest(record))


@dataclass(frozen=True, slots=True)
class PassBudget:
    """What one pass will read."""

    name: str
    rows: int
    nbytes: int
    delta: float | None = None


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """What `plan` says."""

    rows: int
    dim: int
    eps: float
    tau: float
    conclusive: bool
    rows_needed: int
    passes: tuple[PassBudget, ...]
    nbytes: int
    memory_nbytes: int
    sketched: bool


def overall_outcome(judgements: tuple[Judgement, ...]) -> Outcome:
    """Rejected if any tester rejects, else inconclusive if any is, else passed."""
    outcomes = {judgement.outcome for judgement in judgements}
    for outcome in (Outcome.REJECTED, Outcome.INCONCLUSIVE):
        if outcome in outcomes:
            return outcome
    return Outcome.PASSED


def to_json(value: Any) -> Any:
    """Turn records into what `json.dumps` takes; a number that is not finite becomes null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {_key(one): to_json(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def from_json(cls: type[T], data: Any, *, where: str = "document") -> T:
    """Rebuild a record of class `cls`; whatever does not fit is named, with its place."""
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls} is no record")
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected an object, got {type(data).__name__}")
    fields = {_key(one): one for one in dataclasses.fields(cls)}
    if unknown := sorted(set(data) - set(fields)):
        raise DataError(f"{where}: unknown key {shown(unknown[0])}; expected {', '.join(fields)}")
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, one in fields.items():
        if key in data:
            values[one.name] = _decode(hints[one.name], data[key], f"{where}.{key}")
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise DataError(f"{where}: key {key!r} is missing")
    if "schema" in values and values["schema"] != fields["schema"].default:
        raise DataError(
            f"{where}.schema: {shown(values['schema'])} is another kind of document; expected "
            f"{fields['schema'].default!r}"
        )
    return cls(**values)


def _key(one: dataclasses.Field[Any]) -> str:
    """What a field is called in JSON."""
    return str(one.metadata.get(_KEY, one.name))


def _decode(hint: Any, data: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if data is None and type(None) in arguments:
            return None
        return _decode(next(arg for arg in arguments if arg is not type(None)), data, where)
    if origin is tuple:
        if not isinstance(data, list):
            raise DataError(f"{where}: expected a list, got {type(data).__name__}")
        return tuple(_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast("type[Any]", hint), data, where=where)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(data)
        except ValueError:
            known = ", ".join(str(member.value) for member in hint)
            raise DataError(f"{where}: {shown(data)} is not one of {known}") from None
    return _decode_plain(hint, data, where)


def _decode_plain(hint: Any, data: Any, where: str) -> Any:
    if hint is float and data is None:
        return math.nan
    if hint is float and isinstance(data, int | float) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError:
            raise DataError(f"{where}: a whole number too large for a float") from None
    if isinstance(data, hint) and isinstance(data, bool) == (hint is bool):
        return data
    raise DataError(f"{where}: expected {hint.__name__}, got {shown(data)}")
