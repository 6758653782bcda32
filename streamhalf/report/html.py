"""A report as one HTML file: no script, no request, every word from the document escaped.

Nothing here computes statistics: it picks what the document holds, and the template lays it out.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from streamhalf.report import distribution, facts, pictures, tables, words
from streamhalf.report.audit import audit_section
from streamhalf.report.features import speaking_of
from streamhalf.report.figures import Figure
from streamhalf.report.jinja import template
from streamhalf.report.test_results import shown_candidate
from streamhalf.results import AuditResult, CertifyResult, FitResult, TestResult, Verdict
from streamhalf.testers.leading import MOMENTS, leading_rejection

Figures = dict[str, Figure | None]
"""By the section they are in; None where their numbers are absent."""


def render_report(result: FitResult | CertifyResult, audit: AuditResult | None = None) -> str:
    """The whole report of a result as one self-contained HTML document, perhaps with an audit."""
    page = template("report.html.j2", words=words, tables=tables, facts=facts, pictures=pictures)
    verdict = str(result.verdict) if isinstance(result, FitResult) else "certificate"
    with speaking_of(result):
        return page.render(
            result=result,
            verdict=verdict,
            figures=report_figures(result),
            audit=None if audit is None else Markup(audit_section(audit)),
        )


def report_figures(result: FitResult | CertifyResult) -> Figures:
    """The figures of a report by their sections; None where their numbers are absent."""
    found = _fit_figures(result) if isinstance(result, FitResult) else {}
    if certificate := result.certificate:
        upper = result.error.upper if result.error else 1.0
        found["interval"] = pictures.interval_figure(certificate, upper)
        if certificate.n_errors > 0:  # nothing lies below no error at all
            found["profile"] = pictures.profile_figure(certificate)
    if result.halfspace:
        found["halfspace"] = distribution.weight_figure(result)
    return found


def _fit_figures(result: FitResult) -> Figures:
    found: Figures = {}
    if rejection := leading_rejection(result.testers):
        found["evidence"] = pictures.evidence_figure(rejection)
    elif result.verdict is not Verdict.ACCEPTED and result.rows_needed:
        found["missing"] = pictures.rows_figure(result, result.rows_needed)
    acceptance, moment = (_first(result.testers, one) for one in ("acceptance", MOMENTS))
    tolerance = acceptance.limit if acceptance else None
    found["path"] = pictures.path_figure(result.candidates, result.chosen, tolerance)
    if measured := result.measurements:
        shown = shown_candidate(result)
        chosen = [one for one in result.testers if one.candidate == shown]
        found["slabs"] = distribution.slab_figure(measured, _first(chosen, "slab mass"))
        if result.data.dim > 1:  # there is no other direction than the one
            spread = _first(chosen, "slab covariance")
            found["slices"] = distribution.eigen_figure(measured, spread)
        bound = moment.limit if moment and 0 < moment.limit < 1e6 else 1.0
        found["moments"] = distribution.moment_figure(measured, bound)
    return found


def _first(test_results: Iterable[TestResult], tester: str) -> TestResult | None:
    return next((one for one in test_results if one.tester == tester), None)
