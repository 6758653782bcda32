"""Whole results, as the commands return and write them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from streamhalf.names import plural
from streamhalf.records.encoding import KEY, to_json
from streamhalf.records.parts import (
    CandidateRecord,
    CertificateRecord,
    DataRecord,
    DiagnosticsRecord,
    ErrorRecord,
    Halfspace,
    HeldOutRecord,
    Judgement,
    OptRecord,
    PassBudget,
    PassRecord,
    Verdict,
    Versions,
    WhiteningRecord,
)

if TYPE_CHECKING:
    import xarray as xr


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
    measurements: DiagnosticsRecord | None = field(default=None, metadata={KEY: "diagnostics"})
    digest: str = ""

    @property
    def diagnostics(self) -> xr.Dataset:
        """What the testers measured, as a labelled Dataset: to plot, to select from, to store."""
        from streamhalf.records.dataset import to_dataset  # xarray is loaded when asked for

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
