"""The one ranking of judgements."""

from __future__ import annotations

from streamhalf.records import Judgement, Outcome, overall_outcome, worst_of


def judge(statistic: float, outcome: Outcome = Outcome.PASSED, limit: float = 0.3) -> Judgement:
    return Judgement("quadratics", outcome, statistic, limit, 0.1, 100)


def test_worst__had_a_say() -> None:
    extra = judge(30.0, Outcome.NOT_JUDGED)
    assert worst_of([extra]) is None
    assert worst_of([]) is None
    assert worst_of([extra, judge(0.1), judge(0.2)]) == judge(0.2)
    assert worst_of([judge(0.2), judge(0.1, limit=0.1)]) == judge(0.1, limit=0.1)


def test_worst__looks_at_the_outcome_first() -> None:
    open_, rejected = judge(0.15, Outcome.INCONCLUSIVE), judge(0.1, Outcome.REJECTED)
    assert worst_of([judge(0.1), open_, judge(0.2)]) == open_
    assert worst_of([judge(0.2), rejected, open_]) == rejected
    assert worst_of([rejected, judge(9.0, Outcome.REJECTED)]) == judge(9.0, Outcome.REJECTED)


def test_severity__a_limit_of_zero_is_no_division() -> None:
    assert [judge(-1.0).severity, judge(1.0, limit=0.0).severity] == [(1, -1.0 / 0.3), (1, 1.0)]


def test_overall_outcome__is_that_of_the_worst() -> None:
    outcomes = (Outcome.PASSED, Outcome.NOT_JUDGED, Outcome.INCONCLUSIVE, Outcome.REJECTED)
    judgements = tuple(judge(1.0, outcome) for outcome in outcomes)
    assert overall_outcome(()) is Outcome.PASSED
    assert overall_outcome(judgements[1:2]) is Outcome.PASSED
    assert overall_outcome(judgements[:3]) is Outcome.INCONCLUSIVE
    assert overall_outcome(judgements) is Outcome.REJECTED
