"""A result in two voices: quality as three tiles, the promise as one line, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamhalf.redact import plural
from streamhalf.report.causes import diagnose
from streamhalf.report.notices import notice_of, notice_words
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
from streamhalf.results import CertifyResult, FitResult, MomentTestResult, Notice, Verdict

MOST_ADVICE = 3

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


@dataclass(frozen=True, slots=True)
class _Quality:
    error: float
    upper: float
    lower: float | None
    ratio: float | None
    guess: float | None
    guess_label: str


def face_of(result: FitResult | CertifyResult | MomentTestResult) -> Face:
    """Return the first screen of a result."""
    names = Names.of(result)
    subject = (f"{result.data.source}: " if result.data.source else "") + str(result.data)
    if isinstance(result, MomentTestResult):
        promise = _test_promise(result)
        advice = tuple(_remedies(result))[:MOST_ADVICE]
        return Face("Test of features", subject, (), promise, None, "", advice)
    title = "Halfspace" if isinstance(result, FitResult) else "Certificate of a linear classifier"
    quality = _quality(result, names)
    promise = promise_line(result)
    tiles = () if quality is None else tuple(_tiles(result, quality, names))
    ladder = None if quality is None else _ladder(quality)
    advice = tuple(dict.fromkeys(_advice(result)))[:MOST_ADVICE]
    return Face(title, subject, tiles, promise, ladder, _measured(result), advice)


# quality


def _quality(result: FitResult | CertifyResult, names: Names) -> _Quality | None:
    error, certificate = result.error, result.certificate
    if error is None:
        return None
    labels = error.by_label
    lower = None
    if certificate is not None and (
        certificate.opt.lower_empirical > 0 or not certificate.n_errors
    ):
        lower = min(certificate.opt.lower, error.empirical)
    return _Quality(
        error.empirical,
        error.upper,
        lower,
        None if certificate is None else certificate.ratio,
        None if labels is None else labels.guess_error,
        "" if labels is None else names.label(labels.guess),
    )


def _tiles(result: FitResult | CertifyResult, quality: _Quality, names: Names) -> Iterator[Tile]:
    own = "Error on fresh rows" if isinstance(result, FitResult) else "Error of this classifier"
    yield Tile(own, percent(quality.error), (f"at most {at_most(quality.upper)}",))
    yield _best_tile(result, quality, names)
    if quality.guess is not None:
        always = f"always “{quality.guess_label}”"
        yield Tile("Guessing", percent(quality.guess), (always,))


def _best_tile(result: FitResult | CertifyResult, quality: _Quality, names: Names) -> Tile:
    certificate, name = result.certificate, "Best possible"
    if certificate is None:
        return Tile(name, "unknown", ("no certificate was made",))
    if certificate.n_errors == 0:
        return Tile(name, "0%", ("this one is right on every row",))
    class_ = names.halfspaces(certificate.opt.through, certificate)
    if quality.lower is None:
        return Tile(name, "unknown", ("no bound above 0 was found",))
    notes = [f"for halfspaces {class_}"] if class_ != "with any threshold" else []
    if not certificate.comparable:
        notes.append("this one is of another class")
    elif quality.ratio is not None:
        notes.insert(0, f"this one: at most {factor(quality.ratio)} × the best")
    return Tile(name, f"≥ {at_least(quality.lower)}", tuple(notes))


def _ladder(quality: _Quality) -> Ladder:
    said = f"{percent(quality.error)}, at most {at_most(quality.upper)}"
    rungs = [("Error", said, quality.error, quality.error, quality.upper)]
    if quality.lower is not None:
        words = f"between {at_least(quality.lower)} and {at_most(quality.upper)}"
        low = quality.lower
        rungs.append(("Best possible", words, low, low, max(low, quality.upper)))
    if quality.guess is not None:
        rungs.append(("Guessing", percent(quality.guess), *(quality.guess,) * 3))
    said = "; ".join(f"{name}: {words}" for name, words, *_ in rungs)
    return Ladder("Error, best possible and guessing", said, tuple(rungs))


def _measured(result: FitResult | CertifyResult) -> str:
    """Return on which rows the error was measured, and what its bound is for."""
    error = result.error
    if error is None:
        return ""
    rows = f"{plural(error.n_rows, 'row')}"
    if isinstance(result, FitResult):
        rows += f" that it did not learn from, drawn at random from all {count(result.data.rows)}"
    said = f"Measured on {rows}. "
    if error.segments == 1:
        return f"{said}Bounds are for these data only: the error drifts along the rows."
    sure = confidence(result.tau)
    said += f"Bounds hold for new rows from the same source with confidence {sure}"
    if error.segments:
        said += f", from {error.segments} segments of rows, as errors come in clusters"
    return said + "."


# the promise


def is_vacuous(result: FitResult) -> bool:
    """Return whether C · error + eps says no more than that the error is below guessing."""
    error = result.error
    if result.constant is None or error is None:
        return True
    guess = 0.5 if error.by_label is None else error.by_label.guess_error
    return result.constant * error.empirical + result.eps >= guess


def proved(result: FitResult | CertifyResult) -> str:
    """Return the factor that the certificate proves, as a clause; empty without one."""
    certificate = result.certificate
    if certificate is None or certificate.ratio is None or not certificate.n_errors:
        return ""
    rows = "on these rows" if certificate.share >= 1 else f"on {plural(certificate.n_rows, 'row')}"
    class_ = Names.of(result).halfspaces(certificate.opt.through, certificate)
    return f"within a factor {factor(certificate.ratio)} of the best halfspace {class_}, {rows}"


def promise_line(result: FitResult | CertifyResult) -> PromiseLine:
    """Return the promise of a result in one line."""
    if isinstance(result, CertifyResult):
        if said := proved(result):
            return PromiseLine("good", "Proved:", f"{said}, whatever the features.")
        return PromiseLine("open", "Nothing proved:", _unproved(result))
    write = {
        Verdict.ACCEPTED: _accepted,
        Verdict.CERTIFIED: _certified,
        Verdict.REJECTED: _rejected,
        Verdict.INCONCLUSIVE: _inconclusive,
    }
    return write.get(result.verdict, _accepted)(result)


def _unproved(result: CertifyResult) -> str:
    if not result.certificate.n_errors:
        return "the classifier is right on every row, so there is nothing below it."
    if not result.certificate.comparable:
        return "the bound is for another class of halfspaces than this classifier."
    return "no lower bound above 0 was found."


def _accepted(result: FitResult) -> PromiseLine:
    title, said = "Accepted:", proved(result)
    if result.error is None:
        return PromiseLine("good", title, "the features pass every test.")
    if notice_of(result, "one-class"):
        return PromiseLine("open", title, "but all labels are alike, so there is nothing to learn.")
    if not is_vacuous(result) and result.constant is not None:
        best = f"{constant(result.constant)} × the best possible + {number(result.eps)}"
        return PromiseLine(
            "good", title, f"holds against chosen label flips, up to an error of {best}."
        )
    if said:
        return PromiseLine("good", title, f"the features pass every test. Proved {said}.")
    return PromiseLine("good", title, f"the features pass every test at eps {number(result.eps)}.")


def _certified(result: FitResult) -> PromiseLine:
    return PromiseLine("good", "Certified:", f"proved {proved(result)}, whatever the features.")


def _rejected(result: FitResult) -> PromiseLine:
    cause = diagnose(result)
    words = "none for these features" + (f": {cause.clause()}." if cause else ".")
    if said := proved(result):
        words += f" Still proved: {said}."
    return PromiseLine("bad", "No promise (rejected):", words)


def _inconclusive(result: FitResult) -> PromiseLine:
    title = "No promise yet (inconclusive):"
    if notice_of(result, "one-class"):
        return PromiseLine("open", title, "all labels are alike, so there is nothing to learn.")
    if result.rows_needed is not None:
        words = f"it needs about {about(result.rows_needed)} rows."
    elif notice := _first_notice(result, "eps-not-reached", "no-better-than-guess"):
        words = sentence(notice_words(notice, Names.of(result)))
    else:
        words = "the tests neither passed nor rejected."
    if said := proved(result):
        words += f" Already proved: {said}."
    return PromiseLine("open", title, words)


def _test_promise(result: MomentTestResult) -> PromiseLine:
    kind = DISTRIBUTIONS[result.transform.kind]
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
    """Yield advice, the most important first."""
    for kind in ("errors-disagree", "one-class", "nearly-one-class", "no-better-than-guess"):
        if notice := notice_of(result, kind):
            yield sentence(notice_words(notice, Names.of(result)))
        if notice and kind == "one-class":
            return
    if isinstance(result, FitResult):
        yield from _remedies(result)
    for kind in ("rows-in-order", "repeated-rows", "no-room"):
        if notice := notice_of(result, kind):
            yield sentence(notice_words(notice, Names.of(result)))
    certificate = result.certificate
    if certificate is not None and certificate.n_errors:
        loose = certificate.ratio is None or certificate.ratio > 1.5
        if loose and (words := tightening_words(certificate.advice)):
            yield f"{words[:1].upper()}{words[1:]}."
        yield suspects_sentence(result)


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


def _first_notice(result: FitResult, *codes: str) -> Notice | None:
    found = (notice_of(result, code) for code in codes)
    return next((one for one in found if one is not None), None)


def suspects_sentence(result: FitResult | CertifyResult) -> str:
    """Return how to list the rows whose labels look wrong."""
    certificate = result.certificate
    if certificate is None or not certificate.n_errors or result.halfspace is None:
        return ""
    run, rows = result.run, plural(certificate.n_errors, "row")
    if run is None or not run.command:
        return f"`streamhalf.audit(data, model=result)` lists the {rows} whose labels look wrong."
    source = result.data.source or "STORE"
    command = f"streamhalf audit {source} --model RESULT --out suspects.csv"
    return f"`{command}` lists the {rows} whose labels look wrong."
