"""The view model of a report: a result in, what is shown and in which order out.

Nothing here computes statistics; it picks, orders and formats what the document holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamhalf.records import (
    CertificateRecord,
    CertifyResult,
    FitResult,
    Judgement,
    Outcome,
    PassRecord,
    Verdict,
)
from streamhalf.report import distribution, pictures
from streamhalf.report.figures import Column, Figure, Table
from streamhalf.report.rejections import (
    evidence_features,
    leading_rejection,
    rejection_sentence,
    result_suggestions,
)
from streamhalf.report.tables import fact_table, pass_table, tester_details, tester_summary
from streamhalf.report.words import (
    ONE_CLASS,
    QUESTIONS,
    REUSE,
    certify_headline,
    count,
    fit_details,
    fit_headline,
    interval_details,
    number,
    percent,
    reuse_notice,
    sentence,
)


@dataclass(frozen=True, slots=True)
class Badge:
    """The verdict as a word, a sign and a tone; the tone alone never carries it."""

    word: str
    sign: str
    tone: str


@dataclass(frozen=True, slots=True)
class Section:
    """A headed part of the report; folded tables open on demand."""

    anchor: str
    title: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the page."""

    title: str
    subject: str
    badge: Badge
    headline: str
    details: tuple[str, ...]
    advice: tuple[str, ...]
    notices: tuple[str, ...]
    sections: tuple[Section, ...]
    footer: str


_LARGEST_EPS = 0.25
"""The largest that a run takes: no coarser question can be asked."""

_BADGES = {
    Verdict.ACCEPTED: Badge("Accepted", "✓", "good"),
    Verdict.PASSED: Badge("Passed", "✓", "good"),
    Verdict.REJECTED: Badge("Rejected", "✕", "bad"),
    Verdict.INCONCLUSIVE: Badge("Inconclusive", "?", "open"),
}


def view_result(result: FitResult | CertifyResult) -> Report:
    """What a report of this result shows."""
    return _view_fit(result) if isinstance(result, FitResult) else _view_certificate(result)


def _view_fit(result: FitResult) -> Report:
    rejection = leading_rejection(result.testers)
    upper = result.error.upper if result.error else 1.0
    whitened = result.whitened
    first = (
        _evidence_section(rejection, whitened=whitened) if rejection else _missing_section(result)
    )
    return Report(
        title="Fit of a halfspace",
        subject=_subject(result),
        badge=_BADGES[result.verdict],
        headline=fit_headline(result),
        details=(rejection_sentence(rejection, whitened=whitened),)
        if rejection
        else fit_details(result),
        advice=result_suggestions(result) if rejection else _advice(result),
        notices=_other_notices(result.notices),
        sections=_present(
            first,
            _interval_section(result.certificate, upper, result.tau, whitened=whitened),
            _path_section(result),
            *_slab_sections(result),
            _moment_section(result),
            _profile_section(result.certificate),
            _halfspace_section(result),
            _tester_section(result.testers),
            _pass_section(result.passes),
            Section("facts", "Facts about the run", tables=(fact_table(result),)),
        ),
        footer=_footer(result),
    )


def _view_certificate(result: CertifyResult) -> Report:
    weights = distribution.weight_figure(result.halfspace)
    return Report(
        title="Certificate of a linear classifier",
        subject=_subject(result),
        badge=Badge("Certificate", "§", "plain"),
        headline=certify_headline(result),
        details=(
            f"At most {percent(result.error.upper)} on the source of the rows, if the classifier "
            "never saw them.",
        ),
        advice=(),
        notices=result.notices,
        sections=_present(
            _interval_section(
                result.certificate,
                result.error.upper,
                result.tau,
                whitened=result.whitening is not None,
            ),
            _profile_section(result.certificate),
            Section("halfspace", "The classifier", figures=(weights,)) if weights else None,
            _pass_section(result.passes),
            Section("facts", "Facts about the run", tables=(fact_table(result),)),
        ),
        footer=_footer(result),
    )


def _present(*sections: Section | None) -> tuple[Section, ...]:
    return tuple(section for section in sections if section is not None)


def _subject(result: FitResult | CertifyResult) -> str:
    return f"{result.data.source}: {result.data}" if result.data.source else str(result.data)


def _footer(result: FitResult | CertifyResult) -> str:
    digest = f" Document digest {result.digest}." if result.digest else ""
    return f"Made by streamhalf {result.versions.streamhalf} from {result.schema}.{digest}"


def _advice(result: FitResult) -> tuple[str, ...]:
    if result.verdict is not Verdict.INCONCLUSIVE or result.rows_needed is None:
        return ()
    coarser = ", or ask for less with a larger `--eps`" if result.eps < _LARGEST_EPS else ""
    reuse = reuse_notice(result)
    return (f"Gather more rows{coarser}.", *((sentence(reuse),) if reuse else ()))


def _other_notices(notices: tuple[str, ...]) -> tuple[str, ...]:
    """Notices that are not said elsewhere on the page."""
    return tuple(text for text in notices if REUSE not in text and not text.startswith(ONE_CLASS))


def _evidence_section(judgement: Judgement, whitened: bool) -> Section:
    figure = pictures.evidence_figure(judgement)
    question = QUESTIONS.get(judgement.tester, "")
    return Section(
        "evidence",
        "The evidence",
        paragraphs=(
            f"Tester “{judgement.tester}”, pass {judgement.pass_name}. {question} "
            f"{evidence_features(whitened=whitened)}".strip(),
        ),
        figures=(figure,) if figure else (),
    )


