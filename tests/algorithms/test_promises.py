"""What tests of the steps promise, what a plan may expect of them, and every way to a verdict."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest

from streamhalf import RunConfig
from streamhalf.algorithms.decide import decide
from streamhalf.algorithms.plan import plan_for_eps, plan_for_rows
from streamhalf.algorithms.promises import (
    GOOD_CONSTANT,
    StepOutcome,
    as_refinement,
    best_promise,
    expected_promises,
    promises,
    rows_for_good_constant,
)
from streamhalf.results import Outcome, PromiseRecord, Role, TestResult, Verdict
from streamhalf.testers.constants import FINEST_SCALE, constant_by_scale


def make_result(outcome: Outcome = Outcome.PASSED, role: Role = Role.REQUIRED) -> TestResult:
    return TestResult("a test", outcome, 0.1, 0.2, 0.1, 1_000, role=role)


def step(delta: float, deviation: float | None = 0.1, outcome: Outcome = Outcome.PASSED) -> StepOutcome:
    return StepOutcome(delta, (make_result(outcome),), deviation)


def test_promises__one_for_every_scale_of_an_update_that_passed() -> None:
    found = promises([step(1.0), step(0.5), step(0.25)])
    assert [(one.delta, one.eps) for one in found] == [(0.5, 0.25), (0.25, 0.125)]


def test_promises__a_constant_rests_on_every_scale_so_far() -> None:
    deviations = {1.0: 0.01, 0.5: 0.02, 0.25: 0.01, 0.125: 0.03}
    found = promises([step(*one) for one in deviations.items()])
    assert [one.deviation for one in found] == [0.02, 0.01, 0.03]
    for one in found:
        above = {delta: value for delta, value in deviations.items() if delta >= one.delta}
        assert one.constant == constant_by_scale(above, masses_off=math.inf)
        assert one.masses_off is None


def test_promises__end_before_a_step_that_did_not_pass() -> None:
    doubt = step(0.25, outcome=Outcome.INCONCLUSIVE)
    assert [one.delta for one in promises([step(1.0), step(0.5), doubt, step(0.125)])] == [0.5]
    assert promises([step(1.0, outcome=Outcome.INCONCLUSIVE), step(0.5)]) == ()


def test_promises__a_scale_that_was_repeated_needs_every_repetition() -> None:
    doubt = step(0.5, outcome=Outcome.INCONCLUSIVE)
    assert promises([step(1.0), step(0.5), doubt]) == ()
    assert promises([step(1.0), doubt, step(0.5)]) == ()
    assert len(promises([step(1.0), step(0.5), step(0.5, 0.2)])) == 1


def test_promises__doubts_of_an_extra_test_do_not_end_them() -> None:
    extra = StepOutcome(0.5, (make_result(Outcome.INCONCLUSIVE, Role.EXTRA),), 0.4)
    assert [one.deviation for one in promises([step(1.0), extra])] == [0.4]


def test_promises__no_constant_without_a_test_in_every_direction() -> None:
    for steps in ([step(1.0, None), step(0.5)], [step(1.0), step(0.5, None)]):
        assert promises(steps) == (PromiseRecord(0.5, 0.25, None, None),)


def test_promises__none_where_the_quadratics_leave_room_for_any_constant() -> None:
    assert math.isinf(constant_by_scale({1.0: 0.01, 0.5: 1e6}, masses_off=0.01))
    assert promises([step(1.0, 0.01), step(0.5, 1e6)]) == ()


FINE = PromiseRecord(0.02, 0.01, 0.5, 20.0)
COARSE = PromiseRecord(0.2, 0.1, 0.2, 5.0)


@pytest.mark.parametrize(("error", "expected"), [(0.001, FINE), (0.05, COARSE)])
def test_best_promise__weighs_the_constant_against_eps(error: float, expected: PromiseRecord) -> None:
    assert best_promise([COARSE, FINE], error=error, asked=None) is expected


def test_best_promise__is_as_fine_as_was_asked_for() -> None:
    assert best_promise([COARSE, FINE], error=0.05, asked=0.05) is FINE
    assert best_promise([COARSE], error=0.05, asked=0.05) is None


def test_best_promise__without_constants_is_the_finest() -> None:
    unknown = PromiseRecord(0.1, 0.05, None, None)
    coarser = PromiseRecord(0.2, 0.1, None, None)
    assert best_promise([coarser, unknown], error=0.05, asked=None) is unknown


def test_best_promise__one_with_a_constant_comes_before_all_without() -> None:
    finer = PromiseRecord(0.01, 0.005, 0.1, None)
    assert best_promise([COARSE, finer], error=0.05, asked=None) is COARSE
    assert best_promise([COARSE, finer], error=0.05, asked=0.01) is finer


def slab(scale: float, statistic: float, role: Role = Role.REQUIRED) -> TestResult:
    return TestResult("slab mass", Outcome.PASSED, statistic, 0.1, 0.02, 1_000, role=role, scale=scale)


def test_promises__rest_on_what_slab_masses_may_be_off_by() -> None:
    steps = [step(1.0), step(0.5), step(0.25), step(0.125)]
    test_results = [slab(0.1, 0.01), slab(0.1, 0.03), slab(0.1, 0.5, Role.EXTRA), make_result()]
    found = promises(steps, test_results)
    # statistic and quantile of the worst candidate; nothing is known of slabs narrower than 0.1
    assert [one.masses_off for one in found] == [pytest.approx(0.05), pytest.approx(0.05), None]
    for one in found:
        above = {delta: 0.1 for delta in (1.0, 0.5, 0.25, 0.125) if delta >= one.delta}
        off = math.inf if one.masses_off is None else one.masses_off
        assert one.constant == constant_by_scale(above, masses_off=off)
    narrow = promises(steps, [slab(0.05, 0.01)])
    assert [one.constant for one in narrow] <= [one.constant for one in found]
    assert narrow[-1].constant < found[-1].constant


def test_promises__below_the_tables_have_no_constant() -> None:
    deltas = [2.0**-k for k in range(8)]
    assert deltas[-1] < FINEST_SCALE
    found = promises([step(delta) for delta in deltas], [slab(0.001, 0.001)])
    assert [one.constant is None for one in found] == [delta < FINEST_SCALE for delta in deltas[1:]]
    assert found[-1].deviation == 0.1


def test_as_refinement__doubts_below_a_scale_that_passed_do_not_count() -> None:
    doubt = step(0.25, outcome=Outcome.INCONCLUSIVE)
    *_, last = as_refinement([step(1.0), step(0.5), doubt])
    assert (last.outcome, last.role) == (Outcome.NOT_JUDGED, Role.REFINEMENT)


def test_as_refinement__doubts_count_where_no_scale_passed_and_rejections_always_do() -> None:
    doubt, no = (step(0.5, outcome=one) for one in (Outcome.INCONCLUSIVE, Outcome.REJECTED))
    assert as_refinement([step(1.0), doubt])[-1].outcome is Outcome.INCONCLUSIVE
    rejected = StepOutcome(0.25, no.test_results, None)
    assert as_refinement([step(1.0), step(0.5), rejected])[-1].outcome is Outcome.REJECTED


def test_promises__no_constant_where_scales_are_left_out() -> None:
    assert promises([step(1.0), step(0.01)])[0].constant is None
    assert promises([step(1.0), step(0.5), step(0.26)])[-1].constant is not None


DEFAULT = RunConfig()


@pytest.mark.parametrize("dim", [1, 4, 30])
@pytest.mark.parametrize("n_rows", [10**6, 10**8])
def test_expected_promises__name_scales_of_the_plan_and_their_constants(dim: int, n_rows: int) -> None:
    plan = plan_for_rows(n_rows, dim, DEFAULT)
    found = expected_promises(plan, DEFAULT)
    assert found
    assert {one.delta for one in found} <= set(plan.deltas)
    assert all(one.eps == one.delta / 2 for one in found)
    assert min(one.eps for one in found) <= plan.eps
    assert all((one.constant is not None) == (one.delta >= FINEST_SCALE) for one in found)
    assert all(one.constant is None or one.constant >= 1 for one in found)
    assert all(one.deviation is not None and one.deviation > 0 for one in found)


def test_expected_promises__more_rows_support_better_constants() -> None:
    few, many = (
        expected_promises(replace(plan_for_rows(10**6, 4, DEFAULT), final_rows=rows), DEFAULT)
        for rows in (500_000, 2_000_000)
    )
    better = dict.fromkeys(one.delta for one in many)
    assert {one.delta for one in few} <= set(better)
    for one in few:
        other = next(more for more in many if more.delta == one.delta)
        assert other.constant <= one.constant
        assert other.deviation <= one.deviation


@pytest.mark.parametrize("parameters", [{"degree": 2}, {"degree": 6}])
def test_expected_promises__none_without_a_null_of_quadratics(parameters: dict) -> None:
    config = RunConfig(**parameters)
    assert expected_promises(plan_for_eps(0.1, 4, config), config) == ()


@pytest.mark.parametrize(("dim", "eps"), [(2, 0.048), (2, 0.1), (10, 0.082)])
def test_rows_for_good_constant__support_one_and_a_tenth_less_do_not(dim: int, eps: float) -> None:
    plan = plan_for_rows(400_000, dim, DEFAULT)
    found = rows_for_good_constant(plan, DEFAULT, eps)
    assert found is not None
    assert found > plan.n_rows
    constants = []
    for share in (1.02, 0.9):
        final = int(share * found / plan.n_rows * plan.final_rows)
        more = replace(plan, finest_delta=2 * eps, final_rows=final)
        constants.append(expected_promises(more, DEFAULT)[-1].constant)
    assert constants[0] <= 0.98 * GOOD_CONSTANT < constants[1]


def test_rows_for_good_constant__are_a_tenth_more_where_chance_alone_was_against_it() -> None:
    plan = plan_for_rows(2_000_000, 4, DEFAULT)
    assert rows_for_good_constant(plan, DEFAULT, 0.25) == 2_200_000


PASSED, DOUBT, NO, SILENT = (Outcome.PASSED, Outcome.INCONCLUSIVE, Outcome.REJECTED, Outcome.NOT_JUDGED)
UNSETTLED, USELESS, CERTIFIED = {"settled": False}, {"useful": False}, {"certified": True}
AS_TEST = {"promise": Verdict.PASSED}


@pytest.mark.parametrize(
    ("outcomes", "given", "verdict"),
    [
        ((), {}, Verdict.ACCEPTED),
        ((PASSED, PASSED), {}, Verdict.ACCEPTED),
        ((PASSED, SILENT), {}, Verdict.ACCEPTED),
        ((PASSED, DOUBT), {}, Verdict.INCONCLUSIVE),
        ((DOUBT, NO), {}, Verdict.REJECTED),
        ((NO, PASSED, PASSED), {}, Verdict.REJECTED),
        # the verdict of passing is what it is told
        ((PASSED,), AS_TEST, Verdict.PASSED),
        ((DOUBT,), AS_TEST, Verdict.INCONCLUSIVE),
        ((NO,), AS_TEST, Verdict.REJECTED),
        # what could not be settled is inconclusive, but a rejection stands
        ((PASSED,), UNSETTLED, Verdict.INCONCLUSIVE),
        ((), UNSETTLED, Verdict.INCONCLUSIVE),
        ((NO,), UNSETTLED, Verdict.REJECTED),
        # a certificate stands whatever the testers say, and the theorem is more
        ((DOUBT,), CERTIFIED, Verdict.CERTIFIED),
        ((NO,), CERTIFIED, Verdict.CERTIFIED),
        ((NO,), UNSETTLED | CERTIFIED, Verdict.CERTIFIED),
        ((), UNSETTLED | CERTIFIED, Verdict.CERTIFIED),
        ((PASSED,), CERTIFIED, Verdict.ACCEPTED),
        # what a constant guess can do is neither accepted nor certified
        ((PASSED,), USELESS, Verdict.INCONCLUSIVE),
        ((PASSED,), USELESS | CERTIFIED, Verdict.INCONCLUSIVE),
        ((DOUBT,), USELESS | CERTIFIED, Verdict.INCONCLUSIVE),
        ((NO,), USELESS | CERTIFIED, Verdict.REJECTED),
    ],
)
def test_decide(outcomes: tuple[Outcome, ...], given: dict[str, Any], verdict: Verdict) -> None:
    for order in itertools.permutations(outcomes):
        assert decide(map(make_result, order), **given) is verdict
