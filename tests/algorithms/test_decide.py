"""Every way to a verdict."""

from __future__ import annotations

import itertools

import pytest

from streamhalf.algorithms.decide import decide
from streamhalf.records import Judgement, Outcome, Role, Verdict


def said(*outcomes: Outcome, role: Role = Role.REQUIRED) -> tuple[Judgement, ...]:
    return tuple(Judgement("t", outcome, 0.0, 1.0, 1.0, 9, role=role) for outcome in outcomes)


PASSED, DOUBT, NO, SILENT = (
    Outcome.PASSED,
    Outcome.INCONCLUSIVE,
    Outcome.REJECTED,
    Outcome.NOT_JUDGED,
)


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
def test_decide__the_worst_judgement_decides(
    outcomes: tuple[Outcome, ...], verdict: Verdict
) -> None:
    for order in itertools.permutations(outcomes):
        assert decide(said(*order)) is verdict


def test_decide__what_could_not_be_settled_is_inconclusive() -> None:
    assert decide(said(PASSED), settled=False) is Verdict.INCONCLUSIVE
    assert decide((), settled=False) is Verdict.INCONCLUSIVE


def test_decide__a_rejection_stands_whatever_else_is_missing() -> None:
    assert decide(said(NO), settled=False, ratio=None, max_ratio=1.5) is Verdict.REJECTED


@pytest.mark.parametrize(
    ("ratio", "max_ratio", "verdict"),
    [
        (1.2, None, Verdict.ACCEPTED),
        (None, None, Verdict.ACCEPTED),
        (1.2, 1.5, Verdict.ACCEPTED),
        (1.5, 1.5, Verdict.ACCEPTED),
        (1.6, 1.5, Verdict.INCONCLUSIVE),
        (None, 1.5, Verdict.INCONCLUSIVE),
    ],
)
def test_decide__a_ratio_that_is_wanted_must_be_reached(
    ratio: float | None, max_ratio: float | None, verdict: Verdict
) -> None:
    assert decide(said(PASSED), ratio=ratio, max_ratio=max_ratio) is verdict


def test_decide__a_ratio_cures_no_doubt() -> None:
    assert decide(said(DOUBT), ratio=1.0, max_ratio=1.5) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("promise", [Verdict.ACCEPTED, Verdict.PASSED])
def test_decide__promises_what_it_is_told_and_only_where_nothing_stands_against_it(
    promise: Verdict,
) -> None:
    assert decide(said(PASSED), promise=promise) is promise
    assert decide(said(DOUBT), promise=promise) is Verdict.INCONCLUSIVE
    assert decide(said(NO), promise=promise) is Verdict.REJECTED


def test_decide__judgements_may_come_one_by_one() -> None:
    assert decide(iter(said(PASSED, NO))) is Verdict.REJECTED
