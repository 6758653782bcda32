"""Judgements in words: what a tester asks, what became of it, and what its word counts for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from streamhalf.records import (
    FitResult,
    Judgement,
    MomentTestResult,
    Outcome,
    Recipe,
    Role,
    Stage,
)
from streamhalf.report.codes import count, number
from streamhalf.testers import WORDS
from streamhalf.testers.slab_mass import SlabMassTester
from streamhalf.testers.wedge import WedgeTester

_SCALED_BY_ETA = (SlabMassTester.name, WedgeTester.name)
"""Testers about a candidate; the scale of all others is that of a step."""

_UNHEARD = {Role.EXTRA: "extra, not judged", Role.FALLBACK: "began anew", Role.ADVISORY: "noticed"}
"""What became of a judgement that has no say; of any other role it is not judged."""

_COARSEST = 0.25
"""Of the first scales of the adaptive schedule."""


def question(tester: str) -> str:
    """What a tester asks."""
    return WORDS[tester].asks if tester in WORDS else ""


def failure_words(tester: str) -> str:
    """What it means when a tester fails, and what to do; of a guest among testers, that it did."""
    if tester not in WORDS:
        return f"Tester “{tester}” speaks against these rows."
    return f"{WORDS[tester].failure} {WORDS[tester].remedy}"


def outcome_words(judgement: Judgement) -> str:
    """The outcome, or that it has no say."""
    if judgement.role is Role.EARLY:
        return f"{judgement.outcome}, early"
    if judgement.has_say:
        return str(judgement.outcome)
    return _UNHEARD.get(judgement.role, "not judged")


def outcome_counts(judgements: Iterable[Judgement]) -> str:
    """How often which outcome, those with a say first."""
    order = list(Outcome)
    ordered = sorted(judgements, key=lambda one: (not one.has_say, order.index(one.outcome)))
    counts = Counter(map(outcome_words, ordered))
    return ", ".join(f"{n} {word}" for word, n in counts.items())


def deciding(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Without early warnings; while there is nothing else, these."""
    judgements = list(judgements)
    return [one for one in judgements if one.role is not Role.EARLY] or judgements


def remark_words(judgement: Judgement) -> str:
    """What there is to say about a judgement; empty where there is nothing."""
    said = []
    if judgement.candidate is not None:
        said.append(f"candidate {judgement.candidate}")
    if judgement.scale is not None:
        kind = "eta" if judgement.tester in _SCALED_BY_ETA else "delta"
        said.append(f"{kind} {number(judgement.scale)}")
    if judgement.role is Role.EARLY:
        said.append("warns only: of the pass's own rows")
    elif not judgement.has_say:
        needed = judgement.rows_needed
        said.append(
            {
                Role.EXTRA: f"needs {count(needed)} rows to pass" if needed else "",
                Role.REFINEMENT: "finer than the scale that is judged",
                Role.ADVISORY: "rows are not exchangeable between stretches of rows",
                Role.FALLBACK: "rows are not exchangeable between stretches of rows: sampling rows",
            }.get(judgement.role, "")
        )
    if judgement.directions is not None:
        said.append(f"sketched on {judgement.directions} directions")
    return " · ".join(filter(None, said))


def is_localized(judgement: Judgement) -> bool:
    """Whether it is of the rows that a localised update accepts, as that shows them."""
    if judgement.tester in _SCALED_BY_ETA:
        return False
    return judgement.stage is Stage.UPDATE or (judgement.scale or 1.0) < 1


def near_boundary(judgement: Judgement) -> str:
    """Of which rows it is, where these are not all: to go on with."""
    if not is_localized(judgement):
        return ""
    scale = "" if judgement.scale is None else f" at scale {number(judgement.scale)}"
    return f", of the rows near the boundary{scale},"


def sketched_on(result: FitResult | MomentTestResult) -> int | None:
    """Directions that moments of the highest degree were looked at in, where these are not all."""
    return next((one.directions for one in result.testers if one.directions is not None), None)


def is_sketched(result: FitResult | MomentTestResult) -> bool:
    """Whether moments of the highest degree were looked at in some directions only."""
    return sketched_on(result) is not None


def has_thresholds(result: FitResult) -> bool:
    """Whether thresholds are why no constant is known: quadratics were tested in every direction.

    At every scale too, from 1/2 or, far from the centre, 1/4 on.
    """
    tested = [one for one in deciding(result.testers) if one.tester == "quadratics"]
    everywhere = all(one.outcome is not Outcome.NOT_JUDGED for one in tested)
    adaptive = any(one.delta >= _COARSEST for one in result.promises)
    moved = any(one.threshold for one in result.candidates if one.recipe is Recipe.PATH)
    return bool(tested) and everywhere and adaptive and moved and not is_sketched(result)


def has_pool(result: FitResult) -> bool:
    """Whether candidates were learnt from a sample too."""
    return any(one.recipe is not Recipe.PATH for one in result.candidates)


def shown_candidate(result: FitResult) -> int | None:
    """The candidate that slabs are of: the returned one, or the last one of the path."""
    path = [i for i, one in enumerate(result.candidates) if one.recipe is Recipe.PATH]
    return result.chosen if result.chosen in path or not path else path[-1]


def beats_path(result: FitResult) -> bool:
    """Whether the returned halfspace is off the path, and errs less than all of it."""
    path = [one.error for one in result.candidates if one.recipe is Recipe.PATH]
    own = result.candidates[result.chosen or 0]
    known = [one for one in path if one is not None]
    return own.recipe is not Recipe.PATH and bool(known) and (own.error or 0.0) < min(known)


def wedge_bound(result: FitResult) -> float | None:
    """Beta of the returned halfspace, where it is known."""
    betas = (one.beta for i, one in enumerate(result.candidates) if i == result.chosen)
    return next(betas, None)


def wedge_angle(result: FitResult) -> float:
    """The angle that the wedge bound of the returned halfspace is for, in radians."""
    return 2 * math.asin(min(1.0, _wedge_scale(result) / 2))


def wedge_shift(result: FitResult) -> float:
    """By how much thresholds of such halfspaces may differ from the returned one's.

    The bound is for |t - t' / cos(angle)| <= eta; |t - t'| <= eta cos(angle) - |t| (1 - cos(angle))
    is enough for that.
    """
    eta = _wedge_scale(result)
    turned = eta**2 / 2
    (own,) = (one for i, one in enumerate(result.candidates) if i == result.chosen)
    return max(0.0, eta * (1 - turned) - abs(own.threshold) * turned)


def _wedge_scale(result: FitResult) -> float:
    own = (
        one.scale
        for one in result.testers
        if one.tester == WedgeTester.name and one.candidate == result.chosen
    )
    eta = next(own, None) or result.eps
    return abs(eta)
