"""Numbers and outcomes in words: one format for each kind of quantity, one sentence per verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from streamhalf.records import (
    CertificateRecord,
    CertifyResult,
    Evidence,
    FitResult,
    Judgement,
    Outcome,
    Verdict,
)

TAU = "probability of a wrong statement"
"""What tau is, wherever it is named."""

ABSENT = "–"
"""Stands where the document has no number."""

_MOST_FEATURES_NAMED = 4

QUESTIONS = {
    "largest moment": "Do averages of products of features match those of a Gaussian?",
    "second moment": "Is the spread the same in every direction?",
    "quadratics": "Do squares and products of features vary as they should? An extra test.",
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
                f"{count(result.data.rows)} rows are too few to tell; about "
                f"{count(result.rows_needed)} would settle it at accuracy eps = "
                f"{number(result.eps)}."
            )
        return (
            "The tests found nothing wrong, but the certificate that was demanded is out of reach."
        )
    if result.error is None:
        return "The features passed every test."
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
            f"{certificate_rows(certificate)}, and no halfspace through the origin on less than "
            f"{best}."
        )
    return (
        f"The halfspace is wrong on {percent(result.error.empirical)} of rows it never saw, and "
        "the features passed every test that its guarantee rests on."
    )


def fit_details(result: FitResult) -> tuple[str, ...]:
    """What an expert wants to know next."""
    if result.verdict is not Verdict.ACCEPTED or result.error is None:
        return ()
    return (
        f"On rows it never saw it is wrong on {percent(result.error.empirical)}, and on their "
        f"source on {percent(result.error.upper)} at most (confidence {confidence(result.tau)}). "
        f"The features look Gaussian at accuracy eps = {number(result.eps)}, so this is within a "
        "constant of the best halfspace plus eps, "
        "whichever labels were flipped.",
    )


def certify_headline(result: CertifyResult) -> str:
    """What is certified about somebody's classifier, in one sentence."""
    if result.error.empirical == 0:
        rows = count(result.error.n_rows)
        return f"The classifier is right on all {rows} rows: none can do better on these data."
    text = f"The classifier is wrong on {percent(result.error.empirical)} of these rows"
    if result.certificate.opt.lower_empirical > 0:
        best = percent(result.certificate.opt.lower_empirical)
        return f"{text}, and no halfspace through the origin is wrong on less than {best} of them."
    return f"{text}; no bound above 0 could be certified for the best halfspace."


def certificate_rows(certificate: CertificateRecord) -> str:
    """The rows that a certificate speaks of."""
    rows = f"{count(certificate.n_rows)} rows"
    return f"all {rows}" if certificate.share >= 1 else f"the {rows} of the certificate"


def interval_details(certificate: CertificateRecord, tau: float) -> str:
    """The certified interval for an expert."""
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
            f"0 is the answer). Otherwise: {certificate.advice}."
        )
    ratio = "" if certificate.ratio is None else f" Their ratio is {number(certificate.ratio)}."
    return (
        f"{said}; any other through the origin errs on {percent(lower)} at least (L), whatever the "
        f"features.{ratio} For the source of the rows L is {percent(certificate.opt.lower)} "
        f"(confidence {confidence(tau)}). L depends on the direction it is computed from "
        "(certificate.direction): from another it may come out higher or lower, and holds all the "
        f"same. The bound is weakest for halfspaces {degrees(certificate.angle_low)} to "
        f"{degrees(certificate.angle_high)} away from it; {certificate.advice}."
    )


def leading_rejection(judgements: Sequence[Judgement]) -> Judgement | None:
    """The rejection to show first: one that names moments, else the first."""
    rejected = [judgement for judgement in judgements if judgement.outcome is Outcome.REJECTED]
    named = [judgement for judgement in rejected if judgement.tester == "largest moment"]
    return next(iter(named or rejected), None)


def rejection_sentence(judgement: Judgement, *, whitened: bool) -> str:
    """What a rejecting tester saw."""
    said = (
        f"Tester “{judgement.tester}” has {number(judgement.statistic)}; the limit is "
        f"{number(judgement.limit)} and chance alone reaches {number(judgement.null_quantile)}."
    )
    where = f"In pass {judgement.pass_name}" if judgement.pass_name else "Here"
    if not judgement.evidence:
        return f"{where}: {said}"
    evidence = judgement.evidence[0]
    what = f"mean of {evidence.name}" if judgement.tester == "largest moment" else evidence.name
    of = " of the whitened features" if whitened else ""
    return (
        f"{where} the {what}{of} is {number(evidence.observed)}; a standard Gaussian has "
        f"{number(evidence.expected)}. {said}"
    )


def evidence_features(*, whitened: bool) -> str:
    """Which features the evidence speaks of, where they are not the stored ones."""
    return "x1, x2, ... are the whitened features, not the stored ones." if whitened else ""


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


def suggestions(judgement: Judgement, *, whitened: bool) -> tuple[str, ...]:
    """What to do about a rejection."""
    if judgement.tester == "exchangeable chunks":
        return ("The rows come in an order. Shuffle them before they are stored.",)
    if judgement.pass_name.startswith("update"):
        return (
            "The features look Gaussian as a whole, but not near the boundary of the halfspace. "
            "More rows or whitening will not change that: look at the rows with a small margin "
            "|w·x|. Features of this pass are coordinates of the localised rows, not columns.",
        )
    if judgement.tester in ("slab mass", "slab covariance", "acceptance"):
        return (
            "Along the halfspace the features are not Gaussian. Look at the slab named above: "
            "a cluster, a gap or a rounded feature shows up there.",
        )
    columns = named_features(judgement.evidence[:1])
    columns = f"the features behind whitened {columns}" if whitened and columns else columns
    inspect = f"Inspect {columns}: outliers, clipping, rounding, duplicates." if columns else ""
    if not whitened and _highest_degree(judgement) <= 2:
        first = (
            "Mean, scale or correlation of the features is off. Run again with "
            "`--whiten` (in Python `whiten=True`), which estimates and removes them."
        )
    else:
        first = (
            "Mean and covariance are not the cause, so whitening alone will not help: the shape "
            "of the features differs from a Gaussian. Transform them, or use another method."
        )
    return tuple(text for text in (first, inspect) if text)


def named_features(evidence: Sequence[Evidence]) -> str:
    """The features that evidence names, such as x3 and x7."""
    found = [name for item in evidence for name in re.findall(r"\bx\d+", item.name)]
    names = list(dict.fromkeys(found))[:_MOST_FEATURES_NAMED]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _highest_degree(judgement: Judgement) -> int:
    """Degree of the leading moment; directions and everything else stand for degree 2."""
    if judgement.tester != "largest moment" or not judgement.evidence:
        return 2
    powers = re.findall(r"x\d+(?:\^(\d{1,3}))?", judgement.evidence[0].name)
    return sum(int(power or 1) for power in powers)
