"""A result in two voices: quality as three tiles, the promise as one line, and what to do next.

Terminal, report, notebook and dashboard render these values; no view has words of its own for them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from streamhalf import results
from streamhalf.redact import plural
from streamhalf.report import words as say
from streamhalf.report.details import Cause, diagnose
from streamhalf.report.svg import Ladder
from streamhalf.report.words import Names, about, at_least, at_most, percent
from streamhalf.results import FitResult, MomentTestResult, NoticeCode, PromiseCode, Quality, Result, Verdict

MOST_SAID = 3  # Caveats and pieces of advice together: the first caveat and the first advice come first
_TIGHT = 1.5  # The factor up to which nothing is said about a tighter bound
_NEAR_BEST = 1.1  # The factor up to which no linear classifier is worth looking for
_MORE_ROWS = 20  # Times the rows at hand: nobody is advised to gather more than these
# Notices of the first screen, the most important first
_CAVEATS = (
    *(NoticeCode.ERRORS_DISAGREE, NoticeCode.ERRORS_CLUSTER, NoticeCode.NEARLY_ONE_CLASS),
    *(NoticeCode.NO_BETTER_THAN_GUESS, NoticeCode.EPS_NOT_REACHED),
    *(NoticeCode.ROWS_IN_ORDER, NoticeCode.REPEATED_ROWS, NoticeCode.NO_ROOM),
)
_UNFIT = "No promise against chosen label flips (rejected):"
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
    measured: str = ""
    caveats: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    command: str = ""
    """That lists wrong labels; alone on its line."""

    audit: ClassVar[str] = "To list errors that may be wrong labels, run:"


def face_of(result: Result | MomentTestResult) -> Face:
    subject = str(result.data) + (f" in {result.data.source}" if result.data.source else "")
    if isinstance(result, MomentTestResult):
        return Face("Test of features", subject, (), _test_promise(result), None, advice=tuple(_remedies(result)))
    title = "Linear classifier" if isinstance(result, FitResult) else "Given linear classifier"
    promise = promise_line(result)
    if has_one_class(result):
        question = "Did you choose the right column of labels? A classifier needs two different labels."
        return Face(title, subject, (), promise, None, advice=(question,))
    tiles: tuple[Tile, ...] = ()
    ladder = None
    if (quality := result.quality) is not None:
        guess = Tile(
            "Error of guessing", percent(quality.guess), (f"always “{Names.of(result).label(quality.guess_label)}”",)
        )
        tiles = (
            Tile("Error", percent(quality.error), tuple(_error_notes(result, quality))),
            _best(result, quality),
            guess,
        )
        ladder = _ladder(result, quality)
    caveats, advice = tuple(dict.fromkeys(_caveats(result))), tuple(dict.fromkeys(_advice(result)))
    command = audit_command(result)
    room = MOST_SAID - bool(command)
    n_advice = min(len(advice), max(room - len(caveats), 1))
    caveats, advice = caveats[: room - n_advice], advice[:n_advice]
    return Face(title, subject, tiles, promise, ladder, _measured(result), caveats, advice, command)


def _notice(result: Result, code: NoticeCode) -> results.Notice | None:
    return next((one for one in result.notices if one.code is code), None)


def has_one_class(result: Result) -> bool:
    return _notice(result, NoticeCode.ONE_CLASS) is not None


# quality


def _error_notes(result: Result, quality: Quality) -> Iterator[str]:
    """Yield on which rows the error was counted, if not on all, and what is known of others."""
    if quality.held_out:
        yield "on held-out rows"
    elif (bound := _upper_of_all(result)) is not None:
        yield "on a sample of the rows"
        yield f"all rows: ≤ {at_most(bound)}"
    error, upper = result.error, _useful_upper(result, quality)
    beside = result.certificate is not None and result.stream is None and not quality.held_out
    if error is None or error.n_rows >= quality.rows or not beside:
        error = None  # it is the error above
    if upper is not None and error is not None:
        yield f"fresh rows: {percent(error.empirical)} (≤ {at_most(upper)})"
    elif upper is not None:
        yield f"at most {at_most(upper)} on fresh rows"
    else:
        if error is not None and quality.upper is None:
            yield f"held-out rows: {percent(error.empirical)}"
        yield f"{'no' if quality.upper is None else 'no useful'} bound for fresh rows"
    yield from _factor_notes(result, quality)


def _factor_notes(result: Result, quality: Quality) -> Iterator[str]:
    """Yield how far the error is from the best possible at most."""
    certificate = result.certificate
    if certificate is None or not certificate.comparable or not certificate.n_errors or quality.factor is None:
        return
    proved = 0.0 if result.promise is None else result.promise.factor or 0.0
    times = say.factor(max(proved, quality.factor))  # of a sample, the one that is proved
    shares = ""
    if (upper := _upper_of_all(result)) is not None and not quality.held_out:
        shares = f" ({at_most(upper)} / {at_least(quality.lower or 0.0)})"
    yield "as good as the best" if times == "1" else f"≤ {times} × the best{shares}"


def _useful_upper(result: Result, quality: Quality) -> float | None:
    """Return the bound for fresh rows; None where errors bunch together so much that guessing is as good."""
    clustered = result.error is not None and result.error.segments is not None
    return None if clustered and quality.upper is not None and quality.upper >= quality.guess else quality.upper


def _upper_of_all(result: Result) -> float | None:
    """Return the bound of the error on all rows, where a sample of them was counted."""
    certificate, promise = result.certificate, result.promise
    if certificate is None or certificate.share >= 1 or result.stream is not None:
        return None
    return None if promise is None or promise.factor is None else promise.factor * certificate.opt.lower


def _best(result: Result, quality: Quality) -> Tile:
    certificate, name = result.certificate, "Best possible"
    if certificate is None:
        return Tile(name, "unknown", ("no certificate was made",))
    if certificate.n_errors == 0:
        return Tile(name, "0%", ("this one is right on every row",))
    lower = quality.lower if certificate.comparable else certificate.opt.lower
    if not lower or lower <= 0:
        return Tile(name, "unknown", ("no bound above 0 was found",))
    class_ = _class(result, certificate)
    notes = [f"no {class_} errs less" if len(class_) < 20 else f"for any {class_}"]
    if not certificate.comparable:
        notes.append("this one is of another class")
    return Tile(name, f"≥ {at_least(lower)}", tuple(notes))


def _class(result: Result, certificate: results.CertificateRecord) -> str:
    """Return the class that a bound is for: linear classifiers, or halfspaces through a point."""
    through = certificate.opt.through
    if through is results.HalfspaceClass.ANY:
        return "linear classifier"
    return f"halfspace {Names.of(result).halfspaces(through, certificate)}"


def _ladder(result: Result, quality: Quality) -> Ladder:
    error, guess, high = quality.error, quality.guess, _useful_upper(result, quality)
    words = percent(error) + ("" if high is None else f"; fresh rows ≤ {at_most(high)}")
    rungs: list[tuple[str, str, float, float | None, float]] = [
        ("Error", words, error, error, error if high is None else max(error, high))
    ]
    if quality.lower is not None and quality.lower > 0:
        upper = None if quality.held_out else _upper_of_all(result)
        if result.stream is not None and result.certificate is not None:
            error = result.certificate.error  # the rows that L speaks of
        low, high = quality.lower, max(quality.lower, error if upper is None else upper)
        top = percent(high) if upper is None else at_most(high)
        rungs.append(("Best possible", f"{at_least(low)} to {top}", low, None, high))
    rungs.append(("Guessing", percent(guess), guess, guess, guess))
    said = "; ".join(f"{name}: {words}" for name, words, *_ in rungs)
    return Ladder("Error, best possible and guessing", said, tuple(rungs))


def _measured(result: Result) -> str:
    """Return on which rows the numbers were counted, and what their bounds are for."""
    error, quality, certificate = result.error, result.quality, result.certificate
    if error is None or quality is None:
        return ""
    unseen, sure = plural(error.n_rows, "held-out row"), f"confidence {say.confidence(result.tau)}"
    if (stream := result.stream) is not None:
        best = "" if stream.certificate is None else f" Best possible: on {rows_of(stream.certificate)} alone."
        bound = f"{sure} at all looks together, if rows come independently"
        if quality.upper is None:
            bound = "no bound, as the error drifts along the rows"
        return f"Error and guessing: on {rows_of(stream.errors)} of the stream.{best} Fresh rows: {bound}."
    apart = certificate is None or quality.held_out
    rows = f"all {plural(quality.rows, 'row')}" if quality.rows > 1 else "the row"
    of_error = f" Error: on {unseen}." if apart else ""
    if certificate is None:
        counted = f"Error and guessing: on {unseen}."
    elif certificate.share < 1:
        sample = f"a random sample of {plural(certificate.n_rows, 'row')}"
        counted = f"Best possible{'' if apart else ' and error'}: from {sample} ({sure}).{of_error}"
    elif apart:
        counted = f"Best possible and guessing: on {rows}.{of_error}"
    else:
        counted = f"Error, best possible and guessing: on {rows}."
    if quality.upper is None:
        return f"{counted} No bound for fresh rows: the error drifts along the rows."
    if _useful_upper(result, quality) is None:
        return counted
    if result.verdict is None:
        return f"{counted} Fresh rows: if it never saw these rows ({sure})."
    choice = len(result.candidates)
    allowed = f", corrected for the choice among {choice} candidates" if choice > 1 else ""
    return f"{counted} Fresh rows: {sure}, from {'these' if apart else unseen}{allowed}."


def rows_of(stretch: tuple[int, int]) -> str:
    return f"rows {stretch[0] + 1:,} to {stretch[1]:,}"


# the promise


def _proved(result: Result) -> str:
    """Return the factor that the certificate proves, as a clause; empty if guessing has it too."""
    promise, certificate, quality = result.promise, result.certificate, result.quality
    if promise is None or certificate is None or promise.factor is None:
        return ""
    if promise.code is PromiseCode.NO_BETTER or (quality is not None and not quality.beats_guess):
        return ""
    times = say.factor(promise.factor)
    found = "to be" if times == "1" else f"within a factor {times} of"
    rows = None if result.stream is None else result.stream.certificate
    return f"{found} the best {_class(result, certificate)} on {'these rows' if rows is None else rows_of(rows)}"


def promise_line(result: Result) -> PromiseLine:
    found, verdict, stream = result.promise, result.verdict, result.stream
    title = "Accepted:" if verdict is Verdict.ACCEPTED else "Certified:"
    if found is None:
        if verdict is Verdict.REJECTED:
            return PromiseLine("bad", _UNFIT, _not_these(result))
        tone = "good" if verdict is Verdict.ACCEPTED else "open"
        return PromiseLine(tone, f"{say.capital(str(verdict or 'no promise'))}:", "no labels.")
    said = _proved(result)
    also = f" Proved for any features: {said}." if said else ""
    match found.code:
        case PromiseCode.HOLDS:
            times, eps = say.constant(found.constant), at_most(found.eps)
            like = f" on rows like {rows_of(stream.tests)}, whose features were tested" if stream else ""
            words = (
                "even if an adversary chose the wrong labels, "
                f"the error is at most {times} × the best possible + {eps}{like}"
            )
            return PromiseLine("good", title, f"{words} ({times}: an empirical worst case).{also}")
        case PromiseCode.FACTOR if verdict is Verdict.ACCEPTED:
            tested = f" of {rows_of(stream.tests)}" if stream else ""
            return PromiseLine("good", title, f"the features{tested} pass every test.{also}")
        case PromiseCode.FACTOR if verdict is None:
            return PromiseLine("good", "Proved", f"{said}, for any features.")
        case PromiseCode.FACTOR:
            found_out = _rejecting(result)
            why = f"{found_out} the features" if found_out else "The tests of the features are not conclusive"
            words = f"{why}, so nothing is promised against chosen label flips."
            return PromiseLine("good", title, f"proved {said}, for any features. {words}")
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
    title = "No promise against chosen label flips (inconclusive):" if verdict else "Nothing proved:"
    if one := _notice(result, NoticeCode.ONE_CLASS):
        title = "Nothing to learn:"
        words = f"every label is “{Names.of(result).label(one['label'])}”, so no classifier was learned."
    elif found.code is PromiseCode.NO_BETTER:
        words = f"it is {'not shown to be' if verdict else 'no'} better than guessing."
    elif found.code is PromiseCode.NOISE:
        words = "label noise stopped the tests, and more rows would not help."
    elif found.rows_needed is not None:
        had = f"you have {result.data.rows:,}" if stream is None else f"{result.data.rows:,} were looked at"
        words = f"the tests need about {about(found.rows_needed)} rows in all; {had}."
    else:
        words = "the tests neither passed nor rejected."
    return PromiseLine("open", title, words + also)


def _no_better(result: Result) -> bool:
    return result.promise is not None and result.promise.code is PromiseCode.NO_BETTER


def _not_these(result: Result) -> str:
    return f"{_rejecting(result) or 'a test rejects'} the features{_cause(result)}"


def _cause(result: Result | MomentTestResult) -> str:
    cause = diagnose(result)
    return f": {cause.clause()}." if cause else "."


def _rejecting(result: Result) -> str:
    """Return how many of the judged testers reject; empty if none does."""
    judged = [one for one in result.testers if one.has_say]
    found = {one.tester for one in judged if one.outcome is results.Outcome.REJECTED}
    total = plural(len({one.tester for one in judged}), "test")
    return f"{len(found)} of {total} {'rejects' if len(found) == 1 else 'reject'}" if found else ""


def _unproved(result: Result) -> str:
    certificate = result.certificate
    if certificate is not None and not certificate.n_errors:
        return "the classifier is right on every row, so there is nothing below it."
    if certificate is not None and not certificate.comparable:
        return "the bound is for another class of halfspaces than this classifier."
    return "no lower bound above 0 was found."


def _test_promise(result: MomentTestResult) -> PromiseLine:
    kind = say.DISTRIBUTIONS.get(result.transform.kind, "Gaussian")
    if result.verdict is Verdict.REJECTED:
        return PromiseLine("bad", "Rejected:", f"the features are not {kind}{_cause(result)}")
    if result.verdict is Verdict.INCONCLUSIVE:
        needed = max((one.rows_needed or 0 for one in result.testers if one.has_say), default=0)
        return PromiseLine("open", "Inconclusive:", f"an answer needs about {about(needed)} rows.")
    return PromiseLine("good", "Passed:", f"no test speaks against {kind} features.")


# what to do


def _caveats(result: Result) -> Iterator[str]:
    """Yield what limits the numbers above, the most important first."""
    quality = result.quality
    upper = None if quality is None else _useful_upper(result, quality)
    matters = quality is not None and (upper is None or upper > 2 * quality.error)
    unneeded = {NoticeCode.NO_BETTER_THAN_GUESS} if _no_better(result) else set()
    if not matters:
        unneeded.add(NoticeCode.ERRORS_CLUSTER)
    elif _notice(result, NoticeCode.ERRORS_CLUSTER):
        unneeded.add(NoticeCode.ROWS_IN_ORDER)
    for notice in filter(None, (_notice(result, code) for code in _CAVEATS if code not in unneeded)):
        if notice.code is NoticeCode.ERRORS_CLUSTER and upper is None and quality and quality.upper is not None:
            yield (
                "No useful bound for fresh rows: errors bunch together in parts of the file. "
                "Shuffle the rows if their order means nothing."
            )
        else:
            yield say.notice_sentence(notice, Names.of(result))


def _advice(result: Result) -> Iterator[str]:
    """Yield what to do next, the most important first."""
    quality, certificate = result.quality, result.certificate
    if _notice(result, NoticeCode.NO_BETTER_THAN_GUESS) and _no_better(result):
        yield "Look for features that separate the labels, or gather more rows."
    if result.verdict is None and quality is not None and not quality.beats_guess:
        label = Names.of(result).label(quality.guess_label)
        yield f"Always guessing “{label}” is at least as good. Are the labels the right way round?"
    if result.verdict is not Verdict.CERTIFIED:
        yield from _remedies(result)
    if certificate is None or not certificate.n_errors or _no_better(result):
        return
    if result.stream is None and result.promise is not None and (result.promise.factor or 2.0) <= _NEAR_BEST:
        yield "To err less, change the features or the kind of model: no linear classifier does much better here."
    advice = certificate.advice
    # updates and streams go on with the degree that they began with
    goes_on = isinstance(result, FitResult) and (result.stream is not None or len(result.looks) > 1)
    if goes_on and advice.code is results.AdviceCode.HIGHER_DEGREE:
        return
    loose = certificate.ratio is None or certificate.ratio > _TIGHT
    if loose and (advice.rows or 0) <= _MORE_ROWS * result.data.rows and (words := say.tightening_words(advice)):
        yield say.sentence(words)


def _remedies(result: Result | MomentTestResult) -> Iterator[str]:
    if cause := diagnose(result):
        useless = isinstance(result, MomentTestResult) or cause.cause is Cause.FEW_VALUES
        yield cause.remedy() if useless else f"For a promise, {say.clause(cause.remedy())}"
    elif not isinstance(result, MomentTestResult) and result.rows_needed is not None:
        only = "" if result.quality is None else " for the promise alone: the numbers above hold without it"
        yield f"Gather {about(result.rows_needed)} rows{only}."


def remedy(result: FitResult) -> str:
    """Return what to do about a run that left no halfspace, as a clause."""
    if result.rows_needed is not None:
        return f"{plural(result.data.rows, 'row')} were too few: fit on {about(result.rows_needed)}"
    cause = diagnose(result)
    return f"{say.clause(cause.remedy().rstrip('.'))}, then fit again" if cause else "fit again"


def audit_command(result: Result) -> str:
    """Return the command that lists label issues; empty where none can be."""
    certificate = result.certificate
    if certificate is None or not certificate.n_errors or result.halfspace is None:
        return ""
    if _no_better(result) or has_one_class(result) or result.stream is not None:
        return ""
    if (run := result.run) is None or not run.command:
        data = "(X, y)" if result.data.source == "arrays" else "data"
        return f"streamhalf.audit({data}, model=result)"
    words = shlex.split(run.command.replace("--json=", "--json "))
    written = next((two for one, two in pairwise(words) if one == "--json"), "RESULT.json")
    named = run.settings.get("labels", "y")
    label = "" if named == "y" else f" --label {shlex.quote(str(named))}"
    source = shlex.quote(result.data.source) if result.data.source else "STORE"
    return f"streamhalf audit {source}{label} --model {shlex.quote(written)}"
