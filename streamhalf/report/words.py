"""Sentences about results: one home for each, whoever shows it."""

from __future__ import annotations

from streamhalf.names import plural
from streamhalf.records import (
    CertificateRecord,
    CertifyResult,
    ErrorRecord,
    FitResult,
    MomentTestResult,
    Verdict,
)
from streamhalf.report.codes import (
    advice_words,
    confidence,
    count,
    degrees,
    notice_sentence,
    number,
    one_class_notice,
    percent,
    reuse_notice,
)
from streamhalf.report.rejections import rejection_sentences, result_suggestions

TAU = "probability of a wrong statement"
"""What tau is, wherever it is named."""

_LARGEST_EPS = 0.25
"""The largest that a run takes: no coarser question can be asked."""

COIN = 0.4
"""Error from which a halfspace is hardly better than a coin toss."""

_HALF = 0.47
"""Error from which it is as good as one."""


def subject(result: FitResult | CertifyResult) -> str:
    """The data that a result speaks of."""
    return f"{result.data.source}: {result.data}" if result.data.source else str(result.data)


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
    if one_class := one_class_notice(result):
        return notice_sentence(one_class)
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


def fit_advice(result: FitResult) -> tuple[str, ...]:
    """What to do about a verdict that is none."""
    if suggestions := result_suggestions(result):
        return suggestions
    if result.verdict is not Verdict.INCONCLUSIVE or result.rows_needed is None:
        return ()
    coarser = ", or ask for less with a larger `--eps`" if can_ask_for_less(result) else ""
    reuse = reuse_notice(result)
    return (f"Gather more rows{coarser}.", *((notice_sentence(reuse),) if reuse else ()))


def can_ask_for_less(result: FitResult) -> bool:
    """Whether there is a coarser question, which fewer rows settle."""
    return result.eps < _LARGEST_EPS


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


def certify_details(result: CertifyResult) -> str:
    """What holds beyond the rows at hand."""
    return (
        f"At most {percent(result.error.upper)} on the source of the rows, if the classifier never "
        "saw them."
    )


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
            f"0 is the answer). Otherwise: {advice_words(certificate.advice)}."
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
        f"{degrees(certificate.angle_high)} away from it; {advice_words(certificate.advice)}."
    )


def moment_sentence(result: MomentTestResult) -> str:
    """The verdict of a moment test in words that need no statistics."""
    if result.verdict is Verdict.REJECTED:
        return _rejected(result)
    if result.verdict is Verdict.INCONCLUSIVE:
        needed = max(judgement.rows_needed or 0 for judgement in result.testers)
        return (
            f"Too few rows to tell ({result.data}).\nThe deviation seen could be chance; about "
            f"{needed:,} rows settle the question."
        )
    return f"Nothing speaks against standard Gaussian features ({result.data})."


def fit_sentence(result: FitResult) -> str:
    """The verdict of a fit and its certificate in words that need no statistics."""
    if result.verdict is Verdict.REJECTED:
        return _rejected(result)
    if result.verdict is Verdict.INCONCLUSIVE:
        return _inconclusive(result)
    if result.error is None:
        return f"Accepted ({result.data})."
    promise = (
        f"The halfspace errs on {percent(result.error.empirical)} of fresh rows, at most "
        f"{percent(result.error.upper)} (confidence {confidence(result.tau)}).\n"
        f"The features look Gaussian at accuracy eps = {number(result.eps)} ({result.data}), so "
        f"this is within a constant of the best halfspace {through(whitened=result.whitened)} plus "
        "eps, whichever labels were flipped."
    )
    found = result.certificate
    interval = interval_sentence(found, whitened=result.whitened) if found else ""
    return "\n".join(text for text in (useless(result), promise, interval) if text)


def certify_sentence(result: CertifyResult) -> str:
    """The error of somebody's classifier and the certified interval."""
    error, whitened = result.error, result.whitening is not None
    return (
        f"The classifier errs on {percent(error.empirical)} of {error.n_rows:,} rows (at most "
        f"{percent(error.upper)} on their source if it never saw them, confidence "
        f"{confidence(result.tau)}).\n"
        f"{interval_details(result.certificate, result.tau, whitened=whitened)}"
    )


def _rejected(result: MomentTestResult | FitResult) -> str:
    """That the features are not Gaussian, what shows it, and what to do."""
    said = f"The features are not standard Gaussian ({result.data})."
    return "\n".join((said, *rejection_sentences(result)))


def _inconclusive(result: FitResult) -> str:
    """What is missing, and what would do with the rows at hand."""
    if result.rows_needed is None:
        return f"Not accepted: {advice_words(result.notices[-1])}."
    said = (
        f"Too few rows to tell ({result.data}).\nJudging at eps = {number(result.eps)} takes about "
        f"{count(result.rows_needed)} rows."
    )
    reuse = reuse_notice(result)
    return f"{said}\n{notice_sentence(reuse)}" if reuse else said
