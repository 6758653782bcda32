"""Records of `plan`."""

from __future__ import annotations

import itertools
import math

import pytest

import streamhalf
from streamhalf import RunConfig, UsageError
from streamhalf.algorithms.plan import REFINING_ROWS, SCANNED_ROWS, plan_for_eps, plan_for_rows
from streamhalf.algorithms.plan_overview import make_plan
from streamhalf.config import LARGEST_EPS
from streamhalf.results import replace
from streamhalf.testers.moments import WIDE_DIM

DEFAULT = RunConfig()


def test_make_plan__passes_sum_to_what_is_read() -> None:
    config = RunConfig(sampling="rows")
    record = make_plan(dim=4, n_rows=400_000, row_nbytes=17, config=config)
    plan = plan_for_rows(400_000, 4, config)
    names = [one.name for one in record.passes]
    assert (names[0], names[-1]) == ("initial", "final")
    assert names[-3:-1] == ["refine", "thresholds"]
    assert [one.delta for one in record.passes[1:-3]] == list(plan.deltas)
    assert record.nbytes == sum(one.nbytes for one in record.passes)
    # single rows: every pass reads all of them
    assert {one.nbytes for one in record.passes} == {17 * 400_000}
    learning = plan.n_rows - plan.final_rows
    assert sum(one.rows for one in record.passes[:-3]) <= learning == record.passes[-2].rows
    assert record.passes[-1].rows == plan.final_rows
    assert record.conclusive
    assert (record.rows, record.dim, record.eps) == (400_000, 4, plan.eps)
    assert record.memory_nbytes > 0
    assert not record.sketched


def test_make_plan__windows_are_read_with_the_rows_that_are_held_out_in_them() -> None:
    record = make_plan(dim=4, n_rows=10**7, row_nbytes=17, config=DEFAULT)
    *learning, refine, scan, final = record.passes
    assert final.nbytes == 17 * 10**7
    assert (refine.rows, scan.rows) == (REFINING_ROWS, SCANNED_ROWS)
    for one in (*learning, refine, scan):
        assert one.nbytes == pytest.approx(2 * 17 * one.rows, rel=1e-3)
    assert sum(one.nbytes for one in learning) <= final.nbytes


def test_make_plan__the_rows_that_it_names_are_enough() -> None:
    for eps, dim in itertools.product((0.1, 0.02), (2, 8)):
        needed = streamhalf.plan(dim=dim, eps=eps).rows_needed
        again = streamhalf.plan(dim=dim, eps=eps, n_rows=needed)
        assert again.conclusive
        assert not streamhalf.plan(dim=dim, eps=eps, n_rows=needed - 1).conclusive


def test_make_plan__says_when_rows_do_not_suffice() -> None:
    record = streamhalf.plan(dim=4, n_rows=1_000)
    assert not record.conclusive
    least = plan_for_eps(LARGEST_EPS, 4, DEFAULT).required_rows
    assert record.rows == 1_000 < record.rows_needed == least


@pytest.mark.parametrize("dim", [WIDE_DIM, WIDE_DIM + 1, 1_000])
def test_make_plan__wide_data_are_sketched_and_support_no_constant(dim: int) -> None:
    record = streamhalf.plan(dim=dim, n_rows=30_000_000)
    assert record.sketched == (dim > WIDE_DIM)
    assert record.conclusive
    assert bool(record.promises) == (dim <= WIDE_DIM)


def test_make_plan__a_rare_label_takes_more_rows_and_has_no_constant() -> None:
    found = [streamhalf.plan(dim=5, n_rows=10**6, positive=one) for one in (0.5, 0.3, 0.1)]
    assert [one.positive for one in found] == [0.5, 0.3, 0.1]
    assert all(one.conclusive for one in found)
    assert found[0].eps == streamhalf.plan(dim=5, n_rows=10**6).eps < found[1].eps < found[2].eps
    assert found[0].promises
    assert not found[1].promises
    assert found[2].rare_rows_needed == math.ceil(0.1 * found[2].rows_needed)
    assert found[2] == replace(streamhalf.plan(dim=5, n_rows=10**6, positive=0.9), positive=0.1)
    few = streamhalf.plan(dim=5, n_rows=10**6, positive=0.001)
    assert not few.conclusive
    assert few.rows == 10**6 < few.rows_needed
    assert few.passes[-1].rows >= few.rows_needed // 2


@pytest.mark.parametrize("positive", [0.3, 0.05])
def test_make_plan__the_rows_that_it_names_are_enough_with_a_threshold(positive: float) -> None:
    given = {"dim": 4, "eps": 0.2, "positive": positive, "sampling": "reuse"}
    needed = streamhalf.plan(**given)
    assert needed.conclusive
    assert needed.rows == needed.rows_needed > streamhalf.plan(dim=4, eps=0.2).rows_needed
    assert not streamhalf.plan(**given, n_rows=needed.rows * 9 // 10).conclusive


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dim": 3, "n_rows": 9, "positive": 0.0}, "positive: 0.0 given; must be above 0 and"),
        ({"dim": 3, "n_rows": 9, "positive": 1.0}, "positive: 1.0 given; must be above 0 and"),
        (
            {"dim": 3, "n_rows": 9, "positive": 0.1, "through": "centre"},
            "positive: 0.1 given, but through is 'centre': halfspaces through one point have no",
        ),
        ({"dim": 0, "n_rows": 10}, "dim: 0 given; must be at least 1"),
        ({"dim": 3, "n_rows": 0}, "rows: 0 given; must be at least 1"),
        ({"dim": -1}, "dim: -1 given; must be at least 1"),
        ({"dim": 3}, "eps: 'auto' needs a number of rows; give rows, or an eps"),
        ({"dim": 3, "eps": 0.3}, "eps: 0.3 is out of range; use 1e-06 to 0.25"),
        ({"dim": 3, "eps": 0.1, "rowz": 1}, "configuration: unknown parameter 'rowz'; did you"),
    ],
)
def test_plan__names_what_is_wrong(parameters: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        streamhalf.plan(**parameters)
    assert str(caught.value).startswith(message)
