"""Whole results, as the commands return and write them."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from streamhalf.redact import plural
from streamhalf.results.base import Record, replace, to_json
from streamhalf.results.certificate import CertificateRecord, OptRecord
from streamhalf.results.codes import Sampling, Stop, Verdict
from streamhalf.results.measured import (
    CandidateRecord,
    DiagnosticsRecord,
    HeldOutRecord,
    PassBudget,
    PromiseRecord,
)
from streamhalf.results.notices import Notice
from streamhalf.results.parts import (
    DataRecord,
    ErrorRecord,
    Halfspace,
    PassRecord,
    TestResult,
    TransformRecord,
    TransformTrial,
)
from streamhalf.results.provenance import RunRecord, Versions

if TYPE_CHECKING:
    import xarray as xr


class Document(Record, frozen=True):
    """What a command returns, and can be kept.

    How it is written and shown is the business of modules above, looked up when it is asked for.
    """

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write it as JSON, which `read_result` reads.

        Parameters
        ----------
        path
            A path or URL; the file appears whole or not at all.
        storage_options
            For URLs: what fsspec takes for this kind of storage.
        """
        import_module("streamhalf.results.document").save(
            self, path, storage_options=storage_options
        )


class Reported(Document, frozen=True):
    """A document that has a page."""

    def to_html(self) -> str:
        """Give the page that `--report` writes: one self-contained HTML document."""
        page: str = import_module("streamhalf.report.html").render_report(self)
        return page


class MomentTestResult(Document, frozen=True, kw_only=True):
    """What the moment test of a data set found."""

    schema: Literal["streamhalf-test-2"] = "streamhalf-test-2"
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
    """What the tester-learner found; the document that `fit --json` writes."""

    schema: Literal["streamhalf-fit-2"] = "streamhalf-fit-2"
    verdict: Verdict
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
    held_out: HeldOutRecord | None = None
    measurements: DiagnosticsRecord | None = msgspec.field(default=None, name="diagnostics")
    digest: str = ""

    @property
    def diagnostics(self) -> xr.Dataset:
        """What the testers measured, as an xarray Dataset: to plot, to select from, to store."""
        from streamhalf.results.dataset import to_dataset  # xarray, for those who ask for it

        return to_dataset(self)

    def predict(self, X: Any) -> Any:
        """Give the label of every row: an array in the container of X, lazy where X is.

        Parameters
        ----------
        X
            Features (rows, features): a data frame, of which the columns that the fit knew by
            name are taken, or a NumPy, Dask or xarray array.
        """
        return import_module("streamhalf.api.predicting").predict_in_memory(self, X)

    def __repr__(self) -> str:
        said = []
        if (error := self.error) is not None:
            said.append(f"held-out error {error.empirical:.4g} (at most {error.upper:.4g})")
        if (found := self.certificate) is not None:
            said.append(_interval(found))
        said += [f"{self.rows_needed:,} rows needed"] if self.rows_needed is not None else []
        return (
            f"<FitResult {self.verdict}: {', '.join([*said, f'eps {self.eps:.4g}'])}, {self.data}>"
        )


class CertifyResult(Reported, frozen=True, kw_only=True):
    """The certified interval of somebody's classifier; the document of `certify --json`."""

    schema: Literal["streamhalf-certificate-2"] = "streamhalf-certificate-2"
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

    def __repr__(self) -> str:
        return f"<CertifyResult: {_interval(self.certificate)}, {self.data}>"


def _interval(found: CertificateRecord) -> str:
    """U and L, of the same rows."""
    opt = found.opt
    known = f"no halfspace (through: {opt.through}) below {opt.lower_empirical:.4g}"
    return f"on {found.n_rows:,} rows error {found.error:.4g} and {known}"


AS_WRITTEN = "document is as written"
"""The claim that a document has not been changed."""


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
        """Whether all of them do."""
        return all(claim.holds for claim in self.claims)

    def __repr__(self) -> str:
        failed = ", ".join(claim.name for claim in self.claims if not claim.holds)
        return f"<VerifyResult: {plural(len(self.claims), 'claim')}, {failed or 'none'} wrong>"


Sealed = TypeVar("Sealed", FitResult, CertifyResult)


def content_digest(content: dict[str, Any]) -> str:
    """Digest of everything that a document, as JSON has it, says besides the digest."""
    text = json.dumps({**content, "digest": ""}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def document_digest(record: FitResult | CertifyResult) -> str:
    """Digest of everything else that the document says."""
    return content_digest(to_json(record))


def is_as_written(record: FitResult | CertifyResult) -> bool:
    """Whether the document has not been changed since it was sealed."""
    return record.digest == document_digest(record)


def seal(record: Sealed) -> Sealed:
    """The record with its own digest, so that a changed number is found out."""
    return replace(record, digest=document_digest(record))


class PlanRecord(Record, frozen=True):
    """What `plan` says; `promises` are what Gaussian rows would let its tests support.

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
