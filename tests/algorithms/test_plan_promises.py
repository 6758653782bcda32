"""Promises of a plan's tests, for Gaussian rows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from streamhalf import RunConfig
from streamhalf.algorithms.plan import plan_for_eps, plan_for_rows
from streamhalf.algorithms.promises import GOOD_CONSTANT, expected_promises, rows_for_good_constant
from streamhalf.testers.constants import FINEST_SCALE, constant_by_scale

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


def test_expected_promises__a_constant_rests_on_all_scales_above() -> None:
    plan = plan_for_rows(10**7, 4, DEFAULT)
    found = expected_promises(plan, DEFAULT)
    for i, one in enumerate(found):
        seen = {above.delta: above.deviation for above in found[: i + 1]}
        off = math.inf if one.masses_off is None else one.masses_off
        # that of all rows is the smallest, and changes nothing
        expected = constant_by_scale(seen, masses_off=off)
        assert (one.constant or math.inf) >= expected - 1e-9


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


def test_expected_promises__of_many_features_are_none() -> None:
    assert expected_promises(plan_for_eps(0.1, 65, DEFAULT), DEFAULT) == ()


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


def test_expected_promises__none_where_scales_are_left_out() -> None:
    config = RunConfig(schedule="halving")
    assert expected_promises(plan_for_rows(10**7, 2, config), config) == ()
