"""The one ranking of judgements."""

from __future__ import annotations

import math

from streamhalf.records import Judgement, Outcome, overall_outcome, severity, worst


def judge(statistic: float, outcome: Outcome = Outcome.PASSED, limit: float = 0.3) -> Judgement:
    return Judgement("quadratics", outcome, statistic, limit, 0.1, 100)


def test_worst__had_a_say() -> None:
    extra = judge(30.0, Outcome.NOT_JUDGED)
    assert worst([extra]) is None
    assert worst([]) is None
    assert worst([extra, judge(0.1), judge(0.2)]) == judge(0.2)
    assert worst([judge(0.2), judge(0.1, limit=0.1)]) == judge(0.1, limit=0.1)


def test_worst__looks_at_the_outcome_first() -> None:
    open_, rejected = judge(0.15, Outcome.INCONCLUSIVE), judge(0.1, Outcome.REJECTED)
    assert worst([judge(math.nan), open_, judge(0.2)]) == open_
    assert worst([judge(0.2), rejected, open_]) == rejected
    assert worst([rejected, judge(9.0, Outcome.REJECTED)]) == judge(9.0, Outcome.REJECTED)


def test_severity__orders_whatever_a_document_holds() -> None:
    found = [judge(math.nan), judge(-1.0), judge(1.0, limit=0.0), judge(math.inf)]
    shares = [severity(one)[1] for one in found]
    assert shares == [-1.0, -1.0 / 0.3, 1.0, math.inf]


def test_overall_outcome__is_that_of_the_worst() -> None:
    outcomes = (Outcome.PASSED, Outcome.NOT_JUDGED, Outcome.INCONCLUSIVE, Outcome.REJECTED)
    judgements = tuple(judge(1.0, outcome) for outcome in outcomes)
    assert overall_outcome(()) is Outcome.PASSED
    assert overall_outcome(judgements[1:2]) is Outcome.PASSED
    assert overall_outcome(judgements[:3]) is Outcome.INCONCLUSIVE
    assert overall_outcome(judgements) is Outcome.REJECTED
