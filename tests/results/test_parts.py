"""The one ranking of test_results, and the classes of halfspaces."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.transforms import Isotropic
from streamhalf.kernels.plane import Plane
from streamhalf.results import (
    Halfspace,
    HalfspaceClass,
    LabelErrors,
    Outcome,
    TestResult,
    Transform,
    TransformRecord,
    overall_outcome,
    worst_of,
)


def judge(statistic: float, outcome: Outcome = Outcome.PASSED, limit: float = 0.3) -> TestResult:
    return TestResult("quadratics", outcome, statistic, limit, 0.1, 100)


def test_worst__looks_at_the_outcome_first_then_at_the_share_of_the_limit() -> None:
    extra, open_ = judge(30.0, Outcome.NOT_JUDGED), judge(0.15, Outcome.INCONCLUSIVE)
    rejected = judge(0.1, Outcome.REJECTED)
    assert worst_of([]) is None
    assert worst_of([extra]) is None  # it had no say
    assert worst_of([extra, judge(0.1), judge(0.2)]) == judge(0.2)
    assert worst_of([judge(0.2), judge(0.1, limit=0.1)]) == judge(0.1, limit=0.1)
    assert worst_of([judge(0.1), open_, judge(0.2)]) == open_
    assert worst_of([judge(0.2), rejected, open_]) == rejected
    assert worst_of([rejected, judge(9.0, Outcome.REJECTED)]) == judge(9.0, Outcome.REJECTED)
    assert judge(1.0, limit=0.0).share == 1.0  # no division


def test_overall_outcome__is_that_of_the_worst() -> None:
    outcomes = (Outcome.PASSED, Outcome.NOT_JUDGED, Outcome.INCONCLUSIVE, Outcome.REJECTED)
    test_results = tuple(judge(1.0, outcome) for outcome in outcomes)
    assert overall_outcome(()) is Outcome.PASSED
    assert overall_outcome(test_results[1:2]) is Outcome.PASSED
    assert overall_outcome(test_results[:3]) is Outcome.INCONCLUSIVE
    assert overall_outcome(test_results) is Outcome.REJECTED


def test_within__a_class_is_one_of_itself_and_of_all() -> None:
    assert HalfspaceClass.ORIGIN.within(HalfspaceClass.ORIGIN)
    assert HalfspaceClass.ORIGIN.within(HalfspaceClass.ANY)
    assert not HalfspaceClass.ORIGIN.within(HalfspaceClass.CENTRE)
    assert not HalfspaceClass.ANY.within(HalfspaceClass.CENTRE)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("far", [1.0, 1e6])
def test_class_of__a_plane_that_comes_back_is_through_the_centre(seed: int, far: float) -> None:
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 40))
    row_transform = Isotropic(far * rng.standard_normal(dim), rng.standard_normal((dim, dim)))
    back = Halfspace.of(row_transform.to_stored(Plane(rng.standard_normal(dim)).unit()))
    record = row_transform.record
    assert record.through is HalfspaceClass.CENTRE
    assert record.class_of(back) is HalfspaceClass.CENTRE
    # whatever its length, and however the sums were made
    scaled = Halfspace(tuple(0.3 * one for one in back.normal), 0.3 * back.offset)
    assert record.class_of(scaled) is HalfspaceClass.CENTRE
    terms = [-one * mean for one, mean in zip(back.normal, record.centre, strict=True)]
    assert record.class_of(Halfspace(back.normal, sum(terms[::-1]))) is HalfspaceClass.CENTRE
    # a threshold of a billionth of what margins are made of is one
    size = float(np.abs(back.normal) @ np.abs(record.centre))
    moved = Halfspace(back.normal, back.offset + 1e-9 * size)
    assert record.class_of(moved) is HalfspaceClass.ANY


@pytest.mark.parametrize(
    ("centre", "halfspace", "expected"),
    [
        ((), Halfspace((3.0, 1.0)), HalfspaceClass.ORIGIN),
        ((), Halfspace((3.0, 1.0), 1e-300), HalfspaceClass.ANY),
        ((3.0, -1.0), Halfspace((1.0, 1.0)), HalfspaceClass.ORIGIN),
        ((3.0, -1.0), Halfspace((1.0, 3.0)), HalfspaceClass.CENTRE),  # through both
        ((3.0, -1.0), Halfspace((1.0, 1.0), 1.0), HalfspaceClass.ANY),
        ((3.0, -1.0), Halfspace((1.0,), 1.0), HalfspaceClass.ANY),  # of other features
        ((0.0, 0.0), Halfspace((1.0, 2.0)), HalfspaceClass.ORIGIN),
        ((0.0, 0.0), Halfspace((1.0, 2.0), 1e-9), HalfspaceClass.ANY),
    ],
)
def test_class_of__is_the_smallest(centre: tuple[float, ...], halfspace: Halfspace, expected: HalfspaceClass) -> None:
    record = TransformRecord(Transform.ISOTROPIC, centre, ((1.0, 0.0), (0.0, 1.0))) if centre else TransformRecord()
    assert record.through is (HalfspaceClass.CENTRE if any(centre) else HalfspaceClass.ORIGIN)
    assert record.class_of(halfspace) is expected


def test_label_errors__rates_and_the_constant_guess() -> None:
    found = LabelErrors(100, 900, 50, 10)
    assert (found.guess, found.guess_error) == (-1, 0.1)
    assert found.rates == (0.5, 10 / 900)
    assert found.balanced == pytest.approx((0.5 + 10 / 900) / 2)
    assert LabelErrors(900, 100, 0, 0).guess == 1
