"""A result in two voices: quality as three tiles, the promise as one line, and what to do next.

Terminal, report, notebook and dashboard render these values; no view has words of its own for them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from streamhalf.redact import plural
from streamhalf.report.details import Cause, diagnose
from streamhalf.report.svg import Ladder
from streamhalf.report.words import (
    DISTRIBUTIONS,
    Names,
    about,
    at_least,
    at_most,
    confidence,
    constant,
    factor,
    notice_of,
    notice_sentence,
    percent,
    sentence,
    tightening_words,
)
from streamhalf.results import (
    CertificateRecord,
    CertifyResult,
    FitResult,
    HalfspaceClass,
    MomentTestResult,
    NoticeCode,
    PromiseCode,
    Quality,
    StreamRecord,
    Verdict,
)

MOST_ADVICE = 3

_TIGHT = 1.5
"""The factor up to which nothing is said about a tighter bound."""

_MORE_ROWS = 20
"""Times the rows at hand: nobody is advised to gather more than these."""

_FIRST = (
    *(NoticeCode.ERRORS_DISAGREE, NoticeCode.ERRORS_CLUSTER, NoticeCode.ONE_CLASS, NoticeCode.NEARLY_ONE_CLASS),
    *(NoticeCode.NO_BETTER_THAN_GUESS, NoticeCode.EPS_NOT_REACHED),
)
_LAST = (NoticeCode.ROWS_IN_ORDER, NoticeCode.REPEATED_ROWS, NoticeCode.NO_ROOM)
"""Notices that are advice too, before and after what to do about the features."""

_UNFIT = "No promise for these features (rejected):"

SIGNS = {"good": "✓", "bad": "!", "open": "?"}


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the quality, with its bound."""

    name: str
    value: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PromiseLine:
    """The promise in one line; `tone` (good, bad, open) gives sign and colour."""

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
        return Face("Test of features", subject, (), _test_promise(result), None, "", tuple(_remedies(result)))
    title = "Linear classifier" if isinstance(result, FitResult) else "Given linear classifier"
    tiles: tuple[Tile, ...] = ()
    ladder = None
    if (quality := result.quality) is not None:
        tiles, ladder = tuple(_tiles(result, quality)), _ladder(result, quality)
    advice = tuple(dict.fromkeys(filter(None, _advice(result))))[:MOST_ADVICE]
    return Face(title, subject, tiles, promise_line(result), ladder, _measured(result), advice)


# quality


def _tiles(result: FitResult | CertifyResult, quality: Quality) -> Iterator[Tile]:
    bound = "no bound for fresh rows" if quality.upper is None else f"at most {at_most(quality.upper)} on fresh rows"
    notes = ("on held-out rows", bound) if quality.held_out else (bound,)
    yield Tile("Error", percent(quality.error), notes)
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
    notes = [f"of any {_class(result, certificate)}"]
    proved = 0.0 if result.promise is None else result.promise.factor or 0.0
    if not certificate.comparable:
        notes.append("this one is of another class")
    elif quality.factor is not None:
        times = factor(max(proved, quality.factor))  # of a sample, the one that is proved
        notes.append("this one is as good" if times == "1" else f"this one: {times} × that")
    return Tile(name, f"≥ {at_least(lower)}", tuple(notes))


def _class(result: FitResult | CertifyResult, certificate: CertificateRecord) -> str:
    """Return the class that a bound is for: linear classifiers, or halfspaces through a point."""
    through = certificate.opt.through
    if through is HalfspaceClass.ANY:
        return "linear classifier"
    return f"halfspace {Names.of(result).halfspaces(through, certificate)}"


def _ladder(result: FitResult | CertifyResult, quality: Quality) -> Ladder:
    high = quality.error if quality.upper is None else quality.upper
    words = percent(quality.error) + ("" if quality.upper is None else f", at most {at_most(high)}")
    rungs = [("Error", words, quality.error, quality.error, high)]
    if quality.lower is not None and quality.lower > 0:
        certificate = result.certificate
        error = quality.error if certificate is None or stream_of(result) is None else certificate.error
        low, high = quality.lower, max(quality.lower, error)
        rungs.append(("Best possible", f"between {at_least(low)} and {at_most(high)}", low, low, high))
    guess = quality.guess
    rungs.append(("Guessing", percent(guess), guess, guess, guess))
    said = "; ".join(f"{name}: {words}" for name, words, *_ in rungs)
    return Ladder("Error, best possible and guessing", said, tuple(rungs))


