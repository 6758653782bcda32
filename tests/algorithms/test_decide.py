"""Every way to a verdict."""

from __future__ import annotations

import itertools

import pytest

from streamhalf.algorithms.promises import decide
from streamhalf.results import Outcome, Role, TestResult, Verdict


def said(*outcomes: Outcome, role: Role = Role.REQUIRED) -> tuple[TestResult, ...]:
    return tuple(TestResult("t", outcome, 0.0, 1.0, 1.0, 9, role=role) for outcome in outcomes)


PASSED, DOUBT, NO, SILENT = (Outcome.PASSED, Outcome.INCONCLUSIVE, Outcome.REJECTED, Outcome.NOT_JUDGED)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ((), Verdict.ACCEPTED),
        ((PASSED, PASSED), Verdict.ACCEPTED),
        ((PASSED, SILENT), Verdict.ACCEPTED),
        ((PASSED, DOUBT), Verdict.INCONCLUSIVE),
        ((DOUBT, NO), Verdict.REJECTED),
        ((NO, PASSED, PASSED), Verdict.REJECTED),
    ],
)
def test_decide__the_worst_judgement_decides(outcomes: tuple[Outcome, ...], verdict: Verdict) -> None:
    for order in itertools.permutations(outcomes):
        assert decide(said(*order)) is verdict


def test_decide__what_could_not_be_settled_is_inconclusive() -> None:
    assert decide(said(PASSED), settled=False) is Verdict.INCONCLUSIVE
    assert decide((), settled=False) is Verdict.INCONCLUSIVE


def test_decide__a_rejection_stands_whatever_else_is_missing() -> None:
    assert decide(said(NO), settled=False) is Verdict.REJECTED
    assert decide(said(NO), useful=False) is Verdict.REJECTED


@pytest.mark.parametrize("outcome", [DOUBT, NO])
@pytest.mark.parametrize("settled", [True, False])
def test_decide__a_certificate_stands_whatever_the_testers_say(outcome: Outcome, settled: bool) -> None:
    assert decide(said(outcome), settled=settled, certified=True) is Verdict.CERTIFIED


def test_decide__a_certificate_answers_what_could_not_be_settled() -> None:
    assert decide(said(PASSED), settled=False, certified=True) is Verdict.CERTIFIED
    assert decide((), settled=False, certified=True) is Verdict.CERTIFIED


def test_decide__the_theorem_is_more_than_a_certificate() -> None:
    assert decide(said(PASSED), certified=True) is Verdict.ACCEPTED


@pytest.mark.parametrize("certified", [True, False])
@pytest.mark.parametrize(
    ("outcome", "verdict"), [(PASSED, Verdict.INCONCLUSIVE), (DOUBT, Verdict.INCONCLUSIVE), (NO, Verdict.REJECTED)]
)
def test_decide__what_a_constant_guess_can_do_is_neither_accepted_nor_certified(
    outcome: Outcome, verdict: Verdict, certified: bool
) -> None:
    assert decide(said(outcome), useful=False, certified=certified) is verdict


@pytest.mark.parametrize("promise", [Verdict.ACCEPTED, Verdict.PASSED])
def test_decide__promises_what_it_is_told_and_only_where_nothing_stands_against_it(promise: Verdict) -> None:
    assert decide(said(PASSED), promise=promise) is promise
    assert decide(said(DOUBT), promise=promise) is Verdict.INCONCLUSIVE
    assert decide(said(NO), promise=promise) is Verdict.REJECTED


def test_decide__judgements_may_come_one_by_one() -> None:
    assert decide(iter(said(PASSED, NO))) is Verdict.REJECTED
