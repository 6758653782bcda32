"""A report as one HTML file: no script, no request, every word from the document escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from streamhalf.redact import plural
from streamhalf.report import details, figures, tables, words
from streamhalf.report.figures import Figure
from streamhalf.report.tables import Table
from streamhalf.report.voices import Face, audit_command, face_of, has_one_class
from streamhalf.report.words import Names, notice_words, other_notices
from streamhalf.results import AuditResult, CertifyResult, FitResult, TestResult, WatchResult
from streamhalf.testers.leading import MOMENTS, leading_rejection

if TYPE_CHECKING:
    from jinja2 import Environment, Template


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # when something is shown

    environment = Environment(
        loader=PackageLoader("streamhalf.report"),
        autoescape=lambda name: name is None or name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**vars(words), "outcome_words": tables.outcome_words}
    environment.filters |= {"plural": plural, "with_code": _with_code, "notice_words": notice_words}
    environment.filters |= {"unbroken": lambda command: Markup(_unbroken(str(escape(command))))}
    return environment


def template(name: str, **known: Any) -> Template:
    """Return a template of this package; a value that it lacks is an error."""
    return _environment().get_template(name, globals=known)


def macro(file: str, name: str, **known: Any) -> Callable[..., str]:
    """Return a macro as a function; the template is read at the first call."""

    def write(*values: Any, **named: Any) -> str:
        return str(getattr(template(file, **known).module, name)(*values, **named))

    return write


def _with_code(text: str) -> Markup:
    """Return escaped words, with `options` as code that does not break at a hyphen."""
    words = re.sub("`([^`]{1,40})`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub("`([^`]+)`", lambda found: f'<code class="command">{_unbroken(found[1])}</code>', words))


def _unbroken(command: str) -> str:
    return " ".join(f"<span>{word}</span>" for word in command.split(" "))


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report that is folded; `gist` is what its title line says."""

    anchor: str
    title: str
    gist: str = ""
    texts: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: tuple[Table, ...] = ()
    html: str = ""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to unfold."""
        return not (self.texts or self.figures or self.tables or self.folded or self.html)


def render_report(
    result: FitResult | CertifyResult, audit: AuditResult | None = None, watch: WatchResult | None = None
) -> str:
    """Return the report of a result as one self-contained HTML document."""
    page = template("report.html.j2")
    shown = (one for one in sections(result, audit, watch) if not one.is_empty)
    return page.render(result=result, face=face_of(result), sections=list(shown))


def sections(
    result: FitResult | CertifyResult, audit: AuditResult | None = None, watch: WatchResult | None = None
) -> Iterator[Section]:
    """Yield the sections of a report in their order; some may be empty."""
    names = Names.of(result)
    if not has_one_class(result):
        yield from _sections(result, names)
        yield _suspects(result, audit)
    if watch is not None:
        from streamhalf.report.watching import watch_section

        yield Section("new-rows", "New rows", str(watch.outcome), html=Markup(watch_section(watch)))
    notices = other_notices(result.notices, names)
    yield Section("notices", "Notices", plural(len(notices), "notice"), notices)
    columns = tables.column_table(result.data.encoding)
    gist = "what became of every column"
    yield Section("columns", "Columns of the table", gist, tables=_shown(columns))
    passes = tables.pass_table(result.passes)
    gist = "rows, bytes and time of each pass over the data"
    yield Section("passes", "Passes", gist, tables=_shown(passes))
    facts = (tables.fact_table(result), *_shown(tables.setting_table(result)))
    yield Section("facts", "Facts and settings", "data, seed, versions, digests", tables=facts)
    if not has_one_class(result):
        yield Section("words", "Words", "what U, L, tau, slab and others mean", tables=(tables.word_table(),))


def _sections(result: FitResult | CertifyResult, names: Names) -> Iterator[Section]:
    """Yield the sections about a classifier."""
    if isinstance(result, FitResult):
        yield _promise(result, names)
    yield _bound(result, names)
    labels = tables.label_table(result)
    gist = "errors of each label, and of always guessing"
    yield Section("labels", "Errors by label", gist, tables=_shown(labels))
    yield _halfspace(result)
    if isinstance(result, FitResult):
        yield _candidates(result)
        yield _features(result, names)
        yield _testers(result, names)


def _shown(*found: Table) -> tuple[Table, ...]:
    return tuple(one for one in found if one.rows)


def _present(*found: Figure | None) -> tuple[Figure, ...]:
    return tuple(one for one in found if one is not None)


def _promise(result: FitResult, names: Names) -> Section:
    rejection = leading_rejection(result.testers)
    shown = [tables.transform_table(result)]
    drawn = None
    if rejection is not None:
        drawn = figures.evidence_figure(rejection, names)
    else:
        shown.append(tables.lacking_table(result))
    if result.constant is not None:
        shown.append(tables.constant_table(result))
    texts = tuple(details.promise_details(result))
    gist = "what the tests saw" if rejection else "what the tests support"
    return Section("promise", "Why this verdict", gist, texts, _present(drawn), _shown(*shown))


def _bound(result: FitResult | CertifyResult, names: Names) -> Section:
    certificate, title = result.certificate, "The best possible"
    if certificate is None:
        return Section("bound", title)
    bounds = tables.bound_table(certificate, names)
    return Section(
        "bound",
        title,
        "what no linear classifier can beat",
        tuple(details.bound_details(result, certificate)),
        _present(figures.profile_figure(certificate, names)),
        _shown(bounds) if len(bounds.rows) > 1 else (),
    )


def _halfspace(result: FitResult | CertifyResult) -> Section:
    drawn = _present(figures.weight_figure(result))
    return Section("halfspace", "The classifier", "its weights", figures=drawn)


def _candidates(result: FitResult) -> Section:
    drawn = figures.candidate_figure(result.candidates, result.chosen)
    shown = () if drawn else (tables.candidate_table(result.candidates),)
    texts = tuple(details.candidate_details(result))
    gist = plural(len(result.candidates), "candidate")
    return Section("candidates", "How it was found", gist, texts, _present(drawn), _shown(*shown))


def _features(result: FitResult, names: Names) -> Section:
    measured, title = result.measurements, "The features"
    if measured is None:
        return Section("features", title)
    shown = details.shown_candidate(result)
    own = [one for one in result.testers if one.candidate == shown]
    moment = _first(result.testers, MOMENTS)
    limit = moment.limit if moment and 0 < moment.limit < 1e6 else 1.0
    boundary = "boundary" if shown in (None, result.chosen) else f"boundary of candidate {shown}"
    slices = None
    if result.data.dim > 1:  # there is no other direction than the one
        slices = figures.slice_figure(measured, _first(own, "slab covariance"), boundary)
    slabs = figures.slab_figure(measured, _first(own, "slab mass"), boundary)
    drawn = _present(figures.moment_figure(measured, limit, names), slabs, slices)
    gist = "moments, margins and spread beside a Gaussian"
    return Section("features", title, gist, tuple(details.feature_details(result)), drawn)


def _first(found: Iterable[TestResult], tester: str) -> TestResult | None:
    return next((one for one in found if one.tester == tester), None)


def _testers(result: FitResult, names: Names) -> Section:
    summary = tables.tester_summary(result.testers)
    folded = tables.tester_details(result.testers, names)
    texts = (
        "A tester passes up to its limit, and rejects only beyond what chance alone reaches.",
        "Tests on held-out rows decide; those that a pass makes of its own rows only warn.",
    )
    gist = plural(len(summary.rows), "tester")
    return Section("testers", "Testers", gist, texts, (), _shown(summary), folded)


def _suspects(result: FitResult | CertifyResult, audit: AuditResult | None) -> Section:
    title = "Labels that look wrong"
    if audit is not None:
        from streamhalf.report.audit import audit_section

        return Section("audit", title, "the audit of this model", html=Markup(audit_section(audit)))
    command = audit_command(result)
    html = template("parts.html.j2").module.command(command) if command else ""  # type: ignore[attr-defined]
    return Section("suspects", title, "how to list them", (Face.audit,) if command else (), html=html)