def _measured(result: FitResult | CertifyResult) -> str:
    """Return on which rows the numbers were counted, and what their bound is for."""
    error, quality, certificate = result.error, result.quality, result.certificate
    if error is None or quality is None:
        return ""
    apart = certificate is None or quality.held_out
    unseen = f"{plural(error.n_rows, 'row')} that it did not learn from"
    rows = f"all {plural(quality.rows, 'row')}" if quality.rows > 1 else "the row"
    sure = f"confidence {confidence(quality.tau)}"
    stream = stream_of(result)
    if quality.upper is None:
        bound = "No bound for fresh rows: the error drifts along the rows."
    elif error.segments:
        bound = f"Bound for fresh rows: from {error.segments} segments of rows, {sure}."
    elif stream is not None:
        bound = f"Bound for fresh rows: {sure} at all looks together, if rows come independently."
    elif not isinstance(result, FitResult):
        bound = f"Bound for fresh rows: {sure}, if it never saw these rows."
    else:
        bound = f"Bound for fresh rows: from {'these' if apart else unseen}, {sure}."
    if stream is not None:
        best = "" if stream.certificate is None else f"Best possible: for {rows_of(stream.certificate)} alone. "
        return f"Error and guessing: counted on {rows_of(stream.errors)} of the stream. {best}{bound}"
    if certificate is None:
        return f"Error and guessing: counted on {unseen}. {bound}"
    if certificate.share < 1:
        sample = f"a random sample of {plural(certificate.n_rows, 'row')}"
        best = f"Best possible: for {rows}, confidence {confidence(1 - quality.confidence)}, from {sample}."
        return f"{best} Error: counted on {unseen if apart else 'that sample'}. {bound}"
    if apart:
        return f"Best possible and guessing: counted on {rows}. Error: counted on {unseen}. {bound}"
    return f"Error, best possible and guessing: counted on {rows}. {bound}"


def stream_of(result: FitResult | CertifyResult) -> StreamRecord | None:
    """Return which rows of a stream the numbers speak of; None for stored rows."""
    return result.stream if isinstance(result, FitResult) else None


def rows_of(stretch: tuple[int, int]) -> str:
    """Return the rows of a stretch, counted from 1."""
    return f"rows {stretch[0] + 1:,} to {stretch[1]:,}"


# the promise


def proved(result: FitResult | CertifyResult) -> str:
    """Return the factor that the certificate proves, as a clause; empty if guessing has it too."""
    promise, certificate, quality = result.promise, result.certificate, result.quality
    if promise is None or certificate is None or promise.factor is None:
        return ""
    if promise.code is PromiseCode.NO_BETTER or (quality is not None and not quality.beats_guess):
        return ""
    sure = f" (confidence {confidence(1 - promise.confidence)})" if promise.confidence < 1 else ""
    times = factor(promise.factor)
    stream = stream_of(result)
    where = "these rows" if stream is None or stream.certificate is None else rows_of(stream.certificate)
    return (
        "to be" if times == "1" else f"within a factor {times} of"
    ) + f" the best {_class(result, certificate)} on {where}{sure}"


def promise_line(result: FitResult | CertifyResult) -> PromiseLine:
    """Return the promise of a result in one line."""
    found, verdict = result.promise, getattr(result, "verdict", None)
    title = "Accepted:" if verdict is Verdict.ACCEPTED else "Certified:"
    if found is None:
        if verdict is Verdict.REJECTED:
            return PromiseLine("bad", _UNFIT, _not_these(result))
        tone = "good" if verdict is Verdict.ACCEPTED else "open"
        return PromiseLine(tone, f"{sentence(str(verdict or 'no promise'))[:-1]}:", "no labels.")
    also = f" Proved: {said}." if (said := proved(result)) else ""
    stream = stream_of(result)
    like = "" if stream is None else f" on rows like {rows_of(stream.tests)}, whose features were tested"
    match found.code:
        case PromiseCode.HOLDS:
            times, eps = constant(found.constant), at_most(found.eps)
            words = (
                "even if an adversary chose the wrong labels, "
                f"the error is at most {times} × the best possible + {eps}{like}"
            )
            return PromiseLine("good", title, f"{words} ({times}: an empirical worst case).{also}")
        case PromiseCode.FACTOR if verdict is Verdict.ACCEPTED:
            tested = "" if stream is None else f" of {rows_of(stream.tests)}"
            return PromiseLine("good", title, f"the features{tested} pass every test; proved {said}.")
        case PromiseCode.FACTOR:
            return PromiseLine(
                "good",
                title if verdict else "Proved",
                ("proved " if verdict else "") + f"{said}, whatever the features.",
            )
        case PromiseCode.FEATURES:
            return PromiseLine("bad", _UNFIT, f"{_not_these(result)}{also}")
        case PromiseCode.VACUOUS:
            words = f"the bound that follows, {at_most(found.at_most)}, is no better than guessing."
            return PromiseLine("open", "Tests passed, no promise:", f"{words}{also}")
        case PromiseCode.NO_CONSTANT:
            words = "no constant is known for classifiers of this kind."
            return PromiseLine("open", "Tests passed, no promise:", f"{words}{also}")
        case PromiseCode.NO_BOUND:
            return PromiseLine("open", "Nothing proved:", _unproved(result))
    title = "No promise (inconclusive):" if verdict else "Nothing proved:"
    if one := notice_of(result, NoticeCode.ONE_CLASS):
        title = "Nothing to learn (inconclusive):"
        words = f"all labels are “{Names.of(result).label(one['label'])}”."
    elif found.code is PromiseCode.NO_BETTER:
        words = f"it is {'not shown to be' if verdict else 'no'} better than guessing."
    elif found.code is PromiseCode.NOISE:
        words = "label noise stopped the tests, and more rows would not help."
    elif found.rows_needed is not None:
        words = f"the tests need about {about(found.rows_needed)} rows."
    else:
        words = "the tests neither passed nor rejected."
    return PromiseLine("open", title, words + also)


