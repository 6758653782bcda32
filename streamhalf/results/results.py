"""Whole results as the commands return and write them, and how they were made."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec

from streamhalf.redact import plural, public_name
from streamhalf.results.codes import Notice, Record, Sampling, Stop, Verdict, replace, to_json
from streamhalf.results.parts import (
    CandidateRecord,
    DataRecord,
    DiagnosticsRecord,
    ErrorRecord,
    Halfspace,
    HeldOutRecord,
    LookRecord,
    PassBudget,
    PassRecord,
    PromiseRecord,
    StreamRecord,
    TestResult,
    TransformRecord,
    TransformTrial,
    WatchReference,
)
from streamhalf.results.quality import CalibrationRecord, CertificateRecord, OptRecord, Promise, Quality

if TYPE_CHECKING:
    import xarray as xr

    from streamhalf.results.watch import WatchResult


COMMAND: ContextVar[str] = ContextVar("command line of this run", default="")
SettingValue = bool | int | float | str | tuple[str, ...] | None


class RunRecord(Record, frozen=True):
    """When, where and how a run was made; `command` has no secrets, and is empty for a run from Python."""

    started: str
    host: str
    scheduler: str
    settings: dict[str, SettingValue]
    command: str = ""

    @classmethod
    def now(cls, scheduler: str, settings: dict[str, SettingValue]) -> RunRecord:
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return cls(started, platform.node(), public_name(scheduler), settings, COMMAND.get())


class Versions(Record, frozen=True):
    """Versions of the software that computed a result."""

    streamhalf: str
    python: str
    numpy: str
    dask: str
    zarr: str

    @classmethod
    def current(cls) -> Versions:
        found = {name: importlib.metadata.version(name) for name in ("streamhalf", "numpy", "dask", "zarr")}
        return cls(python=platform.python_version(), **found)


_SHOWN = ("streamhalf", "numpy", "dask", "distributed", "zarr", "xarray")
_SHOWN_IF_THERE = ("fsspec", "s3fs", "gcsfs", "adlfs", "obstore", "zarrs", "bokeh")


def installed_versions() -> dict[str, str]:
    """Return versions of what runs, stores and shows, by name."""
    found = {"python": platform.python_version()} | dict.fromkeys(_SHOWN, "none")
    for name in (*_SHOWN, *_SHOWN_IF_THERE):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


class Document(Record, frozen=True):
    """Base of documents that a command returns and can save."""

    def save(self, path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write it as JSON, which `read_result` reads.

        Parameters
        ----------
        path
            A path or URL; the file appears whole or not at all.
        storage_options
            For URLs: what fsspec takes for this kind of storage.
        """
        from streamhalf.results.document import save

        save(self, path, storage_options=storage_options)


class Reported(Document, frozen=True):
    """A document that has a page."""

    def to_html(self) -> str:
        """Return the page that `--report` writes: one self-contained HTML document."""
        from streamhalf.report.html import render_report

        page: str = render_report(self)  # type: ignore[arg-type]
        return page


class MomentTestResult(Document, frozen=True, kw_only=True):
    """Result of the moment test of a data set."""

    measurements: ClassVar[None] = None
    schema: Literal["streamhalf-test-1"] = "streamhalf-test-1"
    verdict: Verdict
    tau: float
    seed: int
    seed_drawn: bool = False
    transform: TransformRecord
    transforms: tuple[TransformTrial, ...] = ()
    testers: tuple[TestResult, ...]
    passes: tuple[PassRecord, ...]
    data: DataRecord
    versions: Versions
    run: RunRecord | None = None
    notices: tuple[Notice, ...] = ()

    def __repr__(self) -> str:
        return f"<MomentTestResult {self.verdict}: {self.data}>"


