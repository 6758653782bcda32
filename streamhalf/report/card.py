"""Results in a notebook: cards with the numbers that matter, the rest folded, and the report."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamhalf.redact import plural
from streamhalf.report import tables, words
from streamhalf.report.audit import audit_details, audit_headline, render_audit
from streamhalf.report.codes import count, factor, number, percent
from streamhalf.report.features import class_words, speaking_of
from streamhalf.report.html import render_report
from streamhalf.report.jinja import macro
from streamhalf.report.live import tester_views
from streamhalf.report.live_html import COLOURS
from streamhalf.results import AuditResult, CertifyResult, FitResult, Halfspace, MomentTestResult

if TYPE_CHECKING:
    Result = MomentTestResult | FitResult | CertifyResult

_MOST_WEIGHTS = 8
_MOST_SUSPECTS = 10


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a card."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Page:
    """A report as a link that holds it."""

    name: str
    address: str

    @classmethod
    def of(cls, name: str, html: str) -> Page:
        """A page under a file name to save it by."""
        content = base64.b64encode(html.encode("utf-8")).decode("ascii")
        return cls(name, f"data:text/html;base64,{content}")


_result = macro("card.html.j2", "result", COLOURS=COLOURS)
_audit = macro("card.html.j2", "audit", COLOURS=COLOURS)


def result_html(result: Result) -> str:
    """The verdict in a sentence, error, U, L, weights, suspects, a report, and the rest folded."""
    judged = {} if isinstance(result, CertifyResult) else tester_views(result.testers)
    sentences = words.result_sentences(result)
    if isinstance(result, MomentTestResult):
        return _result(result, sentences, (), (), 0, "", judged, (), None)
    labels = tables.label_table(result).rows
    weights, rest = _weights(result.halfspace, result.data.feature_names)
    page = Page.of("streamhalf-report.html", render_report(result))
    with speaking_of(result):
        figures = _figures(result)
    return _result(
        result, sentences, figures, weights, rest, _suspects(result), judged, labels, page
    )


def audit_html(result: AuditResult) -> str:
    """How many labels look wrong, and the first of them."""
    suspects = [
        (
            str(one.row),
            str(one.given_label),
            str(one.predicted_label),
            f"{one.margin:.4f}",
            "yes" if one.agreed else "no",
        )
        for one in result.suspects[:_MOST_SUSPECTS]
    ]
    figures = [Figure("suspects", count(result.n_wrong), f"of {count(result.data.rows)} rows")]
    if result.angle is not None:
        figures.append(Figure("agreed", count(result.n_agreed), "wrong nearby as well"))
    page = Page.of("streamhalf-audit.html", render_audit(result))
    details = audit_details(result).splitlines()
    return _audit(result, audit_headline(result), details, figures, suspects, page)


def _figures(result: FitResult | CertifyResult) -> list[Figure]:
    """Error, U, L and what lies between them; what a run has none of is left out."""
    found = []
    error, certificate = result.error, result.certificate
    if error is not None and isinstance(result, FitResult):
        note = f"at most {percent(error.upper)}"
        found.append(Figure("error, held out", percent(error.empirical), note))
    if certificate is not None:
        note = f"wrong of {count(certificate.n_rows)} rows"
        found.append(Figure("U, this halfspace", percent(certificate.error), note))
        opt = certificate.opt
        class_ = class_words(opt.through, certificate)
        found.append(Figure("L, no halfspace below", percent(opt.lower_empirical), class_))
        if result.ratio is not None:
            found.append(Figure("U / L", factor(result.ratio), "times the best, at most"))
    return found


def _weights(
    halfspace: Halfspace | None, names: tuple[str, ...]
) -> tuple[list[tuple[str, str]], int]:
    """Name and weight of the features that weigh most, the offset, and how many are left out."""
    if halfspace is None:
        return [], 0
    order = sorted(range(len(names)), key=lambda j: -abs(halfspace.normal[j]))
    shown = [(names[j], number(halfspace.normal[j])) for j in order[:_MOST_WEIGHTS]]
    return [*shown, ("offset", number(halfspace.offset))], len(names) - len(shown)


def _suspects(result: FitResult | CertifyResult) -> str:
    """How many rows are on the wrong side, of those that were counted."""
    found = result.certificate
    if found is None or not found.n_errors:
        return ""
    return f"{plural(found.n_errors, 'row')} of {count(found.n_rows)}"
