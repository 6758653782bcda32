"""Which promise the tests of the steps support, and which of several leads."""

from __future__ import annotations

import math

import pytest

from streamhalf.algorithms.promises import StepOutcome, as_refinement, best_promise, promises
from streamhalf.results import Outcome, PromiseRecord, Role, TestResult
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


def test_promises__a_repeated_scale_counts_with_its_worst() -> None:
    found = promises([step(1.0, 0.01), step(0.5, 0.01), step(0.5, 0.03), step(0.5, 0.02)])
    assert [one.deviation for one in found] == [0.03]


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