class FitResult(Reported, frozen=True, kw_only=True):
    """Result of the tester-learner; the document that `fit --json` writes."""

    schema: Literal["streamhalf-fit-1"] = "streamhalf-fit-1"
    verdict: Verdict
    quality: Quality | None = None
    promise: Promise | None = None
    halfspace: Halfspace | None
    error: ErrorRecord | None
    eps: float
    tau: float
    seed: int
    seed_drawn: bool = False
    opt: OptRecord | None = None
    ratio: float | None = None
    constant: float | None = None
    promises: tuple[PromiseRecord, ...] = ()
    rows_for_five: int | None = None
    rows_needed: int | None
    split: Sampling
    transform: TransformRecord
    transforms: tuple[TransformTrial, ...] = ()
    stop: Stop
    candidates: tuple[CandidateRecord, ...]
    chosen: int | None
    testers: tuple[TestResult, ...]
    passes: tuple[PassRecord, ...]
    data: DataRecord
    versions: Versions
    run: RunRecord | None = None
    notices: tuple[Notice, ...] = ()
    certificate: CertificateRecord | None = None
    calibration: CalibrationRecord | None = None
    held_out: HeldOutRecord | None = None
    reference: WatchReference | None = None
    looks: tuple[LookRecord, ...] = ()
    stream: StreamRecord | None = None
    measurements: DiagnosticsRecord | None = msgspec.field(default=None, name="diagnostics")
    digest: str = ""

    @property
    def diagnostics(self) -> xr.Dataset:
        """Measurements of the testers, as an xarray Dataset."""
        from streamhalf.results.dataset import to_dataset  # imports xarray

        return to_dataset(self)

    def predict(self, X: Any) -> Any:
        """Return the label of every row: an array in the container of X, lazy where X is.

        Parameters
        ----------
        X
            Features (rows, features): a data frame, of which the columns that the fit knew by
            name are taken, or a NumPy, Dask or xarray array.
        """
        from streamhalf._models import predict_in_memory

        return predict_in_memory(self, X)

    def watch(self, data: Any, **parameters: Any) -> WatchResult:
        """Compare new rows with those behind this result; see `streamhalf.watch`.

        Parameters
        ----------
        data, **parameters
            As of `streamhalf.watch`.
        """
        from streamhalf.api import watch

        found: WatchResult = watch(self, data, **parameters)
        return found

    def __repr__(self) -> str:
        said = []
        if (error := self.error) is not None:
            said.append(f"held-out error {error.empirical:.4g} (at most {error.upper:.4g})")
        if self.certificate is not None:
            said.append(_interval(self.certificate))
        if self.rows_needed is not None:
            said.append(f"{self.rows_needed:,} rows needed")
        return f"<FitResult {self.verdict}: {', '.join([*said, f'eps {self.eps:.4g}'])}, {self.data}>"


class CertifyResult(Reported, frozen=True, kw_only=True):
    """The certified interval of a given classifier; the document of `certify --json`."""

    # a given classifier has no tests, no candidates and no stream, and its numbers need no verdict
    verdict: ClassVar[None] = None
    rows_needed: ClassVar[None] = None
    testers: ClassVar[tuple[TestResult, ...]] = ()
    transforms: ClassVar[tuple[TransformTrial, ...]] = ()
    candidates: ClassVar[tuple[CandidateRecord, ...]] = ()
    measurements: ClassVar[None] = None
    stream: ClassVar[None] = None

    schema: Literal["streamhalf-certificate-1"] = "streamhalf-certificate-1"
    quality: Quality | None = None
    promise: Promise | None = None
    halfspace: Halfspace
    error: ErrorRecord
    opt: OptRecord
    ratio: float | None
    tau: float
    seed_drawn: bool = False
    transform: TransformRecord
    certificate: CertificateRecord
    passes: tuple[PassRecord, ...]
    data: DataRecord
    versions: Versions
    run: RunRecord | None = None
    notices: tuple[Notice, ...] = ()
    digest: str = ""

    @property
    def seed(self) -> int:
        return self.certificate.seed

    def __repr__(self) -> str:
        return f"<CertifyResult: {_interval(self.certificate)}, {self.data}>"


