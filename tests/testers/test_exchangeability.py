from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from streamhalf.config import RunConfig
from streamhalf.data.block import Block
from streamhalf.kernels.streams import Stream, uniforms_at
from streamhalf.reductions import SegmentScatter
from streamhalf.reductions.base import Reduction
from streamhalf.results import Outcome, Role, SegmentMean, SegmentQuantity, Stage, TestResult
from streamhalf.testers.base import Context
from streamhalf.testers.exchangeability import ExchangeabilityTester, order_notice


def make_tester(total_rows: int, dim: int, *, n_rows: int | None = None, tau: float = 0.01) -> ExchangeabilityTester:
    rows = partial(Context, n_rows=total_rows if n_rows is None else n_rows, total_rows=total_rows)
    context = rows(stage=Stage.INITIAL, config=RunConfig(), dim=dim, eps=0.1, tau=tau)
    tester = ExchangeabilityTester.of(context)
    assert tester is not None
    return tester


def judge(X: np.ndarray, y: np.ndarray, *, share: float = 1.0, windows: int = 0, tau: float = 0.01) -> TestResult:
    """Result of the tester on all rows, or of a share of them: single ones, or in windows."""
    tester = make_tester(len(y), X.shape[1], n_rows=round(share * len(y)), tau=tau)
    scatter: Reduction = tester.needs()
    assert isinstance(scatter, SegmentScatter)
    block = Block(X, y.astype(np.int8), np.arange(len(y)))
    if share < 1:
        numbers = block.rows // max(1, windows)
        block = block.select(uniforms_at(1, Stream.SHARES, numbers) < share)
    (test_result,) = tester.judge(scatter.finalize(scatter.map(block)), n_seen=len(y))
    assert test_result.role is Role.ADVISORY
    assert test_result.outcome in (Outcome.PASSED, Outcome.NOT_JUDGED)  # never of the marginal
    assert (test_result.outcome is Outcome.PASSED) == (test_result.statistic <= test_result.limit)
    return test_result


def subject(test_result: TestResult) -> SegmentMean:
    (evidence,) = test_result.evidence
    assert isinstance(evidence.subject, SegmentMean)
    return evidence.subject


def draw(n_rows: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, dim])
    X = rng.standard_normal((n_rows, dim))
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(n_rows) >= 0, 1, -1)


@pytest.mark.parametrize(
    ("total_rows", "dim", "n_rows", "n_segments"),
    [
        (10**9, 10, 10**6, 256),
        (10**9, 10, 3_200, 100),
        (10**9, 1_000, 10**6, 65),  # of very many features fewer segments, for memory
        (10**9, 10**5, 10**6, 16),
        (20, 3, 20, 1),
    ],
)
def test_exchangeability__segments_fit_rows_and_features(
    total_rows: int, dim: int, n_rows: int, n_segments: int
) -> None:
    scatter = make_tester(total_rows, dim, n_rows=n_rows).needs()
    assert (scatter.total_rows, scatter.n_segments) == (total_rows, n_segments)
    assert scatter.partial_nbytes(10) < 2**20


def test_exchangeability__speaks_in_the_first_pass_alone() -> None:
    rows = partial(Context, config=RunConfig(), dim=2, n_rows=900, total_rows=900, eps=0.1, tau=0.1)
    said = [stage for stage in Stage if ExchangeabilityTester.of(rows(stage=stage)) is not None]
    assert said == [Stage.INITIAL]


LAWS = {
    "normal": lambda rng, X: X,
    "Student, 5 degrees": lambda rng, X: X / np.sqrt(rng.chisquare(5, (len(X), 1)) / 5),
    "Cauchy": lambda rng, X: X / np.abs(rng.standard_normal((len(X), 1))),
    "far from 0": lambda rng, X: X + 1_000,
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("n_rows", "dim"), [(600, 2), (9_000, 6)])
@pytest.mark.parametrize("rare", [False, True])
def test_exchangeability__shuffled_rows_pass(law: str, n_rows: int, dim: int, rare: bool) -> None:
    """It fails with probability at most 5%: more than 9 of 50 has probability 1e-4."""
    outcomes = []
    for seed in range(50):
        rng = np.random.default_rng([seed, dim, n_rows])
        X, y = draw(n_rows, dim, seed)
        if rare:  # one label in a hundred is +1
            y = np.where(rng.random(n_rows) < 0.01, 1, -1)
        outcomes.append(judge(LAWS[law](rng, X), y, tau=0.05).outcome)
    assert outcomes.count(Outcome.PASSED) >= 50 - 9


