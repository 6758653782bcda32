"""A report as one HTML file: no script, no request, every word from the document escaped.

Nothing here computes statistics: it picks what the document holds, and the template lays it out.
"""

from __future__ import annotations

from typing import Any

from streamhalf.records import CertificateRecord, CertifyResult, FitResult, Judgement, Verdict
from streamhalf.report import distribution, pictures, tables, words
from streamhalf.report.codes import (
    can_ask_for_less,
    other_notices,
    stop_words,
)
from streamhalf.report.figures import Figure
from streamhalf.report.jinja import template
from streamhalf.report.rejections import MOMENTS, leading_rejection

Figures = dict[str, Figure | None]
"""By the section they are in; None where their numbers are absent."""


def render_report(result: FitResult | CertifyResult) -> str:
    """The whole report of a result as one self-contained HTML document."""
    shown = _show_fit(result) if isinstance(result, FitResult) else _show_certificate(result)
    return template("report.html.j2").render(
        **shown,
        result=result,
        passes=tables.pass_table(result.passes),
        facts=tables.fact_table(result),
    )


def _show_fit(result: FitResult) -> dict[str, Any]:
    rejection, whitened = leading_rejection(result.testers), result.position.whitened
    certificate, tau = result.certificate, result.tau
    return {
        "verdict": str(result.verdict),
        "headline": words.fit_headline(result),
        "details": [words.rejection_sentence(rejection, whitened=whitened)]
        if rejection
        else words.fit_details(result),
        "advice": words.fit_advice(result),
        "notices": other_notices(result.notices),
        "interval": words.interval_details(certificate, tau, whitened) if certificate else "",
        "evidence": words.evidence_sentence(rejection, whitened) if rejection else "",
        "stopped": f"The search ended because {stop_words(result.stop)}.",
        "first_moment": words.first_moment_sentence(_first(result, MOMENTS), whitened),
        "figures": _fit_figures(result, rejection),
        "lacking": tables.lacking_table(result),
        "candidates": pictures.candidate_table(result.candidates),
        "testers": tables.tester_summary(result.testers),
        "judgements": tables.tester_details(result.testers),
    }


def _show_certificate(result: CertifyResult) -> dict[str, Any]:
    certificate, whitened = result.certificate, result.position.whitened
    weights = distribution.weight_figure(result.halfspace)
    return {
        "verdict": "certificate",
        "headline": words.certify_headline(result),
        "details": [words.certify_details(result)],
        "advice": (),
        "notices": other_notices(result.notices),
        "interval": words.interval_details(certificate, result.tau, whitened),
        "figures": _certificate_figures(certificate, result.error.upper) | {"halfspace": weights},
    }


def _certificate_figures(certificate: CertificateRecord, upper: float) -> Figures:
    found = {"interval": pictures.interval_figure(certificate, upper)}
    if certificate.n_errors > 0:  # nothing lies below no error at all
        found["profile"] = pictures.profile_figure(certificate)
    return found


def _fit_figures(result: FitResult, rejection: Judgement | None) -> Figures:
    found: Figures = {}
    if rejection:
        found["evidence"] = pictures.evidence_figure(rejection)
    elif result.verdict is Verdict.INCONCLUSIVE and result.rows_needed:
        rows, coarser = result.data.rows, can_ask_for_less(result)
        found["missing"] = pictures.rows_figure(rows, result.rows_needed, coarser)
    if result.certificate:
        upper = result.error.upper if result.error else 1.0
        found |= _certificate_figures(result.certificate, upper)
    if result.halfspace:
        found["halfspace"] = distribution.weight_figure(result.halfspace)
    acceptance, moment = _first(result, "acceptance"), _first(result, MOMENTS)
    tolerance = acceptance.limit if acceptance else None
    found["path"] = pictures.path_figure(result.candidates, result.chosen, tolerance)
    if measured := result.measurements:
        found["slabs"] = distribution.slab_figure(measured, _chosen(result, "slab mass"))
        if result.data.dim > 1:  # there is no other direction than the one
            spread = _chosen(result, "slab covariance")
            found["slices"] = distribution.eigen_figure(measured, spread)
        bound = moment.limit if moment and 0 < moment.limit < 1e6 else 1.0
        found["moments"] = distribution.moment_figure(measured, bound)
    return found


def _first(result: FitResult, tester: str) -> Judgement | None:
    return next((one for one in result.testers if one.tester == tester), None)


def _chosen(result: FitResult, tester: str) -> Judgement | None:
    """The tester's first word on the returned candidate."""
    own = (one for one in result.testers if one.tester == tester)
    return next((one for one in own if one.candidate == result.chosen), None)