Result: TypeAlias = FitResult | CertifyResult  # What is said of a classifier


def _interval(found: CertificateRecord) -> str:
    known = f"no halfspace (through: {found.opt.through}) below {found.opt.lower_empirical:.4g}"
    return f"on {found.n_rows:,} rows error {found.error:.4g} and {known}"


AS_WRITTEN = "document is as written"  # The claim that a document has not been changed


class Claim(Record, frozen=True):
    """One statement of a result file, computed again from the data."""

    name: str
    claimed: str
    recomputed: str
    holds: bool


class VerifyResult(Record, frozen=True):
    """Which claims of a result file hold."""

    claims: tuple[Claim, ...]
    passes: tuple[PassRecord, ...] = ()

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.claims)

    def __repr__(self) -> str:
        failed = ", ".join(claim.name for claim in self.claims if not claim.holds)
        return f"<VerifyResult: {plural(len(self.claims), 'claim')}, {failed or 'none'} wrong>"


Sealed = TypeVar("Sealed", FitResult, CertifyResult)


def document_digest(record: FitResult | CertifyResult) -> str:
    """Return the digest of everything that a document says besides the digest."""
    text = json.dumps({**to_json(record), "digest": ""}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def is_as_written(record: FitResult | CertifyResult) -> bool:
    """Return True if the document has not been changed since it was sealed."""
    return record.digest == document_digest(record)


def seal(record: Sealed) -> Sealed:
    """Return the record with its own digest, so that a changed number is found out."""
    return replace(record, digest=document_digest(record))


class PlanRecord(Record, frozen=True):
    """Result of `plan`; `promises` are those that its tests would support for Gaussian rows.

    `positive` is the share of rows with label +1 that it is for (None: half, no threshold).
    """

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
    promises: tuple[PromiseRecord, ...] = ()
    positive: float | None = None

    @property
    def rare_rows_needed(self) -> int | None:
        """Rows of the rarer label among those needed."""
        if self.positive is None:
            return None
        return math.ceil(self.rows_needed * min(self.positive, 1 - self.positive))


class StrictPlanRecord(Record, frozen=True):
    """The paper's own parameters, huge ones as logarithms."""

    eps: float
    dim: int
    eta: float
    degree: int
    log10_monomials: float
    log10_rows: float
    updates: int


class WorkerRecord(Record, frozen=True):
    """A process that would work on tasks, and how it read one block of rows.

    `memory_nbytes` is what its tasks may take (None: unlimited, or not known). `work` are the seconds that a row takes
    in each kind of statistic, `versions` what is installed there.
    """

    address: str
    n_threads: int
    memory_nbytes: int | None
    versions: dict[str, str]
    rows_read: int
    bytes_read: int
    seconds: float
    work: dict[str, float]


class DryRunResult(Record, frozen=True, kw_only=True):
    """Result of `fit --dry-run`; nothing was written and no task is left.

    `memory_limit` is what the tasks of the smallest process may take together, `process_nbytes` what one process would
    take at most, with interpreter and libraries. `seconds` is about what the passes would take at `place`, without the
    search for the certificate's bound.
    """

    source: str
    place: str
    versions: dict[str, str]
    workers: tuple[WorkerRecord, ...]
    plan: PlanRecord
    n_tasks: int
    seconds: float
    memory_limit: int
    process_nbytes: int
    notices: tuple[Notice, ...] = ()

    @property
    def n_threads(self) -> int:
        """Tasks that would run at once."""
        return sum(one.n_threads for one in self.workers)

    @property
    def differences(self) -> tuple[tuple[str, str, str, str], ...]:
        """Worker, package, its version there and its version here, where the two differ."""
        return tuple(
            (one.address, name, one.versions.get(name, "none"), here)
            for one in self.workers
            for name, here in self.versions.items()
            if one.versions.get(name) != here
        )
