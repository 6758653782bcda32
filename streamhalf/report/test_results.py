"""TestResults in words: what a tester asks, what became of it, and what its word counts for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from streamhalf.report.codes import count, number
from streamhalf.results import (
    FitResult,
    Method,
    MomentTestResult,
    Outcome,
    Role,
    TestResult,
)
from streamhalf.testers import WORDS
from streamhalf.testers.leading import SCALED_BY_ETA, is_localized
from streamhalf.testers.wedge import WedgeTester

_UNHEARD = {Role.EXTRA: "extra, not judged", Role.FALLBACK: "began anew", Role.ADVISORY: "noticed"}
"""What became of a test_result that has no say; of any other role it is not judged."""

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


def outcome_words(test_result: TestResult) -> str:
    """The outcome, or that it has no say."""
    if test_result.role is Role.EARLY:
        return f"{test_result.outcome}, early"
    if test_result.has_say:
        return str(test_result.outcome)
    return _UNHEARD.get(test_result.role, "not judged")


def outcome_counts(test_results: Iterable[TestResult]) -> str:
    """How often which outcome, those with a say first."""
    order = list(Outcome)
    ordered = sorted(test_results, key=lambda one: (not one.has_say, order.index(one.outcome)))
    counts = Counter(map(outcome_words, ordered))
    return ", ".join(f"{n} {word}" for word, n in counts.items())


def deciding(test_results: Iterable[TestResult]) -> list[TestResult]:
    """Without early warnings; while there is nothing else, these."""
    test_results = list(test_results)
    return [one for one in test_results if one.role is not Role.EARLY] or test_results


def remark_words(test_result: TestResult) -> str:
    """What there is to say about a test_result; empty where there is nothing."""
    said = []
    if test_result.candidate is not None:
        said.append(f"candidate {test_result.candidate}")
    if test_result.scale is not None:
        kind = "eta" if test_result.tester in SCALED_BY_ETA else "delta"
        said.append(f"{kind} {number(test_result.scale)}")
    if test_result.role is Role.EARLY:
        said.append("warns only: of the pass's own rows")
    elif not test_result.has_say:
        needed = test_result.rows_needed
        said.append(
            {
                Role.EXTRA: f"needs {count(needed)} rows to pass" if needed else "",
                Role.REFINEMENT: "finer than the scale that is judged",
                Role.ADVISORY: "rows are not exchangeable between segments of rows",
                Role.FALLBACK: "rows are not exchangeable between segments of rows: sampling rows",
            }.get(test_result.role, "")
        )
    if test_result.directions is not None:
        said.append(f"sketched on {test_result.directions} directions")
    return " · ".join(filter(None, said))


def near_boundary(test_result: TestResult) -> str:
    """Of which rows it is, where these are not all: to go on with."""
    if not is_localized(test_result):
        return ""
    scale = "" if test_result.scale is None else f" at scale {number(test_result.scale)}"
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
    moved = any(one.threshold for one in result.candidates if one.method is Method.PATH)
    return bool(tested) and everywhere and adaptive and moved and not is_sketched(result)


def has_baselines(result: FitResult) -> bool:
    """Whether candidates were learnt from a sample too."""
    return any(one.method is not Method.PATH for one in result.candidates)


def shown_candidate(result: FitResult) -> int | None:
    """The candidate that slabs are of: the returned one, or the last one of the path."""
    path = [i for i, one in enumerate(result.candidates) if one.method is Method.PATH]
    return result.chosen if result.chosen in path or not path else path[-1]


def beats_path(result: FitResult) -> bool:
    """Whether the returned halfspace is off the path, and errs less than all of it."""
    path = [one.error for one in result.candidates if one.method is Method.PATH]
    own = result.candidates[result.chosen or 0]
    known = [one for one in path if one is not None]
    return own.method is not Method.PATH and bool(known) and (own.error or 0.0) < min(known)


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
