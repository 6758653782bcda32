"""Every sentence about a result, for tests that look for one."""

from __future__ import annotations

from streamhalf.report import details
from streamhalf.report.first_screen import face_of
from streamhalf.report.words import Names, notice_sentence
from streamhalf.results import CertifyResult, FitResult, MomentTestResult


def said(result: FitResult | CertifyResult | MomentTestResult) -> str:
    """Return the sentences of a result, a line for each."""
    face = face_of(result)
    found = [str(face.promise), face.measured, *face.advice]
    found += [" ".join((tile.name, tile.value, *tile.notes)) for tile in face.tiles]
    if isinstance(result, MomentTestResult):
        found += details.test_details(result)
    elif isinstance(result, FitResult):
        found += [*details.promise_details(result), *details.candidate_details(result)]
    if not isinstance(result, MomentTestResult) and result.certificate is not None:
        found += details.bound_details(result, result.certificate)
    found += [notice_sentence(one, Names.of(result)) for one in result.notices]
    return "\n".join(filter(None, found))
