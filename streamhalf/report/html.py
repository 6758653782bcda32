"""A report as one HTML file: no script, no request, every word from the document escaped.

Nothing here computes statistics: it picks what the document holds, and the template lays it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamhalf.records import (
    CertificateRecord,
    CertifyResult,
    FitResult,
    Judgement,
    Outcome,
    Verdict,
)
from streamhalf.report import distribution, pictures, tables, words
from streamhalf.report.codes import is_about_candidate, other_notices, stop_sentence
from streamhalf.report.figures import Figure, Table
from streamhalf.report.jinja import template
from streamhalf.report.rejections import (
    evidence_sentence,
    leading_rejection,
    moment_sentence,
    rejection_sentence,
)


@dataclass(frozen=True, slots=True)
class Badge:
    """The verdict as a word, a sign and a tone; the tone alone never carries it."""

    word: str
    sign: str
    tone: str


_BADGES = {
    Verdict.ACCEPTED: Badge("Accepted", "✓", "good"),
    Verdict.PASSED: Badge("Passed", "✓", "good"),
    Verdict.REJECTED: Badge("Rejected", "✕", "bad"),
    Verdict.INCONCLUSIVE: Badge("Inconclusive", "?", "open"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What differs between reports; a part that is empty or None is left out of the page."""

    title: str
    subject: str
    badge: Badge
    headline: str
    details: tuple[str, ...]
    advice: tuple[str, ...] = ()
    notices: tuple[str, ...]
    figures: dict[str, Figure | None]
    evidence: str = ""
    lacking: Table | None = None
    interval: str
    stopped: str = ""
    candidates: Table | None = None
    moments: str = ""
    testers: Table | None = None
    judgements: tuple[Table, ...] = ()
    passes: Table
    facts: Table


def render_report(result: FitResult | CertifyResult) -> str:
    """The whole report of a result as one self-contained HTML document."""
    view = _view_fit(result) if isinstance(result, FitResult) else _view_certificate(result)
    return template("report.html.j2").render(view=view, result=result)


def _view_fit(result: FitResult) -> View:
    rejection, whitened = leading_rejection(result.testers), result.whitened
    certificate, judgements = result.certificate, result.testers
    figures, moment = _fit_figures(result, rejection), _first(result, "largest moment")
    return View(
        title="Fit of a halfspace",
        subject=words.subject(result),
        badge=_BADGES[result.verdict],
        headline=words.fit_headline(result),
        details=(rejection_sentence(rejection, whitened=whitened),)
        if rejection
        else words.fit_details(result),
        advice=words.fit_advice(result),
        notices=other_notices(result.notices),
        figures=figures,
        evidence=evidence_sentence(rejection, whitened=whitened) if rejection else "",
        lacking=tables.lacking_table(result),
        interval=words.interval_details(certificate, result.tau, whitened=whitened)
        if certificate
        else "",
        stopped=stop_sentence(result),
        candidates=None if figures["path"] else pictures.candidate_table(result.candidates),
        moments=moment_sentence(moment, whitened=whitened) if moment else "",
        testers=tables.tester_summary(judgements),
        judgements=tables.tester_details(judgements),
        passes=tables.pass_table(result.passes),
        facts=tables.fact_table(result),
    )


def _view_certificate(result: CertifyResult) -> View:
    whitened = result.whitening is not None
    return View(
        title="Certificate of a linear classifier",
        subject=words.subject(result),
        badge=Badge("Certificate", "§", "plain"),
        headline=words.certify_headline(result),
        details=(words.certify_details(result),),
        notices=result.notices,
        figures={
            **_certificate_figures(result.certificate, result.error.upper),
            "halfspace": distribution.weight_figure(result.halfspace),
        },
        interval=words.interval_details(result.certificate, result.tau, whitened=whitened),
        passes=tables.pass_table(result.passes),
        facts=tables.fact_table(result),
    )


def _certificate_figures(certificate: CertificateRecord, upper: float) -> dict[str, Figure | None]:
    found = {"interval": pictures.interval_figure(certificate, upper)}
    if certificate.n_errors > 0:  # nothing lies below no error at all
        found["profile"] = pictures.profile_figure(certificate)
    return found


def _fit_figures(result: FitResult, rejection: Judgement | None) -> dict[str, Figure | None]:
    found: dict[str, Figure | None] = {}
    if rejection:
        found["evidence"] = pictures.evidence_figure(rejection)
    elif result.verdict is Verdict.INCONCLUSIVE and result.rows_needed:
        coarser = words.can_ask_for_less(result)
        found["missing"] = pictures.rows_figure(result.data.rows, result.rows_needed, coarser)
    if result.certificate:
        upper = result.error.upper if result.error else 1.0
        found |= _certificate_figures(result.certificate, upper)
    if result.halfspace:
        found["halfspace"] = distribution.weight_figure(result.halfspace)
    acceptance = _first(result, "acceptance")
    limit = acceptance.limit if acceptance else None
    found["path"] = pictures.path_figure(result.candidates, result.chosen, limit)
    if measured := result.measurements:
        found["slabs"] = distribution.slab_figure(measured, _chosen(result, "slab mass"))
        if result.data.dim > 1:  # there is no other direction than the one
            spread = _chosen(result, "slab covariance")
            found["slices"] = distribution.eigen_figure(measured, spread)
        moment = _first(result, "largest moment")
        bound = moment.limit if moment and 0 < moment.limit < 1e6 else 1.0
        found["moments"] = distribution.moment_figure(measured, bound)
    return found


def _first(result: FitResult, tester: str) -> Judgement | None:
    return next((one for one in result.testers if one.tester == tester), None)


def _chosen(result: FitResult, tester: str) -> Judgement | None:
    """The tester's first word on the returned candidate."""
    own = (one for one in result.testers if one.tester == tester)
    return next((one for one in own if is_about_candidate(one, result.chosen)), None)
