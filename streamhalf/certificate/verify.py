"""Recompute every claim of a result file from the data, in one pass."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.certificate.certification import MOST_EFFORT, Certification
from streamhalf.certificate.conflict_sets import ConflictSets
from streamhalf.certificate.error_bound import measure_error
from streamhalf.config import RunConfig
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.source import Source
from streamhalf.data.transforms import Isotropic, make_transform
from streamhalf.engine.run import Run
from streamhalf.errors import DataError, UsageError
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.errors import PlaneErrors, PlaneErrorsResult
from streamhalf.reductions.row_view import Bundle, Sample, sampled
from streamhalf.results import (
    AS_WRITTEN,
    CertificateMethod,
    CertificateRecord,
    CertifyResult,
    Claim,
    FitResult,
    Halfspace,
    HalfspaceClass,
    LookRecord,
    OptRecord,
    PromiseCode,
    Verdict,
    VerifyResult,
    document_digest,
    is_as_written,
    make_promise,
    make_quality,
    replace,
)

# Sums over other chunks differ in rounding; the search then takes other turns, and ends at a bound that differs by
# less than this share of it
_BOUND_TOLERANCE = 5e-3
# The claim that quality and promise follow from error, certificate and tests of the document
SAID_TWICE = "numbers given in two places"


@dataclass(frozen=True, slots=True, eq=False)
class Verification:
    """The pass that checks one document."""

    document: FitResult | CertifyResult
    config: RunConfig

    @property
    def fit(self) -> FitResult | None:
        """The document, if it is of a fit."""
        return self.document if isinstance(self.document, FitResult) else None

    def run(self, run: Run, source: Source) -> VerifyResult:
        """Check what needs no data, then read them once."""
        document, claimed = self.document, self.document.certificate
        if self.fit and self.fit.stream is not None:
            raise DataError(
                "stream: its rows were not kept, so the document cannot be verified; fit rows that are stored"
            )
        data, again = document.data, document_digest(document)
        claims = [
            Claim(AS_WRITTEN, document.digest, again, document.digest == again),
            _equal("rows", data.rows, source.n_rows),
            _equal("features", data.dim, source.dim),
            _equal("fingerprint", data.fingerprint, source.fingerprint),
        ]
        if data.snapshot and source.snapshot:  # rows that were copied elsewhere have their digest alone
            claims.append(_equal("snapshot", data.snapshot, source.snapshot))
        if claimed is None:
            raise DataError("certificate: the document has none; nothing to verify")
        if source.dim == data.dim:
            certification = self._certification(claimed)
            tau = self._tau("certificate.opt.tau", claimed.opt.tau) * len(certification.classes)
            looks = self.fit.looks if self.fit else ()
            if len(looks) > 1 and isinstance(certification, Certification):
                found, errors = self._of_looks(run, source, certification, tau, looks)
            else:
                found, errors = certification.run(run, source, tau=tau, name="verify", beside=self._errors())
            claims += self._certified(claimed, found)
            claims += self._measured(errors, same_rows=claimed.digest == found.digest)
        return VerifyResult(tuple(claims), tuple(run.passes))

    def _of_looks(
        self, run: Run, source: Source, certification: Certification, tau: float, looks: tuple[LookRecord, ...]
    ) -> tuple[CertificateRecord, PlaneErrorsResult]:
        """The certificate and the errors of rows that came at several looks, each with its own seed."""
        from streamhalf.algorithms.kept import in_segments, with_seed

        total: Any = None
        for look in looks:
            if not 0 <= look.start < look.stop <= source.n_rows:
                raise DataError(f"looks: rows {look.start} to {look.stop} are not in the data; nothing to verify")
            laid = with_seed(certification.row_transform.record, look.seed)
            one = replaced(certification, seed=look.seed, row_transform=laid)
            sample = Sample(look.seed, Stream.SHARES, look.low, look.high)
            errors = sampled(PlaneErrors((self._halfspace().plane,), look.stop), sample)
            needs, parts = Bundle((one.needs(looks[0].stop), errors)), list[Any]()
            blocks = RowRanges.of((RowRange(look.start, look.stop),))
            run.reduce("verify", source, needs, blocks=blocks, keep=parts.append)
            (part,) = parts
            if total is not None:  # the certificate has no segments
                moved = in_segments(total[1], look.start, look.stop, part[1])
                part = needs.combine((total[0], moved), part)
            total = part
        return certification.conclude(needs.finalize(total)[0], tau=tau), total[1]

    def _certification(self, record: CertificateRecord) -> Certification | ConflictSets:
        halfspace = self._halfspace()
        transforms = [make_transform(one) for one in (self.document.transform, record.transform) if one is not None]
        for one in transforms:  # a bound speaks of all directions, so none may be lost
            if isinstance(one, Isotropic):
                largest = np.abs(one.matrix).max(axis=0)  # scales of features make no difference
                scaled = one.matrix / np.where(largest > 0, largest, 1.0)
                if np.linalg.matrix_rank(scaled) < len(scaled):
                    raise DataError("transform: singular matrix; the result file is invalid")
        transform = transforms[-1]
        if record.method is CertificateMethod.SETS:
            return ConflictSets.again(record, halfspace, transform, self.config)
        own = transform.to_transformed(halfspace.plane).unit()
        classes = {one.through for one in record.bounds}
        return Certification(
            halfspace=halfspace,
            row_transform=transform,
            error=record.slab_error,
            degree=record.degree,
            memory=self.config.certificate_memory,
            planes=(_plane(record, own),),
            across=_across(record, own),
            share=record.share,
            seed=record.seed,
            n_slabs=record.n_slabs,
            claimed=record.bounds,
            through=HalfspaceClass.ANY if HalfspaceClass.ANY in classes else record.opt.through,
            effort=min(record.effort, MOST_EFFORT),
        )

    def _tau(self, name: str, recorded: float | None) -> float:
        """The probability with which a bound may fail: as recorded, but never above the whole."""
        tau = self.document.tau if recorded is None else min(recorded, self.document.tau)
        if not 0 < tau < 1:
            raise DataError(f"{name}: {tau!r} is no probability of a run; nothing to verify")
        return tau

    def _halfspace(self) -> Halfspace:
        halfspace = self.document.halfspace
        if halfspace is None or not any(halfspace.normal):
            raise DataError("halfspace: the document has none; nothing to verify")
        return halfspace

    def _errors(self) -> Reduction[Any, Any]:
        """Errors of the halfspace on the rows that measured it."""
        plane, total_rows = self._halfspace().plane, max(1, self.document.data.rows)
        if self.fit is None or self.fit.held_out is None:
            return PlaneErrors((plane,), total_rows)
        held_out = self.fit.held_out
        try:
            ranges = np.array(held_out.ranges, dtype=np.int64).reshape(-1, 2)
        except OverflowError:
            raise DataError("held_out.ranges: no rows of any data; nothing to verify") from None
        errors = PlaneErrors((plane,), total_rows, ranges)
        return sampled(errors, Sample(self.fit.seed, Stream.SHARES, held_out.low, held_out.high))

    def _certified(self, claimed: CertificateRecord, found: CertificateRecord) -> list[Claim]:
        slack = _slack(found.n_rows, same_rows=claimed.digest == found.digest)
        others = [one for one in claimed.bounds if one.through is not claimed.opt.through]
        return [
            _equal("digest of all rows", claimed.digest, found.digest),
            _equal("rows labelled +1", claimed.n_positive, found.n_positive),
            _equal("rows of the certificate", claimed.n_rows, found.n_rows),
            _close("errors on these rows", claimed.n_errors, found.n_errors, slack),
            *_bounds("", claimed.opt, found.opt),
            *(one for opt in others for one in _bounds(f", through: {opt.through}", opt, found.bound_of(opt.through))),
            _equal("class of the halfspace", claimed.through, found.through),
            _equal("class that L is for", claimed.opt.through, found.opt.through),
            _no_stronger("ratio U/L", *(-math.inf if one.ratio is None else -one.ratio for one in (claimed, found))),
            self._agreement(claimed),
        ]

    def _agreement(self, certificate: CertificateRecord) -> Claim:
        """Check that numbers which the document states twice agree."""
        document = self.document
        same = (
            certificate.error == certificate.n_errors / max(1, certificate.n_rows)
            and document.opt == certificate.opt
            and document.ratio == certificate.ratio
            and certificate.opt in certificate.bounds
            and len({one.tau for one in certificate.bounds}) == 1
            and self._voices_agree(certificate)
        )
        return Claim(SAID_TWICE, "the same", "the same" if same else "different", same)

    def _voices_agree(self, certificate: CertificateRecord) -> bool:
        """Return True if quality and promise follow from the document's other numbers."""
        document, fit, error, claimed = self.document, self.fit, self.document.error, self.document.promise
        counted = 0 <= certificate.n_errors <= certificate.n_rows <= 2**53
        if not (counted and 0 <= certificate.error <= 1):
            return False  # of no run, and no formula takes it
        quality = None if error is None else make_quality(document.data.rows, error, certificate)
        if document.quality != quality or claimed is None:
            return False
        of_fit: dict[str, Any] = {}
        if fit:
            supported = None
            if claimed.eps is not None:
                supported = next((one for one in fit.promises if one.eps == fit.eps), None)
                if supported is None:
                    return False
            if fit.constant != (supported.constant if supported else None):
                return False
            of_fit = {
                "supported": supported,
                "useful": error is None or error.beats_guess,
                "noisy": claimed.code is PromiseCode.NOISE,
                "rows_needed": fit.rows_needed,
            }
        # the limit of the run is not written down: any factor that is proved may be promised
        limit = math.inf if claimed.code is PromiseCode.FACTOR else 0.0
        again = make_promise(fit.verdict if fit else None, quality, certificate, max_ratio=limit, **of_fit)
        factor = again.factor
        if factor and claimed.factor and math.isclose(claimed.factor, factor, rel_tol=1e-9):
            factor = claimed.factor  # quantiles depend on the SciPy version
        return replace(again, tester=claimed.tester, evidence=claimed.evidence, factor=factor) == claimed

    def _measured(self, found: PlaneErrorsResult, *, same_rows: bool) -> list[Claim]:
        error = self.document.error
        if error is None:
            return []
        n_rows = max(1, found.n_rows)
        tau = self._tau("error.tau", error.tau) / max(1, len(self.fit.candidates) if self.fit else 1)
        upper = measure_error(found.segment_errors[0], found.segment_rows, tau=tau).upper
        slack = _slack(n_rows, same_rows=same_rows) / n_rows
        guess = math.nan if error.by_label is None else error.by_label.guess_error
        return [
            _equal("rows that measured the error", error.n_rows, found.n_rows),
            _close("error on them", error.empirical, int(found.errors[0]) / n_rows, slack),
            _close("error of guessing on them", guess, found.by_label().guess_error, 0.0),
            _close("upper bound of the error", error.upper, upper, 2 * slack),
        ]


