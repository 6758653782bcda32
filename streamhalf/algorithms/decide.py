"""The verdict of a run."""

from __future__ import annotations

from collections.abc import Iterable

from streamhalf.results import Outcome, TestResult, Verdict, overall_outcome


def decide(
    test_results: Iterable[TestResult],
    *,
    settled: bool = True,
    useful: bool = True,
    certified: bool = False,
    promise: Verdict = Verdict.ACCEPTED,
) -> Verdict:
    """The verdict of a run: the one place that names it.

    `settled`: some scale was tested, down to the eps that was asked for. `useful`: the halfspace is
    better than the constant guess. `certified`: it is proved to be within a wanted factor of the
    best. `promise`: the verdict where nothing stands against it.
    """
    outcome = overall_outcome(test_results)
    if outcome is Outcome.PASSED and settled and useful:
        return promise
    if certified and useful:
        return Verdict.CERTIFIED
    return Verdict.REJECTED if outcome is Outcome.REJECTED else Verdict.INCONCLUSIVE
