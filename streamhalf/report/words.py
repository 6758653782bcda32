"""Numbers and outcomes in words: one format for each kind of quantity, one sentence per verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from streamhalf.names import plural
from streamhalf.records import (
    CertificateRecord,
    CertifyResult,
    ErrorRecord,
    FitResult,
    Judgement,
    Outcome,
    Verdict,
)

TAU = "probability of a wrong statement"
"""What tau is, wherever it is named."""

ABSENT = "–"
"""Stands where the document has no number."""

REUSE = "`--rows reuse`"
"""Names the option that lets every pass use all rows."""

ONE_CLASS = "all labels are "
"""Begins the notice about labels of one class."""

COIN = 0.4
"""Error from which a halfspace is hardly better than a coin toss."""

_HALF = 0.47
"""Error from which it is as good as one."""

QUESTIONS = {
    "largest moment": "Do averages of products of features match those of a Gaussian?",
    "second moment": "Is the spread the same in every direction?",
    "quadratics": "Do squares and products of features vary as they should? The guarantee does "
    "not rest on it: an extra test, judged where the rows suffice for it.",
    "exchangeable chunks": "Do all stretches of rows look alike?",
    "acceptance": "Are as many rows near the boundary as there should be?",
    "slab mass": "Is the histogram along the candidate a Gaussian bell?",
    "slab covariance": "Is the spread bounded in every slice along the candidate?",
}


def number(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}" if math.isfinite(value) else ABSENT


def percent(share: float) -> str:
    """A share as a percentage with three decimals."""
    return f"{100 * share:.3f}%" if math.isfinite(share) else ABSENT


def degrees(angle: float) -> str:
    """An angle in radians as degrees."""
    return f"{math.degrees(angle):.2f}°" if math.isfinite(angle) else ABSENT


def count(value: int | None) -> str:
    """A whole number with separators."""
    return ABSENT if value is None else f"{value:,}"


def nbytes(value: int) -> str:
    """A size in decimal units."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value} B"


def seconds(value: float) -> str:
    """A duration."""
    return f"{value:,.2f} s" if math.isfinite(value) else ABSENT


def confidence(tau: float) -> str:
    """1 - tau as a percentage."""
    return f"{100 * (1 - tau):g}%"


def through(*, whitened: bool) -> str:
    """The halfspaces that a certificate speaks of, by what they go through."""
    return "through the mean of the features" if whitened else "through the origin"


def fit_headline(result: FitResult) -> str:
    """The verdict of a fit in one sentence that needs no statistics."""
    if result.verdict is Verdict.REJECTED:
        return (
            "The features do not follow the standard Gaussian law, so no promise about a "
            "halfspace learned from them would hold."
        )
    if result.verdict is Verdict.INCONCLUSIVE:
        if result.rows_needed is not None:
            return (
                f"{plural(result.data.rows, 'row')} are too few to tell; about "
                f"{count(result.rows_needed)} would settle it at accuracy eps = "
                f"{number(result.eps)}."
            )
        return (
            "The tests found nothing wrong, but the certificate that was demanded is out of reach."
        )
    if result.error is None:
        return "The features passed every test."
    return useless(result) or _accepted_headline(result, result.error)


def _accepted_headline(result: FitResult, error: ErrorRecord) -> str:
    certificate = result.certificate
    if certificate is not None and certificate.n_errors == 0:
        return (
            f"The halfspace is right on {certificate_rows(certificate)}: none can do better on "
            "these data."
        )
    if certificate is not None and certificate.opt.lower_empirical > 0:
        best = percent(certificate.opt.lower_empirical)
        return (
            f"The halfspace is wrong on {percent(certificate.error)} of "
            f"{certificate_rows(certificate)}, and no halfspace "
            f"{through(whitened=result.whitened)} on less than {best}."
        )
    return (
        f"The halfspace is wrong on {percent(error.empirical)} of rows it never saw, and "
        "the features passed every test that its guarantee rests on."
    )


def useless(result: FitResult) -> str:
    """That an accepted halfspace is true to its promise and still of no use; empty where it is."""
    if result.verdict is not Verdict.ACCEPTED or result.error is None:
        return ""
    error = result.error.empirical
    if one_class := [text for text in result.notices if text.startswith(ONE_CLASS)]:
        return sentence(one_class[0])
    if error < COIN:
        return ""
    lower = result.opt.lower_empirical if result.opt else 0.0
    others = f"halfspace {through(whitened=result.whitened)}"
    if lower >= COIN:
        return (
            f"No better than a coin toss: the halfspace is wrong on {percent(error)} of rows it "
            f"never saw, and every {others} is wrong on {percent(lower)} at least, so the labels "
            "hardly depend on which side of one a row lies."
        )
    word = "No" if error >= _HALF else "Hardly"
    return (
        f"{word} better than a coin toss: the halfspace is wrong on {percent(error)} of rows it "
        f"never saw. The promise holds but says little: the best {others} may be hardly better."
    )


def sentence(notice: str) -> str:
    """A notice as a sentence."""
    return f"{notice[:1].upper()}{notice[1:]}."


