"""The one place that names a verdict."""

from __future__ import annotations

from collections.abc import Iterable

from streamhalf.records import Judgement, Outcome, Verdict, overall_outcome


def decide(
    judgements: Iterable[Judgement],
    *,
    settled: bool = True,
    useful: bool = True,
    ratio: float | None = None,
    max_ratio: float | None = None,
    promise: Verdict = Verdict.ACCEPTED,
) -> Verdict:
    """The verdict of a run.

    Parameters
    ----------
    judgements
        Of all testers.
    settled
        Whether the question that was asked could be answered: some scale was tested, down to the
        eps that was asked for.
    useful
        Whether the halfspace is better than the constant guess.
    ratio, max_ratio
        The certified ratio U/L (None: no bound above 0), and the largest that is wanted.
    promise
        What it says where nothing stands against it.
    """
    outcome = overall_outcome(judgements)
    if outcome is Outcome.REJECTED:
        return Verdict.REJECTED
    if outcome is Outcome.INCONCLUSIVE or not settled or not useful:
        return Verdict.INCONCLUSIVE
    if max_ratio is not None and (ratio is None or ratio > max_ratio):
        return Verdict.INCONCLUSIVE
    return promise
