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


def test_class_of__stored_rows_know_the_origin() -> None:
    stored = TransformRecord()
    assert stored.through is HalfspaceClass.ORIGIN
    assert stored.class_of(Halfspace((3.0, 1.0))) is HalfspaceClass.ORIGIN
    assert stored.class_of(Halfspace((3.0, 1.0), 1e-300)) is HalfspaceClass.ANY


@pytest.mark.parametrize("seed", range(20))
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


def test_class_of__through_the_origin_is_not_through_the_centre() -> None:
    whitened = TransformRecord(Transform.ISOTROPIC, (3.0, -1.0), ((1.0, 0.0), (0.0, 1.0)))
    assert whitened.class_of(Halfspace((1.0, 1.0))) is HalfspaceClass.ORIGIN
    assert whitened.class_of(Halfspace((1.0, 3.0))) is HalfspaceClass.CENTRE  # through both
    assert whitened.class_of(Halfspace((1.0, 1.0), 1.0)) is HalfspaceClass.ANY
    # a transform whose numbers are of other features vouches for nothing
    assert whitened.class_of(Halfspace((1.0,), 1.0)) is HalfspaceClass.ANY


def test_class_of__whitened_about_the_origin() -> None:
    about = TransformRecord(Transform.ISOTROPIC, (0.0, 0.0), ((1.0, 0.0), (0.0, 1.0)))
    assert about.whitened
    assert about.through is HalfspaceClass.ORIGIN
    assert about.class_of(Halfspace((1.0, 2.0))) is HalfspaceClass.ORIGIN
    assert about.class_of(Halfspace((1.0, 2.0), 1e-9)) is HalfspaceClass.ANY


def test_label_errors__rates_and_the_constant_guess() -> None:
    found = LabelErrors(100, 900, 50, 10)
    assert (found.guess, found.guess_error) == (-1, 0.1)
    assert found.rates == (0.5, 10 / 900)
    assert found.balanced == pytest.approx((0.5 + 10 / 900) / 2)
    assert LabelErrors(900, 100, 0, 0).guess == 1