def _missing_section(result: FitResult) -> Section | None:
    """What an inconclusive run lacks."""
    if result.verdict is not Verdict.INCONCLUSIVE:
        return None
    lacking = [one for one in result.testers if one.outcome is Outcome.INCONCLUSIVE]
    table = Table(
        "Testers that could not tell",
        tuple(Column(label, label != "tester") for label in ("tester", "rows seen", "rows needed")),
        tuple((one.tester, count(one.n_rows), count(one.rows_needed)) for one in lacking),
    )
    needed = result.rows_needed
    coarser = result.eps < _LARGEST_EPS
    figures = (pictures.rows_figure(result.data.rows, needed, coarser),) if needed else ()
    if not figures and not lacking:
        return None
    return Section("missing", "What is missing", (), figures, (table,) if lacking else ())


def _interval_section(
    certificate: CertificateRecord | None, upper: float, tau: float, *, whitened: bool
) -> Section | None:
    if certificate is None:
        return None
    figure = pictures.interval_figure(certificate, upper)
    words = interval_details(certificate, tau, whitened=whitened)
    return Section("interval", "How good is it?", (words,), (figure,) if figure else ())


def _profile_section(certificate: CertificateRecord | None) -> Section | None:
    if certificate is None or certificate.n_errors == 0:  # nothing lies below no error at all
        return None
    figure = pictures.profile_figure(certificate)
    if figure is None:
        return None
    words = (
        "The bound L is the least over all angles; where it dips, a better halfspace could hide."
    )
    return Section("profile", "The lower bound by angle", (words,), (figure,))


def _path_section(result: FitResult) -> Section | None:
    if not result.candidates:
        return None
    acceptance = next((one for one in result.testers if one.tester == "acceptance"), None)
    limit = acceptance.limit if acceptance else None
    figure = pictures.path_figure(result.candidates, result.chosen, limit)
    words = f"The search ended because: {result.stopped_because}."
    if figure is None:
        table = pictures.candidate_table(result.candidates)
        return Section("path", "The path of candidates", (words,), tables=(table,))
    return Section("path", "The path of candidates", (words,), (figure,))


def _slab_sections(result: FitResult) -> Iterable[Section]:
    if result.measurements is None:
        return
    mass = distribution.slab_figure(result.measurements, _chosen_judgement(result, "slab mass"))
    if mass is not None:
        words = "If the features are Gaussian, the histogram follows the bell curve."
        yield Section("slabs", "Rows along the halfspace", (words,), (mass,))
    spread = distribution.eigen_figure(
        result.measurements, _chosen_judgement(result, "slab covariance")
    )
    if spread is not None and result.data.dim > 1:  # there is no other direction than the one
        words = "In every slice the spread in all other directions must stay below the limit."
        yield Section("slices", "Spread in slices", (words,), (spread,))


def _chosen_judgement(result: FitResult, tester: str) -> Judgement | None:
    """The tester's first word on the returned candidate; its remark starts with the number."""
    name = f"candidate {result.chosen}"
    for one in result.testers:
        if one.tester == tester and one.remark.partition(",")[0] == name:
            return one
    return None


def _moment_section(result: FitResult) -> Section | None:
    judged = next((one for one in result.testers if one.tester == "largest moment"), None)
    limit = judged.limit if judged and 0 < judged.limit < 1e6 else 1.0
    figure = distribution.moment_figure(result.measurements, limit) if result.measurements else None
    if figure is None:
        return None
    words = "Hermite moments of the first pass: averages that are 0 for standard Gaussian features."
    if judged and judged.evidence:
        worst = judged.evidence[0]
        words += (
            f" The moment to look at first, of all degrees, is the mean of {worst.name}: "
            f"{number(worst.observed)} where a Gaussian has {number(worst.expected)}. "
            f"{evidence_features(whitened=result.whitened)}"
        )
    return Section("moments", "Moments of the features", (words.strip(),), (figure,))


def _halfspace_section(result: FitResult) -> Section | None:
    figure = distribution.weight_figure(result.halfspace) if result.halfspace else None
    if figure is None:
        return None
    words = "Predict +1 where the weighted sum of raw features plus the offset is 0 or more."
    if result.verdict is not Verdict.ACCEPTED:
        words += " The run was not accepted: this halfspace comes without a guarantee."
    return Section("halfspace", "The halfspace", (words,), (figure,))


def _tester_section(judgements: tuple[Judgement, ...]) -> Section | None:
    if not judgements:
        return None
    words = "A tester passes up to its limit, and rejects only beyond what chance alone reaches."
    if any(one.outcome is Outcome.NOT_JUDGED for one in judgements):
        words += (
            " “Extra, not judged” marks a test that the guarantee does not rest on and that these "
            "rows are too few for."
        )
    tables, folded = (tester_summary(judgements),), tester_details(judgements)
    return Section("testers", "The testers", (words,), tables=tables, folded=folded)


def _pass_section(passes: tuple[PassRecord, ...]) -> Section | None:
    if not passes:
        return None
    return Section("passes", "The passes over the data", tables=(pass_table(passes),))
