from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf import RunConfig
from streamhalf.algorithms.plan import RunPlan, plan_for_eps, plan_for_rows
from streamhalf.config import LARGEST_EPS, SMALLEST_EPS
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.results import Sampling, Stage
from streamhalf.testers import TESTERS, TesterSet
from streamhalf.testers.acceptance import AcceptanceTester
from streamhalf.testers.moments import WIDE_DIM, MomentTester
from streamhalf.testers.slabs import SlabCovarianceTester, SlabMassTester
from streamhalf.testers.wedge import WedgeTester

DEFAULT = RunConfig()
DIMS = (1, 2, 10, 64, 100)


def least_rows(dim: int, config: RunConfig = DEFAULT) -> int:
    """Rows with which the coarsest scale can be judged."""
    return plan_for_eps(LARGEST_EPS, dim, config).required_rows


def panel_of(plan: RunPlan, stage: Stage, config: RunConfig = DEFAULT, *, delta: float = 0.5) -> TesterSet:
    """The testers of a pass, as the pass makes them."""
    context = plan.context(stage, config)
    if stage is Stage.UPDATE:
        context = replace(context, frame=Frame(Plane(np.eye(1, plan.dim)[0]), delta))
    if plan.dim > WIDE_DIM and stage is not Stage.FINAL:
        context = replace(context, directions=np.zeros((24, plan.dim)))
    return TesterSet.of(TESTERS, context)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("rows", ["auto", "reuse"])
def test_plan_for_eps__smaller_eps_needs_more_rows(dim: int, rows: str) -> None:
    config = RunConfig(sampling=rows)
    wanted = [plan_for_eps(eps, dim, config).required_rows for eps in np.geomspace(0.01, 0.25, 25)]
    assert all(fine >= coarse for fine, coarse in itertools.pairwise(wanted))
    # 25 times finer takes about as many times the rows
    assert 7 * wanted[-1] < wanted[0] < 27 * wanted[-1]


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("eps", [0.002, 0.02, 0.1, 0.25])
def test_plan_for_eps__every_tester_of_the_final_pass_is_conclusive(dim: int, eps: float) -> None:
    plan = plan_for_eps(eps, dim, DEFAULT)
    final = panel_of(plan, Stage.FINAL)
    for kind in (SlabMassTester, SlabCovarianceTester, WedgeTester):
        assert final.find(kind).rows_needed() <= plan.final_rows
    assert final.find(WedgeTester).eps == eps
    initial = panel_of(plan, Stage.INITIAL)
    assert initial.rows_needed() <= plan.tested_rows <= plan.rows_for_step(1.0)
    for delta in plan.deltas:
        update = panel_of(plan, Stage.UPDATE, delta=delta)
        n_rows = plan.rows_for_step(delta)
        assert n_rows <= plan.final_rows
        assert update.find(AcceptanceTester).rows_to_see() <= n_rows
        assert update.rows_needed() <= n_rows * delta
        if dim <= WIDE_DIM:
            assert update.find(MomentTester).rows_for(0.2) <= n_rows * delta


@pytest.mark.parametrize("dim", DIMS)
def test_plan_for_rows__is_the_inverse_of_plan_for_eps(dim: int) -> None:
    config = RunConfig(sampling="rows")

    def rows_for(eps: float) -> int:
        plan = plan_for_eps(eps, dim, config)
        # half of the rows at least are for learning
        return max(plan.required_rows, 2 * plan.final_rows)

    for eps in (0.005, 0.025, 0.08, 0.2):
        found = plan_for_rows(rows_for(eps), dim, config)
        # two significant digits, rounded up, and 1% of the search
        assert eps * 0.98 <= found.eps <= eps * 1.1
        assert rows_for(found.eps) <= rows_for(eps)
        # the smallest: 12% below needs more rows than there are
        assert rows_for(found.eps * 0.88) > rows_for(eps)