@pytest.mark.parametrize("windows", [0, 64])
def test_exchangeability__shares_of_shuffled_rows_pass(windows: int) -> None:
    """It fails with probability at most 5%: more than 9 of 50 has probability 1e-4."""
    outcomes = [judge(*draw(12_000, 3, seed), share=0.2, windows=windows, tau=0.05).outcome for seed in range(50)]
    assert outcomes.count(Outcome.PASSED) >= 50 - 9


def test_exchangeability__power_on_sorted_labels() -> None:
    X, y = draw(4_000, 3, seed=1)
    order = np.argsort(y, kind="stable")
    test_result = judge(X[order], y[order])
    assert test_result.outcome is Outcome.NOT_JUDGED
    assert subject(test_result).quantity is SegmentQuantity.LABEL
    assert subject(test_result).feature is None
    assert subject(test_result).segments == 125
    (evidence,) = test_result.evidence
    assert abs(evidence.observed) == 1
    assert evidence.expected == pytest.approx(y.mean())
    # all variance is between segments: 32 rows of each are as good as one
    assert evidence.deviation == test_result.statistic == pytest.approx(32, rel=0.05)
    assert evidence.limit == test_result.limit < 3


def test_exchangeability__power_on_noise_in_half_of_the_rows() -> None:
    X, _ = draw(40_000, 3, seed=7)
    y = np.where(X[:, 0] >= 0, 1, -1)
    y[:20_000] *= np.where(np.random.default_rng(7).random(20_000) < 0.1, -1, 1)
    assert subject(judge(X, y)).quantity is SegmentQuantity.PRODUCT


@pytest.mark.parametrize(("windows", "noticed"), [(0, False), (1_024, True)])
def test_exchangeability__order_within_small_pieces_is_noticed_by_windows_alone(windows: int, noticed: bool) -> None:
    # sorted by label within 64 pieces, four to a segment: single rows come from all of them
    X, y = draw(400_000, 2, seed=8)
    pieces = np.arange(400_000) * 64 // 400_000
    order = np.lexsort((y, pieces))
    test_result = judge(X[order], y[order], share=0.002 if windows == 0 else 0.1, windows=windows)
    assert (order_notice(test_result) is not None) == noticed


def test_exchangeability__one_strange_segment_is_named() -> None:
    X, y = draw(3_200, 2, seed=4)
    X[512:544] += 3
    assert subject(judge(X, y)).segment == 16  # the seventeenth, counted from 0


@pytest.mark.parametrize("n_rows", [0, 1, 40, 63])
def test_exchangeability__too_few_rows_have_no_segments(n_rows: int) -> None:
    test_result = judge(*draw(n_rows, 2, seed=5)) if n_rows else empty_judgement()
    assert test_result.outcome is Outcome.PASSED
    assert (test_result.statistic, test_result.n_rows) == (0, n_rows)
    assert order_notice(test_result) is None


def empty_judgement() -> TestResult:
    tester = make_tester(1_000, 2)
    (test_result,) = tester.judge(tester.needs().finalize(tester.needs().empty(2)), n_seen=0)
    return test_result


@pytest.mark.parametrize("scale", [1e120, 1e-120])
def test_exchangeability__constants_and_powers_out_of_range_say_nothing(scale: float) -> None:
    X, y = draw(2_000, 3, seed=9)
    X[:, 1], X[:, 2] = 0.1, scale * np.sort(X[:, 2])
    test_result = judge(X, np.ones_like(y))
    assert test_result.outcome is Outcome.PASSED
    assert np.isfinite([test_result.statistic, test_result.limit]).all()


@pytest.mark.parametrize("key", ["length", "feature", "labels"])
def test_exchangeability__names_what_the_rows_are_sorted_by(key: str) -> None:
    X, y = draw(8_000, 3, seed=6)
    if key == "labels":  # as many labels of each kind and as long rows everywhere: only y x tells the halves apart
        y = np.where(X[:, 1] >= 0, 1, -1) * np.where(np.arange(8_000) < 4_000, 1, -1)
    else:
        order = np.argsort(np.linalg.norm(X, axis=1) if key == "length" else X[:, 2] >= 0, kind="stable")
        X, y = X[order], y[order]
    quantity, feature = {
        "length": (SegmentQuantity.NORM, None),
        "feature": (SegmentQuantity.FEATURE, 2),
        "labels": (SegmentQuantity.PRODUCT, 1),
    }[key]
    found = subject(judge(X, y))
    assert (found.quantity, found.feature) == (quantity, feature)