def check_document(document: Any) -> VerifyResult | None:
    """Refuse what makes no claims that data could settle; one that was made so is found out."""
    if isinstance(document, str | os.PathLike):
        raise UsageError("document: a path given; verify takes a result: verify(read_result(path), data)")
    if not isinstance(document, FitResult | CertifyResult):
        raise UsageError(f"document: {type(document).__name__} given; expected what fit or certify returned")
    if document.certificate is not None and document.halfspace is not None:
        return None
    if not is_as_written(document):
        again = document_digest(document)
        return VerifyResult((Claim(AS_WRITTEN, document.digest, again, False),))
    if document.certificate is None:  # so it is of a fit
        why = (
            "such a run has no certificate"
            if document.verdict is Verdict.REJECTED
            else "it was made without a certificate (certificate_degree 0)"
            if document.error is not None
            else "such a run makes no claim about a halfspace"
        )
        raise DataError(f"document: the run was {document.verdict}; {why}, so nothing to verify")
    return None


def _slack(n_rows: int, *, same_rows: bool) -> float:
    """The same rows may fall on either side of the boundary by rounding; other rows must count."""
    return 2 + 1e-6 * n_rows if same_rows else 0.0


def _equal(name: str, claimed: object, found: object) -> Claim:
    return Claim(name, str(claimed), str(found), claimed == found)