@settings(max_examples=12, deadline=None)
@given(
    dim=st.sampled_from([1, 2, 7, 30]),
    factor=st.floats(1.0, 60.0),
    more=st.integers(0, 10**5),
    rows=st.sampled_from(["auto", "reuse"]),
)
def test_plan_for_rows__more_rows_never_give_a_larger_eps(dim: int, factor: float, more: int, rows: str) -> None:
    config = RunConfig(sampling=rows)
    n_rows = math.ceil(factor * least_rows(dim, config))
    fewer, richer = (plan_for_rows(n, dim, config) for n in (n_rows, n_rows + more))
    assert richer.eps <= fewer.eps
    for plan in (fewer, richer):
        assert SMALLEST_EPS <= plan.eps <= LARGEST_EPS
        assert plan.required_rows <= plan.n_rows


@settings(max_examples=25, deadline=None)
@given(
    dim=st.sampled_from([1, 2, 7, 30]),
    factor=st.floats(1.0, 30.0),
    eps=st.sampled_from(["auto", 0.25, 0.1, 0.02]),
    rows=st.sampled_from(["rows", "reuse"]),
)
def test_plan_for_rows__deals_out_no_more_than_there_is(dim: int, factor: float, eps: float | str, rows: str) -> None:
    config = RunConfig(eps=eps, sampling=rows)
    least = plan_for_eps(0.25 if eps == "auto" else eps, dim, config).required_rows
    n_rows = math.ceil(factor * least)
    plan = plan_for_rows(n_rows, dim, config)
    base = plan_for_eps(plan.eps, dim, config)
    assert plan.n_rows == n_rows
    assert plan.required_rows <= n_rows
    assert plan.initial_rows >= base.initial_rows
    assert plan.accepted_rows >= base.accepted_rows
    assert plan.update_rows >= base.update_rows
    assert plan.final_rows >= base.final_rows
    assert plan.held_out == plan.final_rows / n_rows
    if rows == "rows":
        assert sum(plan.accepted_rows / delta for delta in plan.deltas) <= plan.update_rows
    if eps != "auto" and rows != "reuse":
        assert plan.final_rows <= 4 * base.final_rows


@pytest.mark.parametrize("dim", [2, 10])
def test_plan_for_rows__learning_goes_deeper_than_eps_where_rows_allow(dim: int) -> None:
    for n_rows in (10**6, 10**7, 10**8):
        plan = plan_for_rows(n_rows, dim, DEFAULT)
        assert 2 * plan.eps in plan.deltas
        assert plan.finest_delta < 2 * plan.eps
        assert plan.finest_delta <= 2 * plan.wedge_eps
    # asked for, it stops there
    asked = plan_for_rows(10**8, dim, RunConfig(eps=0.1))
    assert (asked.finest_delta, asked.wedge_eps) == (0.2, 0.1)


@pytest.mark.parametrize("n_rows", [200_000, 10**6, 10**8])
def test_finest_scales__of_wedge_and_slabs_are_conclusive_and_as_fine_as_can_be(n_rows: int) -> None:
    plan = plan_for_rows(n_rows, 4, DEFAULT)
    final = panel_of(plan, Stage.FINAL)
    assert final.find(SlabMassTester).rows_needed() <= plan.counted_rows
    assert final.find(WedgeTester).rows_needed() <= plan.final_rows
    assert plan.eps <= plan.slab_eps <= LARGEST_EPS
    assert plan.finest_delta / 2 <= plan.wedge_eps <= plan.eps
    for kind, scale, least, rows in (
        (SlabMassTester, plan.slab_eps, plan.eps, plan.counted_rows),
        (WedgeTester, plan.wedge_eps, plan.finest_delta / 2, plan.final_rows),
    ):
        context = plan.context(Stage.FINAL, DEFAULT)
        finer = kind.of(replace(context, eps=0.97 * scale, slab_eps=0.97 * scale))
        assert scale == least or finer.rows_needed() > rows


