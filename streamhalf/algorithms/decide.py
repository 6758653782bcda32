"""The one place that names a verdict."""

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
    """The verdict of a run.

    Parameters
    ----------
    test_results
        Of all testers.
    settled
        Whether the question that was asked could be answered: some scale was tested, down to the
        eps that was asked for.
    useful
        Whether the halfspace is better than the constant guess.
    certified
        Whether the certificate proves the halfspace to be within a wanted factor of the best.
    promise
        What it says where nothing stands against it.
    """
    outcome = overall_outcome(test_results)
    if outcome is Outcome.PASSED and settled and useful:
        return promise
    if certified and useful:
        return Verdict.CERTIFIED
    return Verdict.REJECTED if outcome is Outcome.REJECTED else Verdict.INCONCLUSIVE
