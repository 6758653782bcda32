"""A result in two voices: quality as three tiles, the promise as one line, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamhalf.redact import plural
from streamhalf.report.causes import diagnose
from streamhalf.report.notices import notice_of, notice_sentence
from streamhalf.report.svg import Ladder
from streamhalf.report.words import (
    DISTRIBUTIONS,
    Names,
    about,
    at_least,
    at_most,
    confidence,
    constant,
    count,
    factor,
    number,
    percent,
    sentence,
    tightening_words,
)
from streamhalf.results import CertifyResult, FitResult, MomentTestResult, NoticeCode, Verdict
from streamhalf.results.quality import PromiseCode, Quality

MOST_ADVICE = 3

_TIGHT = 1.5
"""The factor up to which nothing is said about a tighter bound."""

_FIRST = (
    *(NoticeCode.ERRORS_DISAGREE, NoticeCode.ONE_CLASS, NoticeCode.NEARLY_ONE_CLASS),
    *(NoticeCode.NO_BETTER_THAN_GUESS, NoticeCode.EPS_NOT_REACHED),
)
_LAST = (NoticeCode.ROWS_IN_ORDER, NoticeCode.REPEATED_ROWS, NoticeCode.NO_ROOM)
"""Notices that are advice too, before and after what to do about the features."""

SIGNS = {"good": "✓", "plain": "✓", "bad": "✕", "open": "?"}


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the quality, with its bound."""

    name: str
    value: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PromiseLine:
    """The promise in one line; `tone` (good, plain, bad, open) gives sign and colour."""

    tone: str
    title: str
    words: str

    @property
    def sign(self) -> str:
        """Return a sign that needs no colour."""
        return SIGNS[self.tone]

    def __str__(self) -> str:
        return f"{self.title} {self.words}".strip()


@dataclass(frozen=True, slots=True)
class Face:
    """The first screen of a result, whatever shows it."""

    title: str
    subject: str
    tiles: tuple[Tile, ...]
    promise: PromiseLine
    ladder: Ladder | None
    measured: str
    advice: tuple[str, ...]


def face_of(result: FitResult | CertifyResult | MomentTestResult) -> Face:
    """Return the first screen of a result."""
    subject = (f"{result.data.source}: " if result.data.source else "") + str(result.data)
    if isinstance(result, MomentTestResult):
        advice = tuple(_remedies(result))[:MOST_ADVICE]
        return Face("Test of features", subject, (), _test_promise(result), None, "", advice)
    title = "Halfspace" if isinstance(result, FitResult) else "Certificate of a linear classifier"
    tiles: tuple[Tile, ...] = ()
    ladder = None
    if (quality := result.quality) is not None:
        tiles, ladder = tuple(_tiles(result, quality)), _ladder(quality)
    advice = tuple(dict.fromkeys(filter(None, _advice(result))))[:MOST_ADVICE]
    return Face(title, subject, tiles, promise_line(result), ladder, _measured(result), advice)


# quality


def _tiles(result: FitResult | CertifyResult, quality: Quality) -> Iterator[Tile]:
    notes = [f"at most {at_most(quality.upper)} on fresh rows"]
    if quality.held_out:
        notes.insert(0, "on held-out rows")
    yield Tile("Error", percent(quality.error), tuple(notes))
    yield _best_tile(result, quality)
    always = f"always “{Names.of(result).label(quality.guess_label)}”"
    yield Tile("Guessing", percent(quality.guess), (always,))


def _best_tile(result: FitResult | CertifyResult, quality: Quality) -> Tile:
    certificate, name = result.certificate, "Best possible"
    if certificate is None:
        return Tile(name, "unknown", ("no certificate was made",))
    if certificate.n_errors == 0:
        return Tile(name, "0%", ("this one is right on every row",))
    lower = quality.lower if certificate.comparable else certificate.opt.lower
    if not lower or lower <= 0:
        return Tile(name, "unknown", ("no bound above 0 was found",))
    class_ = Names.of(result).halfspaces(certificate.opt.through, certificate)
    notes = [f"of halfspaces {class_}"] if class_ != "with any threshold" else []
    if not certificate.comparable:
        notes.append("this one is of another class")
    elif quality.factor is not None:
        notes.insert(0, f"this one: {factor(quality.factor)} × that")
    return Tile(name, f"≥ {at_least(lower)}", tuple(notes))