def test_plan_for_rows__too_few_rows_name_the_rows_of_the_coarsest_scale() -> None:
    plan = plan_for_rows(300, 4, DEFAULT)
    assert plan.eps == LARGEST_EPS
    assert plan.n_rows == 300 < plan.required_rows == plan.needed_rows == least_rows(4)
    assert plan_for_rows(least_rows(4), 4, DEFAULT).needed_rows == 0


@pytest.mark.parametrize(("n_rows", "held_out"), [(1, 1), (7, 1), (300, 75), (3_000, 750)])
def test_plan_for_rows__a_quarter_of_too_few_rows_is_held_out(n_rows: int, held_out: int) -> None:
    plan = plan_for_rows(n_rows, 4, DEFAULT)
    assert plan.final_rows == plan.counted_rows == held_out
    assert plan.held_out == held_out / n_rows


@pytest.mark.parametrize(("n_rows", "dim", "held_out"), [(5_000, 1_000, 167), (20_000, 2_000, 948), (400, 100, 100)])
def test_plan_for_rows__few_rows_per_feature_leave_more_to_learn_from(n_rows: int, dim: int, held_out: int) -> None:
    assert plan_for_rows(n_rows, dim, DEFAULT).final_rows == held_out


@pytest.mark.parametrize("rows", ["windows", "rows", "reuse"])
def test_split__is_what_was_asked_for(rows: str) -> None:
    config = RunConfig(sampling=rows)
    assert plan_for_eps(0.1, 4, config).sampling is Sampling(rows)
    assert plan_for_rows(10**7, 4, config).sampling is Sampling(rows)


def test_split__more_rows_are_used_again_where_windows_would_not_suffice() -> None:
    needed = plan_for_eps(0.02, 100, DEFAULT).required_rows
    assert needed < 1 << 20
    for n_rows in (needed, (1 << 20) + 1, 3 << 20):
        plan = plan_for_rows(n_rows, 100, RunConfig(eps=0.02))
        assert plan.required_rows <= n_rows
        assert plan.sampling is (Sampling.WINDOWS if n_rows == 3 << 20 else Sampling.REUSE)


def test_first_pass__has_a_64th_of_many_rows_and_no_more_than_it_can_use() -> None:
    assert plan_for_rows(1 << 22, 4, DEFAULT).initial_rows == 1 << 16
    assert plan_for_rows(10**9, 4, DEFAULT).initial_rows == 1 << 18


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("eps", [0.02, 0.25])
def test_reuse__needs_fewer_rows_and_holds_as_many_out(dim: int, eps: float) -> None:
    shared, reused = (plan_for_eps(eps, dim, RunConfig(sampling=rows)) for rows in ("rows", "reuse"))
    assert reused.required_rows < shared.required_rows
    assert reused.final_rows == shared.final_rows
    hungriest = max(reused.initial_rows, math.ceil(reused.accepted_rows / reused.deltas[-1]))
    assert reused.required_rows == hungriest + reused.final_rows


@pytest.mark.parametrize("rows", ["auto", "reuse"])
@pytest.mark.parametrize("dim", [1, 8, 200])
def test_tau__half_of_it_is_shared_over_all_tests_of_the_final_pass(rows: str, dim: int) -> None:
    # the first step: moments; each update: acceptance and moments; three testers per candidate
    config = RunConfig(sampling=rows, tau=0.02)
    plan = plan_for_eps(0.05, dim, config)
    initial = panel_of(plan, Stage.INITIAL, config).find(MomentTester).tau
    update = sum(tester.tau for tester in panel_of(plan, Stage.UPDATE, config).testers)
    testers = panel_of(plan, Stage.FINAL, config).testers
    most = plan.context(Stage.FINAL, config).most_candidates
    final = most * sum(tester.tau for tester in testers)
    spent = initial + plan.max_updates * update + final
    assert 0.9 * 0.01 <= spent <= 0.01 * (1 + 1e-12)
