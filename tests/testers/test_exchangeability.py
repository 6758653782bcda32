from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.records import Judgement, Outcome, Role, SegmentMean, SegmentQuantity
from streamhalf.reductions import SegmentScatter
from streamhalf.testers.exchangeability import ExchangeabilityTester

LAST = 31  # of 32 segments, counted from 0


def judge(X: np.ndarray, y: np.ndarray, tau: float = 0.01) -> Judgement:
    tester = ExchangeabilityTester(total_rows=len(y), tau=tau)
    scatter = tester.needs()
    assert isinstance(scatter, SegmentScatter)
    block = Block(X, y.astype(np.int8), np.arange(len(y)))
    (judgement,) = tester.judge(scatter.finalize(scatter.map(block)), n_seen=len(y))
    assert judgement.role is Role.ADVISORY
    return judgement


def subject(judgement: Judgement) -> SegmentMean:
    (evidence,) = judgement.evidence
    assert isinstance(evidence.subject, SegmentMean)
    return evidence.subject


def draw(n_rows: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, dim])
    X = rng.standard_normal((n_rows, dim))
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(n_rows) >= 0, 1, -1)


@pytest.mark.parametrize(("n_rows", "dim"), [(32 * 40, 2), (32 * 40, 20), (32 * 300, 4)])
def test_exchangeability__shuffled_rows_pass(n_rows: int, dim: int) -> None:
    # fails with probability at most 5% each: more than 22 of 150 has probability 2e-6
    outcomes = [judge(*draw(n_rows, dim, seed), tau=0.05).outcome for seed in range(150)]
    assert outcomes.count(Outcome.PASSED) >= 150 - 22


def test_exchangeability__power_on_sorted_labels() -> None:
    X, y = draw(4_000, 3, seed=1)
    order = np.argsort(y, kind="stable")
    judgement = judge(X[order], y[order])
    assert judgement.outcome is Outcome.NOT_JUDGED  # it never speaks against the marginal
    assert judgement.statistic > judgement.limit
    assert subject(judgement).quantity is SegmentQuantity.LABEL
    assert subject(judgement).feature is None
    (evidence,) = judgement.evidence
    assert abs(evidence.observed) == 1
    assert evidence.expected == pytest.approx(y.mean())
    assert evidence.deviation == judgement.statistic
    assert evidence.limit == judgement.limit


def test_exchangeability__power_on_rows_sorted_by_length() -> None:
    X, y = draw(4_000, 3, seed=2)
    order = np.argsort(np.linalg.norm(X, axis=1))
    judgement = judge(X[order], y[order])
    assert subject(judgement) == SegmentMean(LAST, SegmentQuantity.NORM)
    evidence = judgement.evidence[0]
    assert evidence.observed > 2 * evidence.expected == pytest.approx(6, abs=0.4)


def test_exchangeability__power_on_labels_that_turn_around() -> None:
    # as many labels of each kind and as long rows everywhere: only y x tells the halves apart
    X = np.random.default_rng(3).standard_normal((8_000, 3))
    y = np.where(X[:, 1] >= 0, 1, -1) * np.where(np.arange(8_000) < 4_000, 1, -1)
    judgement = judge(X, y)
    assert judgement.outcome is Outcome.NOT_JUDGED
    assert subject(judgement).quantity is SegmentQuantity.PRODUCT
    assert subject(judgement).feature == 1  # x2, counted from 0


def test_exchangeability__one_strange_segment_is_named() -> None:
    X, y = draw(3_200, 2, seed=4)
    X[500:600] += 3
    assert subject(judge(X, y)).segment == 5  # the sixth, counted from 0


def test_exchangeability__too_few_rows_have_no_segments() -> None:
    judgement = judge(*draw(100, 2, seed=5))
    assert judgement.outcome is Outcome.PASSED
    assert (judgement.statistic, judgement.n_rows) == (0, 0)