def fit_details(result: FitResult) -> tuple[str, ...]:
    """What an expert wants to know next; nothing that the headline has said."""
    if result.verdict is not Verdict.ACCEPTED or result.error is None:
        return ()
    said = percent(result.error.empirical)
    unseen = "" if said in fit_headline(result) else f"On rows it never saw it is wrong on {said}. "
    return (
        f"{unseen}On the source of the rows it is wrong on {percent(result.error.upper)} at most "
        f"(confidence {confidence(result.tau)}). The features look Gaussian at accuracy eps = "
        f"{number(result.eps)}, so this is within a constant of the best halfspace "
        f"{through(whitened=result.whitened)} plus eps, whichever labels were flipped.",
    )


def remedy(result: FitResult) -> str:
    """What to do about a run that left no halfspace."""
    if result.verdict is Verdict.INCONCLUSIVE and result.rows_needed is not None:
        reuse = reuse_notice(result)
        return (
            f"{plural(result.data.rows, 'row')} were too few: fit on about "
            f"{count(result.rows_needed)}" + (f", or: {reuse}" if reuse else "")
        )
    if result.verdict is Verdict.REJECTED:
        return "mend the features as the run advises (its report says how), then fit again"
    return "fit again"


def reuse_notice(result: FitResult) -> str:
    """That the rows at hand suffice if every pass may use them all; empty where they do not."""
    return next((text for text in result.notices if REUSE in text), "")


def certify_headline(result: CertifyResult) -> str:
    """What is certified about somebody's classifier, in one sentence."""
    if result.error.empirical == 0:
        rows = plural(result.error.n_rows, "row")
        return f"The classifier is right on all {rows}: none can do better on these data."
    text = f"The classifier is wrong on {percent(result.error.empirical)} of these rows"
    if result.certificate.opt.lower_empirical > 0:
        best = percent(result.certificate.opt.lower_empirical)
        others = through(whitened=result.whitening is not None)
        return f"{text}, and no halfspace {others} is wrong on less than {best} of them."
    return f"{text}; no bound above 0 could be certified for the best halfspace."


def certificate_rows(certificate: CertificateRecord) -> str:
    """The rows that a certificate speaks of."""
    rows = plural(certificate.n_rows, "row")
    return f"all {rows}" if certificate.share >= 1 else f"the {rows} of the certificate"


def interval_sentence(certificate: CertificateRecord, *, whitened: bool) -> str:
    """The certified interval and its ratio, for a first read."""
    rows = certificate_rows(certificate)
    if certificate.n_errors == 0:
        return (
            f"On {rows} this halfspace errs on none (U = 0), so L = 0 is the answer and not a lack "
            "of rows: the labels can be separated."
        )
    said = f"On {rows} this halfspace errs on {percent(certificate.error)} (U)"
    lower = certificate.opt.lower_empirical
    if lower <= 0:
        return (
            f"{said}; no lower bound above 0 could be certified (if some halfspace errs on no row, "
            f"0 is the answer). Otherwise: {flagged(certificate.advice)}."
        )
    ratio = "" if certificate.ratio is None else f" Their ratio is {number(certificate.ratio)}."
    return (
        f"{said}; any other {through(whitened=whitened)} errs on {percent(lower)} at least (L), "
        f"whatever the features.{ratio}"
    )


def interval_details(certificate: CertificateRecord, tau: float, *, whitened: bool) -> str:
    """The certified interval for an expert."""
    said = interval_sentence(certificate, whitened=whitened)
    if certificate.n_errors == 0 or certificate.opt.lower_empirical <= 0:
        return said
    return (
        f"{said} For the source of the rows L is {percent(certificate.opt.lower)} "
        f"(confidence {confidence(tau)}). L depends on the direction it is computed from "
        "(certificate.direction): from another it may come out higher or lower, and holds all the "
        f"same. The bound is weakest for halfspaces {degrees(certificate.angle_low)} to "
        f"{degrees(certificate.angle_high)} away from it; {flagged(certificate.advice)}."
    )


def flagged(advice: str) -> str:
    """Advice that names a parameter, with the option of the command line."""
    return re.sub(r"\bcertificate_degree (\d)", r"`--certificate-degree \1`", advice)


def outcome_words(outcome: Outcome, n: int | None = None) -> str:
    """An outcome, or how often; of a tester that had no say, that it is an extra."""
    word = "extra, not judged" if outcome is Outcome.NOT_JUDGED else str(outcome)
    return word if n is None else f"{n} {word}"


def worst_judgement(judgements: Sequence[Judgement]) -> Judgement | None:
    """The rejection, or else the closest to its limit, among those that had a say."""
    judged = [one for one in judgements if one.outcome is not Outcome.NOT_JUDGED]
    return max(judged, key=_badness, default=None)


def _badness(judgement: Judgement) -> tuple[bool, float]:
    share = judgement.statistic / judgement.limit if judgement.limit else judgement.statistic
    # a share that is not a number compares with nothing; it is never the worst
    return judgement.outcome is Outcome.REJECTED, share if share == share else -1.0