def _ladder(quality: Quality) -> Ladder:
    rungs = [_rung("Error", quality.error, quality.error, quality.upper, "at most")]
    if quality.lower is not None and quality.lower > 0:
        low, high = quality.lower, max(quality.lower, quality.error)
        words = f"between {at_least(low)} and {at_most(high)}"
        rungs.append(("Best possible", words, low, low, high))
    guess = quality.guess
    rungs.append(("Guessing", percent(guess), guess, guess, guess))
    said = "; ".join(f"{name}: {words}" for name, words, *_ in rungs)
    return Ladder("Error, best possible and guessing", said, tuple(rungs))


def _rung(name: str, low: float, value: float, high: float, bound: str) -> tuple[str, str, float, float, float]:
    return name, f"{percent(value)}, {bound} {at_most(high)}", low, value, high


def _measured(result: FitResult | CertifyResult) -> str:
    """Return on which rows the numbers were counted, and what their bound is for."""
    error, quality, certificate = result.error, result.quality, result.certificate
    if error is None or quality is None:
        return ""
    fitted = isinstance(result, FitResult)
    held_out = f"{plural(error.n_rows, 'row')} that it did not learn from"
    said = []
    if certificate is not None:
        rows = f"all {count(quality.rows)} rows"
        if certificate.share < 1:
            rows = f"a random sample of {count(certificate.n_rows)} rows"
        what = "Best possible" if quality.held_out else "Error and best possible"
        said.append(f"{what}: counted on {rows}.")
    if certificate is None or quality.held_out:
        said.append(f"Error: counted on {held_out}.")
    sure = f"confidence {confidence(quality.tau)}"
    if error.segments == 1:
        said.append("No bound for fresh rows holds: the error drifts along the rows.")
    elif error.segments:
        said.append(f"Bound for fresh rows: from {error.segments} segments of rows, {sure}.")
    elif fitted:
        said.append(f"Bound for fresh rows: from {held_out}, {sure}.")
    else:
        said.append(f"Bound for fresh rows: {sure}, if it never saw these rows.")
    return " ".join(said)


# the promise


def proved(result: FitResult | CertifyResult) -> str:
    """Return the factor that the certificate proves, as a clause; empty without one."""
    promise, certificate = result.promise, result.certificate
    if promise is None or certificate is None or promise.factor is None:
        return ""
    class_ = Names.of(result).halfspaces(certificate.opt.through, certificate)
    sure = f" (confidence {confidence(1 - promise.confidence)})" if promise.confidence < 1 else ""
    return f"within a factor {factor(promise.factor)} of the best halfspace {class_}{sure}"


def promise_line(result: FitResult | CertifyResult) -> PromiseLine:
    """Return the promise of a result in one line."""
    found, verdict = result.promise, getattr(result, "verdict", None)
    title = "Accepted:" if verdict is Verdict.ACCEPTED else "Certified:"
    if found is None:
        if verdict is Verdict.REJECTED:
            return PromiseLine("bad", "No promise (rejected):", _not_these(result))
        tone = "good" if verdict is Verdict.ACCEPTED else "open"
        return PromiseLine(tone, f"{sentence(str(verdict or 'no promise'))[:-1]}:", "no labels.")
    also = f" Proved on these rows: {said}." if (said := proved(result)) else ""
    match found.code:
        case PromiseCode.HOLDS:
            times, eps = constant(found.constant), number(found.eps)
            bound = f"error at most {times} × the best possible + {eps}"
            words = f"holds against chosen label flips, {bound} ({times}: an empirical worst case)."
            return PromiseLine("good", title, f"{words}{also}")
        case PromiseCode.FACTOR:
            words = f"{said}, whatever the features."
            return PromiseLine("good", f"{title} proved" if verdict else "Proved", words)
        case PromiseCode.FEATURES:
            return PromiseLine("bad", "No promise (rejected):", f"{_not_these(result)}{also}")
        case PromiseCode.VACUOUS:
            bound = f"the bound of the tests, {at_most(found.at_most)}, is no better than guessing."
            return PromiseLine("open", "Tests passed, no promise:", f"{bound}{also}")
        case PromiseCode.NO_CONSTANT:
            words = "no constant is known for this class of halfspaces."
            return PromiseLine("open", "Tests passed, no promise:", f"{words}{also}")
        case PromiseCode.NO_BOUND:
            return PromiseLine("open", "Nothing proved:", _unproved(result))
    title = "No promise (inconclusive):"
    if notice_of(result, NoticeCode.ONE_CLASS):
        words = "all labels are alike, so there is nothing to learn."
    elif found.code is PromiseCode.NO_BETTER:
        words = "it is not shown to be better than guessing."
    elif found.code is PromiseCode.NOISE:
        words = "label noise stopped the tests, and more rows would not help."
    elif found.rows_needed is not None:
        words = f"the tests need about {about(found.rows_needed)} rows."
    else:
        words = "the tests neither passed nor rejected."
    return PromiseLine("open", title, words + also)


