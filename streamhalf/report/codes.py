"""Numbers and codes in words: one format for each kind of quantity, one phrase for each code."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from streamhalf.records import Evidence, FitResult, Judgement, Outcome

ABSENT = "–"
"""Stands where the document has no number."""

REUSE = "`--rows reuse`"
"""Names the option that lets every pass use all rows."""

ONE_CLASS = "all labels are "
"""Begins the notice about labels of one class."""

COIN = 0.4
"""Error from which a halfspace is hardly better than a coin toss."""

_LARGEST_EPS = 0.25
"""The largest that a run takes: no coarser question can be asked."""

_MOST_FEATURES_NAMED = 4

_QUESTIONS = {
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


def named(features: Sequence[str]) -> str:
    """A few names: x1, x2 and x3, or x1, x2, x3 and 5 more."""
    names = list(features)
    if len(names) > _MOST_FEATURES_NAMED:
        names[_MOST_FEATURES_NAMED - 1 :] = [f"{len(names) - _MOST_FEATURES_NAMED + 1} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def question(tester: str) -> str:
    """What a tester asks."""
    return _QUESTIONS.get(tester, "")


def outcome_words(outcome: Outcome, n: int | None = None) -> str:
    """An outcome, or how often; of a tester that had no say, that it is an extra."""
    word = "extra, not judged" if outcome is Outcome.NOT_JUDGED else str(outcome)
    return word if n is None else f"{n} {word}"


def evidence_name(evidence: Evidence) -> str:
    """The quantity that was measured."""
    return evidence.name


def remark_words(judgement: Judgement) -> str:
    """What there is to say about a judgement; empty where there is nothing."""
    return judgement.remark


def is_about_candidate(judgement: Judgement, candidate: int | None) -> bool:
    """Whether a judgement of the final pass is about this candidate: its remark begins with it."""
    return judgement.remark.partition(",")[0] == f"candidate {candidate}"


def stop_sentence(result: FitResult) -> str:
    """Why the search ended."""
    return f"The search ended because: {result.stopped_because}."


def advice_words(advice: str) -> str:
    """Advice of a certificate, with the option of the command line for a parameter it names."""
    return re.sub(r"\bcertificate_degree (\d)", r"`--certificate-degree \1`", advice)


def notice_sentence(notice: str) -> str:
    """A notice as a sentence."""
    return f"{notice[:1].upper()}{notice[1:]}."


def reuse_notice(result: FitResult) -> str:
    """That the rows at hand suffice if every pass may use them all; empty where they do not."""
    return next((text for text in result.notices if REUSE in text), "")


def one_class_notice(result: FitResult) -> str:
    """That all labels are the same; empty where they are not."""
    return next((text for text in result.notices if text.startswith(ONE_CLASS)), "")


def other_notices(notices: tuple[str, ...]) -> tuple[str, ...]:
    """Notices that no sentence about the verdict says."""
    return tuple(text for text in notices if REUSE not in text and not text.startswith(ONE_CLASS))


def can_ask_for_less(result: FitResult) -> bool:
    """Whether there is a coarser question, which fewer rows settle."""
    return result.eps < _LARGEST_EPS
