"""Documents from before numbers named the halfspaces that they speak of, with the classes named."""

from __future__ import annotations

from typing import Any, TypeVar

from streamhalf.results.base import replace
from streamhalf.results.certificate import Advice, AdviceCode, CertificateRecord
from streamhalf.results.parts import TransformRecord
from streamhalf.results.results import CertifyResult, FitResult

Result = TypeVar("Result", FitResult, CertifyResult)


def name_classes(result: Result, content: dict[str, Any]) -> Result:
    """The result with the classes that its transform and its halfspace tell.

    Unless the content that it was read from names them. A ratio of numbers of two classes goes.
    """
    error, opt, certificate = (content.get(name) for name in ("error", "opt", "certificate"))
    if any("through" in part for part in (error, opt, certificate) if isinstance(part, dict)):
        return result
    transform, halfspace = result.transform, result.halfspace
    own = transform.through if halfspace is None else transform.class_of(halfspace)
    changes: dict[str, Any] = {}
    if result.error is not None:
        changes["error"] = replace(result.error, through=own)
    if result.opt is not None:
        changes["opt"] = replace(result.opt, through=transform.through)
    if result.certificate is not None:
        known = replace(result.certificate, through=own)
        changes["certificate"] = found = _compared(known, transform)
        changes["ratio"] = result.ratio if found.comparable else None
    return replace(result, **changes)


def _compared(record: CertificateRecord, transform: TransformRecord) -> CertificateRecord:
    """The certificate with the class of its bound, and a ratio only where there can be one."""
    named = replace(record, opt=replace(record.opt, through=transform.through))
    if named.comparable:
        return named
    advice = Advice(AdviceCode.OTHER_CLASS, through=transform.through)
    return replace(named, ratio=None, advice=advice)
