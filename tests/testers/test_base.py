"""Shared parts of testers, and the laws that each obeys."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Frame
from streamhalf.reductions.row_view import RowView, Sample, Viewed
from streamhalf.results import Evidence, Named, Outcome, Role, Stage, TestResult
from streamhalf.testers import TESTERS, WORDS, TesterSet
from streamhalf.testers.base import MOST_ROWS, judged, rows_until, thinning
from tests.testers.contexts import make_context

PASSES = (Stage.INITIAL, Stage.UPDATE, Stage.FINAL)


@pytest.mark.parametrize(
    ("statistic", "quantile", "outcome"),
    [
        (0.05, 0.01, Outcome.PASSED),
        (0.05, 0.5, Outcome.PASSED),
        (0.1, 0.01, Outcome.PASSED),
        (0.2, 0.5, Outcome.INCONCLUSIVE),
        (0.5, 0.5, Outcome.INCONCLUSIVE),
        (0.2, 0.15, Outcome.REJECTED),
        (0.6, 0.5, Outcome.REJECTED),
        (math.nan, 0.5, Outcome.REJECTED),
        (math.inf, 0.5, Outcome.REJECTED),
    ],
)
def test_judged__has_three_outcomes(statistic: float, quantile: float, outcome: Outcome) -> None:
    rows = {"n_rows": 9, "rows_needed": lambda: 77, "evidence": ()}
    assert judged("toy", statistic=statistic, limit=0.1, null_quantile=quantile, **rows).outcome is outcome


def test_rows_until__is_the_smallest_number() -> None:
    assert rows_until(lambda n: 1 / math.sqrt(n), 0.1) == 100
    assert rows_until(lambda n: 0.0, 0.1) == 1


def test_rows_until__is_more_than_any_data_set_has_where_no_number_is_enough() -> None:
    assert rows_until(lambda n: 1.0, 0.1) == MOST_ROWS


def test_thinning__is_never_0() -> None:
    assert thinning(0.0) == 1
    assert thinning(-1.5) == thinning(1.5) == pytest.approx(math.exp(-1.125))
    assert 0 < thinning(1e200) == thinning(50.0)


def test_judgement__works_rows_out_only_where_it_cannot_tell() -> None:
    asked: list[int] = []

    def rows_needed() -> int:
        asked.append(1)
        return 77

    evidence = (Evidence(Named("this"), 1.0, 0.0, 1.0, 0.1),)
    for statistic, wanted in ((0.05, None), (0.2, 77), (0.9, None)):
        found = judged(
            "toy",
            statistic=statistic,
            limit=0.1,
            null_quantile=0.5,
            n_rows=9,
            rows_needed=rows_needed,
            evidence=evidence,
            candidate=4,
        )
        assert found.rows_needed == wanted
        assert (found.tester, found.n_rows, found.evidence) == ("toy", 9, evidence)
        assert (found.candidate, found.role) == (4, Role.REQUIRED)
    assert len(asked) == 1


def test_judgement__numbers_are_finite_whatever_was_measured() -> None:
    found = judged(
        "toy", statistic=math.nan, limit=0.1, null_quantile=math.inf, n_rows=1, rows_needed=lambda: 1, evidence=()
    )
    assert found.outcome is Outcome.REJECTED
    assert math.isfinite(found.statistic)
    assert math.isfinite(found.null_quantile)


def test_registry__names_are_distinct_and_have_words() -> None:
    assert len({tester.name for tester in TESTERS}) == len(TESTERS)
    assert sum(len(tester.words) for tester in TESTERS) == len(WORDS)
    for words in WORDS.values():
        assert words.asks.rstrip(".").count("?") == 1
        assert all(re.match(r"[A-Z].*\.$", said) for said in (words.failure, words.remedy))


def rows_of(kind: str, n_rows: int) -> np.ndarray:
    X = np.random.default_rng(4).standard_normal((n_rows, 3))
    return {"gaussian": X, "heavy": X**3, "shifted": X + 1}[kind]


def judge_block(tester: Any, X: np.ndarray, frame: Frame | None) -> tuple[TestResult, ...]:
    block = Block(X, np.where(X[:, 0] >= 0, 1, -1).astype(np.int8), np.arange(len(X)))
    needs = tester.needs()
    if frame is None:
        return tester.judge(needs.finalize(needs.map(block)), n_seen=len(X))
    local = Viewed(needs, RowView(Sample(1, 1), accept=frame))
    found = local.finalize(local.map(block))
    return tester.judge(found.inner, n_seen=found.n_seen)


@pytest.mark.parametrize("stage", PASSES)
@pytest.mark.parametrize("kind", ["gaussian", "heavy", "shifted"])
@pytest.mark.parametrize("n_rows", [300, 20_000])
def test_tester__every_name_in_a_judgement_has_words(stage: Stage, kind: str, n_rows: int) -> None:
    context = make_context(stage, n_rows=n_rows)
    for tester in TesterSet.of(TESTERS, context).testers:
        found = judge_block(tester, rows_of(kind, n_rows), context.frame)
        assert isinstance(found, tuple)
        assert found
        assert {one.tester for one in found} <= set(tester.words)
        assert all(one.evidence for one in found)
        if tester.share == 0:  # it spends nothing, so it may not reject
            assert all(one.outcome is not Outcome.REJECTED for one in found)


@pytest.mark.parametrize("stage", PASSES)
def test_tester__gaussian_rows_are_not_rejected_and_others_are(stage: Stage) -> None:
    # Gaussian rows with probability at most tau = 0.008, for this seed not
    context = make_context(stage)
    tester_set = TesterSet.of(TESTERS, context)
    outcomes = {
        kind: {
            one.outcome
            for tester in tester_set.testers
            for one in judge_block(tester, rows_of(kind, 20_000), context.frame)
        }
        for kind in ("gaussian", "heavy", "shifted")
    }
    assert Outcome.REJECTED not in outcomes["gaussian"]
    assert Outcome.REJECTED in outcomes["heavy"]
    assert Outcome.REJECTED in outcomes["shifted"]


@pytest.mark.parametrize("stage", PASSES)
def test_tester__is_asked_where_it_says_it_is(stage: Stage) -> None:
    names = {tester.name for tester in TesterSet.of(TESTERS, make_context(stage)).testers}
    ours = {
        Stage.INITIAL: {"moments", "order of rows"},
        Stage.UPDATE: {"acceptance", "moments"},
        Stage.FINAL: {"slab mass", "slab covariance", "wedge"},
    }
    assert names >= ours[stage]
    assert not names & (set().union(*ours.values()) - ours[stage])


@pytest.mark.parametrize("stage", PASSES)
def test_registry__what_testers_spend_is_the_pass_tau_at_most(stage: Stage) -> None:
    # each candidate of the final pass costs its own share; an advisory tester never rejects
    context = make_context(stage)
    testers = TesterSet.of(TESTERS, context).testers
    count = context.most_candidates if stage is Stage.FINAL else 1
    spent = sum(count * tester.tau for tester in testers if tester.share > 0)
    assert 0.7 * context.tau <= spent <= context.tau * (1 + 1e-12)