def code_of(result: FitResult | CertifyResult) -> PromiseCode | None:
    """Return the code of the promise, if there is one."""
    return None if result.promise is None else result.promise.code


def _not_these(result: FitResult | CertifyResult) -> str:
    cause = diagnose(result) if isinstance(result, FitResult) else None
    why = f": {cause.clause()}." if cause else "."
    return f"they fail a test{why} The numbers above hold all the same."


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
    names, quality, certificate = Names.of(result), result.quality, result.certificate
    drifts = quality is not None and quality.upper is None
    wide = quality is not None and quality.upper is not None and quality.upper > 2 * quality.error
    for code in _FIRST:
        notice = notice_of(result, code)
        if notice and code is NoticeCode.ONE_CLASS:
            yield "Check the labels: a classifier needs two different ones."
            return
        if notice and code is NoticeCode.NO_BETTER_THAN_GUESS and code_of(result) is PromiseCode.NO_BETTER:
            yield "Look for features that separate the labels, or gather more rows."
        elif notice and (code is not NoticeCode.ERRORS_CLUSTER or drifts or wide):
            yield notice_sentence(notice, names)
    if quality is not None and not quality.beats_guess and not isinstance(result, FitResult):
        label = names.label(quality.guess_label)
        yield f"Always guessing “{label}” is at least as good. Are the labels the right way round?"
    if isinstance(result, FitResult) and result.verdict is not Verdict.CERTIFIED:
        yield from _remedies(result)
    for code in _LAST:
        clusters = notice_of(result, NoticeCode.ERRORS_CLUSTER) and (drifts or wide)
        if (notice := notice_of(result, code)) and not (clusters and code is NoticeCode.ROWS_IN_ORDER):
            yield notice_sentence(notice, names)
    if certificate is None or not certificate.n_errors or code_of(result) is PromiseCode.NO_BETTER:
        return
    advice = certificate.advice
    loose = certificate.ratio is None or certificate.ratio > _TIGHT
    if loose and (advice.rows or 0) <= _MORE_ROWS * result.data.rows and (words := tightening_words(advice)):
        yield sentence(words)
    yield suspects_sentence(result)


def _remedies(result: FitResult | MomentTestResult) -> Iterator[str]:
    if cause := diagnose(result):
        words = cause.remedy()
        asks = isinstance(result, FitResult) and cause.cause is not Cause.FEW_VALUES
        yield f"For a promise, {words[:1].lower()}{words[1:]}" if asks else words
    elif isinstance(result, FitResult) and result.rows_needed is not None:
        yield f"For a promise, gather about {about(result.rows_needed)} rows, or ask for a larger `--eps`."


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
    if certificate is None or not certificate.n_errors or result.halfspace is None or stream_of(result) is not None:
        return ""
    rows = (
        f"the {plural(certificate.n_errors, 'misclassified row')}"
        if certificate.share == 1
        else "the misclassified rows"
    )
    command = "streamhalf.audit(data, model=result)"
    if (run := result.run) is not None and run.command:
        written = re.search(r"--json (\S+)", run.command)
        named = run.settings.get("labels", "y")
        label = "" if named == "y" else f" --label {shlex.quote(str(named))}"
        model = written[1] if written else "RESULT.json"
        command = f"streamhalf audit {result.data.source or 'STORE'}{label} --model {model} --out suspects.csv"
    return f"Of {rows}, `{command}` lists those whose labels look wrong."
