"""A report as one HTML file: no script, no request, every word from the document escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from streamhalf.redact import plural
from streamhalf.report import details, figures, tables, words
from streamhalf.report.figures import Figure
from streamhalf.report.first_screen import Face, audit_command, face_of, has_one_class
from streamhalf.report.tables import Table
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
    gist: str
    parts: tuple[Figure | Table | Markup | None, ...] = ()
    texts: Sequence[str] = ()
    folded: tuple[Table, ...] = ()

    @property
    def figures(self) -> list[Figure]:
        return [one for one in self.parts if isinstance(one, Figure)]

    @property
    def tables(self) -> list[Table]:
        return [one for one in self.parts if isinstance(one, Table) and one.rows]

    @property
    def html(self) -> Markup:
        return Markup("").join(one for one in self.parts if isinstance(one, Markup))

    @property
    def is_empty(self) -> bool:
        return not (self.texts or self.figures or self.tables or self.folded or self.html)


def render_report(
    result: FitResult | CertifyResult, audit: AuditResult | None = None, watch: WatchResult | None = None
) -> str:
    """Return the report of a result as one self-contained HTML document."""
    page = template("report.html.j2")
    shown = [one for one in _sections(result, audit, watch) if not one.is_empty]
    return page.render(result=result, face=face_of(result), sections=shown)


def _sections(
    result: FitResult | CertifyResult, audit: AuditResult | None, watch: WatchResult | None
) -> Iterator[Section]:
    """Yield the sections of a report in their order; some may be empty."""
    names, has_words = Names.of(result), not has_one_class(result)
    if has_words:
        if isinstance(result, FitResult):
            yield _promise(result, names)
        yield from _classifier(result, names)
        if isinstance(result, FitResult):
            yield from _fit(result, names)
        yield _suspects(result, audit)
    if watch is not None:
        from streamhalf.report.watching import watch_section

        yield Section("new-rows", "New rows", str(watch.outcome), (Markup(watch_section(watch)),))
    notices = other_notices(result.notices, names)
    yield Section("notices", "Notices", plural(len(notices), "notice"), texts=notices)
    columns = tables.column_table(result.data.encoding)
    yield Section("columns", "Columns of the table", "what became of every column", (columns,))
    gist = "rows, bytes and time of each pass over the data"
    yield Section("passes", "Passes", gist, (tables.pass_table(result.passes),))
    facts = (tables.fact_table(result), tables.setting_table(result))
    yield Section("facts", "Facts and settings", "data, seed, versions, digests", facts)
    if has_words:
        yield Section("words", "Words", "what U, L, tau, slab and others mean", (tables.word_table(),))


def _promise(result: FitResult, names: Names) -> Section:
    rejection = leading_rejection(result.testers)
    drawn = None if rejection is None else figures.evidence_figure(rejection, names)
    shown = [tables.transform_table(result)]
    if rejection is None:
        shown.append(tables.lacking_table(result))
    if result.constant is not None:
        shown.append(tables.constant_table(result))
    gist = "what the tests saw" if rejection else "what the tests support"
    return Section("promise", "Why this verdict", gist, (drawn, *shown), tuple(details.promise_details(result)))


def _classifier(result: FitResult | CertifyResult, names: Names) -> Iterator[Section]:
    """Yield the bound, the errors of each label and the weights."""
    if (certificate := result.certificate) is not None:
        bounds = tables.bound_table(certificate, names)
        yield Section(
            "bound",
            "The best possible",
            "what no linear classifier can beat",
            (figures.profile_figure(certificate, names), bounds if len(bounds.rows) > 1 else None),
            tuple(details.bound_details(result, certificate)),
        )
    gist = "errors of each label, and of always guessing"
    yield Section("labels", "Errors by label", gist, (tables.label_table(result),))
    yield Section("halfspace", "The classifier", "its weights", (figures.weight_figure(result),))


def _fit(result: FitResult, names: Names) -> Iterator[Section]:
    """Yield the candidates, their features and the testers."""
    drawn = figures.candidate_figure(result.candidates, result.chosen) or tables.candidate_table(result.candidates)
    gist = plural(len(result.candidates), "candidate")
    yield Section("candidates", "How it was found", gist, (drawn,), tuple(details.candidate_details(result)))
    if (measured := result.measurements) is not None:
        candidate = details.shown_candidate(result)
        own = [one for one in result.testers if one.candidate == candidate]
        moment = _first(result.testers, MOMENTS)
        limit = moment.limit if moment and 0 < moment.limit < 1e6 else 1.0
        boundary = "boundary" if candidate in (None, result.chosen) else f"boundary of candidate {candidate}"
        slices = None
        if result.data.dim > 1:  # there is no other direction than the one
            slices = figures.slice_figure(measured, _first(own, "slab covariance"), boundary)
        slabs = figures.slab_figure(measured, _first(own, "slab mass"), boundary)
        shown = (figures.moment_figure(measured, limit, names), slabs, slices)
        gist = "moments, margins and spread beside a Gaussian"
        yield Section("features", "The features", gist, shown, tuple(details.feature_details(result)))
    summary = tables.tester_summary(result.testers)
    texts = (
        "A tester passes up to its limit, and rejects only beyond what chance alone reaches.",
        "Tests on held-out rows decide; those that a pass makes of its own rows only warn.",
    )
    folded = tables.tester_details(result.testers, names)
    yield Section("testers", "Testers", plural(len(summary.rows), "tester"), (summary,), texts, folded)


def _first(found: Iterable[TestResult], tester: str) -> TestResult | None:
    return next((one for one in found if one.tester == tester), None)


def _suspects(result: FitResult | CertifyResult, audit: AuditResult | None) -> Section:
    title = "Labels that look wrong"
    if audit is not None:
        from streamhalf.report.audit import audit_section

        return Section("audit", title, "the audit of this model", (Markup(audit_section(audit)),))
    if not (command := audit_command(result)):
        return Section("suspects", title, "how to list them")
    html = Markup(macro("parts.html.j2", "command")(command))
    return Section("suspects", title, "how to list them", (html,), (Face.audit,))