def _across(record: CertificateRecord, plane: Plane) -> NDArray[np.float64] | None:
    """The certificate's second direction, if it has one."""
    if not record.across:
        return None
    vector = np.array(record.across)
    along = vector @ _plane(record, plane).normal
    if vector.shape != plane.normal.shape or not along**2 < 0.999999 * (vector @ vector) < np.inf:
        raise DataError("certificate.across: no second direction; nothing to verify")
    return vector


def _plane(record: CertificateRecord, default: Plane) -> Plane:
    """The certificate's plane, with a normal of length 1 whatever the document says."""
    if not record.direction:
        return default
    vector = np.array(record.direction)
    length = float(np.linalg.norm(vector))
    if vector.shape != default.normal.shape or not (math.isfinite(length) and length > 0):
        raise DataError("certificate.direction: no direction of the features; nothing to verify")
    if not math.isfinite(record.threshold):
        raise DataError(f"certificate.threshold: {record.threshold} is no threshold; nothing to verify")
    return Plane(vector / length, record.threshold)


def _no_stronger(name: str, claimed: float, found: float) -> Claim:
    """A claim that the larger number is the stronger one of; a weaker one is true as well.

    A number that is better small is given negated.
    """
    tolerance = _BOUND_TOLERANCE * abs(found) if math.isfinite(found) else 0.0
    weaker = " (weaker than the data allow)" if claimed < found - tolerance else ""
    return Claim(name, f"{abs(claimed):.10g}{weaker}", f"{abs(found):.10g}", claimed <= found + tolerance)


def _bounds(which: str, claimed: OptRecord, found: OptRecord | None) -> tuple[Claim, Claim]:
    """Claims of the bound for a class of halfspaces."""
    again = found or OptRecord(-math.inf, -math.inf)
    return (
        _no_stronger(f"no halfspace below L{which}", claimed.lower_empirical, again.lower_empirical),
        _no_stronger(f"L on the source{which}", claimed.lower, again.lower),
    )


def _close(name: str, claimed: float, found: float, tolerance: float) -> Claim:
    same = claimed == found or abs(claimed - found) <= tolerance
    return Claim(name, f"{claimed:.10g}", f"{found:.10g}", same)
