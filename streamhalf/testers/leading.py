"""Which test of a run to show first, and its telling evidence."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from streamhalf.results import Evidence, Outcome, Role, Stage, TestResult
from streamhalf.testers.slabs import SlabMassTester
from streamhalf.testers.wedge import WedgeTester

# The tester that names moments of features, and the one that is the last to name a cause
MOMENTS, _EXTRA = "largest moment", "quadratics"
_CLEAR = 3.0  # In limits: a deviation of the lowest degree from which on it is the cause to name
_NAMELESS = 10.0  # How many times stronger a rejection must be that names directions instead of features
# Testers about a candidate; the scale of all others is that of a step
SCALED_BY_ETA = (SlabMassTester.name, WedgeTester.name)


def is_localized(test_result: TestResult) -> bool:
    """Return True for a test of the rows that a localised update accepts."""
    if test_result.tester in SCALED_BY_ETA:
        return False
    return test_result.stage is Stage.UPDATE or (test_result.scale or 1.0) < 1


def leading_rejection(test_results: Sequence[TestResult]) -> TestResult | None:
    """Return the rejection to show: one that counts, and names the cause best."""
    return _leading(one for one in test_results if one.has_say)


def leading_warning(test_results: Sequence[TestResult]) -> TestResult | None:
    """Return the strongest rejection by an early test, which does not count."""
    return _leading(one for one in test_results if one.role is Role.EARLY)


def _leading(test_results: Iterable[TestResult]) -> TestResult | None:
    """The furthest beyond limit and chance, of all rows first."""
    rejected = (one for one in test_results if one.outcome is Outcome.REJECTED)
    return max(rejected, key=lambda one: (is_of_all_rows(one), _strength(one)), default=None)


def leading_doubt(test_results: Sequence[TestResult]) -> TestResult | None:
    """Return the inconclusive test that counts and is furthest beyond its limit."""
    doubts = (one for one in test_results if one.has_say and one.outcome is Outcome.INCONCLUSIVE)
    return max(doubts, key=_strength, default=None)


def _strength(test_result: TestResult) -> float:
    """Statistic over limit; what names no feature must be far stronger to come first."""
    chance = 0.0 if test_result.outcome is Outcome.INCONCLUSIVE else test_result.null_quantile
    limit = max(test_result.limit, chance, sys.float_info.min)
    return test_result.statistic / limit / (_NAMELESS if test_result.tester == _EXTRA else 1.0)


def is_of_all_rows(test_result: TestResult) -> bool:
    """Return True for a test of all rows: what is off there is off everywhere."""
    return test_result.candidate is None and not is_localized(test_result)


def telling_evidence(test_result: TestResult) -> Evidence | None:
    """Return the strongest evidence: the largest deviation, in units of its limit.

    A mean or a spread that is far off explains higher powers, which are off by far more then.
    """
    simplest = simplest_evidence(test_result)
    if simplest is None or _excess(simplest) >= _CLEAR:
        return simplest
    return max(test_result.evidence, key=_excess)


def _excess(evidence: Evidence) -> float:
    return evidence.deviation / max(evidence.limit, sys.float_info.min)


def simplest_evidence(test_result: TestResult) -> Evidence | None:
    """Return the evidence of the lowest degree beyond chance: a cause of the others."""
    beyond = (one for one in test_result.evidence if one.deviation > test_result.null_quantile)
    return next(beyond, next(iter(test_result.evidence), None))


def leading_test(test_results: Sequence[TestResult]) -> tuple[TestResult, Evidence | None] | None:
    """Return the test that speaks most against the features, with its telling evidence."""
    found = leading_rejection(test_results) or leading_doubt(test_results)
    return None if found is None else (found, telling_evidence(found))