def _not_these(result: FitResult | CertifyResult) -> str:
    cause = diagnose(result) if isinstance(result, FitResult) else None
    return "these features fail the tests" + (f": {cause.clause()}." if cause else ".")


def _unproved(result: FitResult | CertifyResult) -> str:
    certificate = result.certificate
    if certificate is not None and not certificate.n_errors:
        return "the classifier is right on every row, so there is nothing below it."
    if certificate is not None and not certificate.comparable:
        return "the bound is for another class of halfspaces than this classifier."
    return "no lower bound above 0 was found."


def _test_promise(result: MomentTestResult) -> PromiseLine:
    kind = DISTRIBUTIONS.get(result.transform.kind, "Gaussian")
    if result.verdict is Verdict.REJECTED:
        cause = diagnose(result)
        words = f"the features are not {kind}" + (f": {cause.clause()}." if cause else ".")
        return PromiseLine("bad", "Rejected:", words)
    if result.verdict is Verdict.INCONCLUSIVE:
        needed = max((one.rows_needed or 0 for one in result.testers if one.has_say), default=0)
        return PromiseLine("open", "Inconclusive:", f"an answer needs about {about(needed)} rows.")
    return PromiseLine("good", "Passed:", f"no test speaks against {kind} features.")


# what to do


def _advice(result: FitResult | CertifyResult) -> Iterator[str]:
    """Yield advice, the most important first; some may be empty."""
    names = Names.of(result)
    for code in _FIRST:
        if notice := notice_of(result, code):
            yield notice_sentence(notice, names)
        if notice and code is NoticeCode.ONE_CLASS:
            return
    certified = isinstance(result, FitResult) and result.verdict is Verdict.CERTIFIED
    if isinstance(result, FitResult) and not certified:
        yield from _remedies(result)
    for code in _LAST:
        if notice := notice_of(result, code):
            yield notice_sentence(notice, names)
    certificate = result.certificate
    if certificate is not None and certificate.n_errors:
        loose = certificate.ratio is None or certificate.ratio > _TIGHT
        if loose and (words := tightening_words(certificate.advice)):
            yield sentence(words)
        yield suspects_sentence(result)
    if isinstance(result, FitResult) and certified:
        yield from _remedies(result)


def _remedies(result: FitResult | MomentTestResult) -> Iterator[str]:
    if cause := diagnose(result):
        yield cause.remedy()
    elif isinstance(result, FitResult) and result.rows_needed is not None:
        rows = about(result.rows_needed)
        yield f"For a promise gather about {rows} rows, or ask for a larger `--eps`."


def remedy(result: FitResult) -> str:
    """Return what to do about a run that left no halfspace, as a clause."""
    if result.rows_needed is not None:
        return f"{plural(result.data.rows, 'row')} were too few: fit on {about(result.rows_needed)}"
    if cause := diagnose(result):
        words = cause.remedy().rstrip(".")
        return f"{words[:1].lower()}{words[1:]}, then fit again"
    return "fit again"


def suspects_sentence(result: FitResult | CertifyResult) -> str:
    """Return how to list label issues: of the misclassified rows, those that `audit` picks."""
    certificate = result.certificate
    if certificate is None or not certificate.n_errors or result.halfspace is None:
        return ""
    run = result.run
    issues = f"label issues among the {plural(certificate.n_errors, 'misclassified row')}"
    if run is None or not run.command:
        return f"`streamhalf.audit(data, model=result)` lists {issues}."
    source = result.data.source or "STORE"
    command = f"streamhalf audit {source} --model RESULT --out suspects.csv"
    return f"`{command}` lists {issues}."
