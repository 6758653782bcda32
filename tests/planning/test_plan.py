from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamhalf
from streamhalf import RunConfig, UsageError
from streamhalf.config import LARGEST_EPS, SMALLEST_EPS
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.planning.plan import (
    PAPER_FIRST_DELTA,
    RunPlan,
    make_plan,
    plan_for_eps,
    plan_for_rows,
    scales,
)
from streamhalf.records import Split, Stage
from streamhalf.testers import TESTERS, Panel
from streamhalf.testers.acceptance import AcceptanceTester
from streamhalf.testers.moments import WIDE_DIM, MomentTester
from streamhalf.testers.slab_covariance import SlabCovarianceTester
from streamhalf.testers.slab_mass import SlabMassTester

DEFAULT = RunConfig()
DIMS = (1, 2, 10, 64, 100)


def least_rows(dim: int, config: RunConfig = DEFAULT) -> int:
    """Rows with which the coarsest scale can be judged."""
    return plan_for_eps(LARGEST_EPS, dim, config).required_rows


def panel_of(
    plan: RunPlan, stage: Stage, config: RunConfig = DEFAULT, *, delta: float = 0.5
) -> Panel:
    """The testers of a pass, as the pass makes them."""
    context = plan.context(stage, config)
    if stage is Stage.UPDATE:
        context = replace(context, frame=Frame(Plane(np.eye(1, plan.dim)[0]), delta))
    if plan.dim > WIDE_DIM and stage is not Stage.FINAL:
        context = replace(context, directions=np.zeros((24, plan.dim)))
    return Panel.of(TESTERS, context)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("rows", ["auto", "reuse"])
def test_plan_for_eps__smaller_eps_needs_more_rows(dim: int, rows: str) -> None:
    config = RunConfig(rows=rows)
    wanted = [plan_for_eps(eps, dim, config).required_rows for eps in np.geomspace(0.01, 0.25, 25)]
    assert all(fine >= coarse for fine, coarse in itertools.pairwise(wanted))
    assert wanted[0] > 10 * wanted[-1]


@pytest.mark.parametrize("name", ["tau", "moment_tolerance"])
def test_plan_for_eps__laxer_tests_need_fewer_rows(name: str) -> None:
    strict, lax = (
        plan_for_eps(0.1, 5, RunConfig(**{name: value})).required_rows for value in (0.01, 0.2)
    )
    assert lax < strict


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("eps", [0.02, 0.1, 0.25])
def test_plan_for_eps__every_tester_is_conclusive(dim: int, eps: float) -> None:
    plan = plan_for_eps(eps, dim, DEFAULT)
    panels = {stage: panel_of(plan, stage) for stage in (Stage.INITIAL, Stage.FINAL)}
    moments = panels[Stage.INITIAL].find(MomentTester)
    assert moments.rows_needed() <= min(plan.initial_rows, plan.accepted_rows)
    assert panels[Stage.FINAL].find(SlabMassTester).rows_needed() <= plan.final_rows
    covariance = panels[Stage.FINAL].find(SlabCovarianceTester)
    assert covariance.rows_per_slab() * 20 <= plan.final_rows
    for delta in plan.deltas:
        update = panel_of(plan, Stage.UPDATE, delta=delta)
        assert update.find(AcceptanceTester).rows_to_see() <= plan.accepted_rows / delta
        assert update.rows_needed() <= plan.accepted_rows


@given(eps=st.floats(1e-4, 0.25))
def test_scales__halve_down_to_half_of_eps(eps: float) -> None:
    found = scales(eps, adaptive=True)
    assert found[0] == 0.5
    assert all(b == a / 2 for a, b in itertools.pairwise(found))
    assert eps / 2 * 0.999 <= found[-1] <= eps


def test_scales__of_the_paper_start_at_one_hundredth() -> None:
    assert scales(0.25, adaptive=False) == (PAPER_FIRST_DELTA,)
    assert scales(0.004, adaptive=False) == (0.01, 0.005, 0.0025)


@pytest.mark.parametrize("dim", DIMS)
def test_plan_for_rows__is_the_inverse_of_plan_for_eps(dim: int) -> None:
    for eps in (0.025, 0.08, 0.2):
        needed = plan_for_eps(eps, dim, DEFAULT).required_rows
        found = plan_for_rows(needed, dim, DEFAULT)
        # two significant digits, rounded up, and 1% of the search
        assert eps * 0.98 <= found.eps <= eps * 1.1
        assert plan_for_eps(found.eps, dim, DEFAULT).required_rows <= needed
        # the smallest: 12% below needs more rows than there are
        assert plan_for_eps(found.eps * 0.88, dim, DEFAULT).required_rows > needed


@settings(max_examples=25, deadline=None)
@given(
    dim=st.sampled_from([1, 2, 7, 30]),
    factor=st.floats(1.0, 60.0),
    more=st.integers(0, 10**5),
    rows=st.sampled_from(["auto", "reuse"]),
)
def test_plan_for_rows__more_rows_never_give_a_larger_eps(
    dim: int, factor: float, more: int, rows: str
) -> None:
    config = RunConfig(rows=rows)
    n_rows = math.ceil(factor * least_rows(dim, config))
    fewer, richer = (plan_for_rows(n, dim, config) for n in (n_rows, n_rows + more))
    assert richer.eps <= fewer.eps
    for plan in (fewer, richer):
        assert SMALLEST_EPS <= plan.eps <= LARGEST_EPS
        assert plan.required_rows <= plan.n_rows


@settings(max_examples=60, deadline=None)
@given(
    dim=st.sampled_from([1, 2, 7, 30]),
    factor=st.floats(1.0, 30.0),
    eps=st.sampled_from(["auto", 0.25, 0.1]),
)
def test_plan_for_rows__deals_out_no_more_than_there_is(
    dim: int, factor: float, eps: float | str
) -> None:
    config = RunConfig(eps=eps)
    least = plan_for_eps(0.25 if eps == "auto" else eps, dim, config).required_rows
    n_rows = math.ceil(factor * least)
    plan = plan_for_rows(n_rows, dim, config)
    base = plan_for_eps(plan.eps, dim, config)
    assert plan.n_rows == n_rows
    assert plan.initial_rows + plan.update_rows + plan.final_rows <= n_rows
    assert plan.initial_rows >= base.initial_rows
    assert plan.accepted_rows >= base.accepted_rows
    assert plan.update_rows >= base.update_rows
    assert plan.final_rows >= base.final_rows
    assert sum(plan.accepted_rows / delta for delta in plan.deltas) <= plan.update_rows
    if eps == "auto":  # what is left measures the error
        assert plan.initial_rows + plan.update_rows + plan.final_rows == n_rows
    else:
        assert plan.final_rows <= 4 * base.final_rows


def test_plan_for_rows__updates_get_their_share_of_more_rows() -> None:
    config = RunConfig(eps=0.1)
    base = plan_for_eps(0.1, 4, config)
    richer = plan_for_rows(3 * base.required_rows, 4, config)
    assert richer.update_rows == 3 * base.update_rows


def test_plan_for_rows__too_few_rows_name_the_rows_of_the_coarsest_scale() -> None:
    plan = plan_for_rows(300, 4, DEFAULT)
    assert plan.eps == LARGEST_EPS
    assert plan.n_rows == 300 < plan.required_rows == least_rows(4)


def test_plan_for_rows__takes_an_explicit_eps() -> None:
    config = RunConfig(eps=0.1)
    needed = plan_for_eps(0.1, 4, config).required_rows
    assert plan_for_rows(needed, 4, config).required_rows <= needed
    assert plan_for_rows(needed - 1, 4, config).required_rows == needed
    assert plan_for_rows(100 * needed, 4, config).eps == 0.1


@pytest.mark.parametrize("rows", ["auto", "windows", "rows", "reuse"])
def test_plan_for_eps__knows_how_rows_are_shared(rows: str) -> None:
    plan = plan_for_eps(0.1, 4, RunConfig(rows=rows))
    assert plan.split is (Split.WINDOWS if rows == "auto" else Split(rows))


def test_reuse__needs_the_rows_of_the_hungriest_pass_and_a_smaller_tau() -> None:
    shared, reused = (plan_for_eps(0.1, 4, RunConfig(rows=rows)) for rows in ("auto", "reuse"))
    assert reused.tau_pass == pytest.approx(shared.tau_pass * math.exp(-4))
    assert reused.initial_rows > shared.initial_rows  # thresholds are inflated
    assert reused.required_rows < shared.required_rows
    assert reused.required_rows == max(
        reused.initial_rows, math.ceil(reused.accepted_rows / reused.deltas[-1]), reused.final_rows
    )


@pytest.mark.parametrize("rows", ["auto", "reuse"])
@pytest.mark.parametrize("dim", [1, 8, 200])
def test_tau__is_shared_over_all_tests(rows: str, dim: int) -> None:
    # initial: moments; each update: acceptance and moments; final: two testers of each candidate
    config = RunConfig(rows=rows, tau=0.02)
    plan = plan_for_eps(0.05, dim, config)
    initial = panel_of(plan, Stage.INITIAL, config).find(MomentTester).tau
    update = sum(tester.tau for tester in panel_of(plan, Stage.UPDATE, config).testers)
    testers = panel_of(plan, Stage.FINAL, config).testers
    final = (plan.max_updates + 1) * sum(tester.tau for tester in testers)
    spent = initial + plan.max_updates * update + final
    assert 0 < spent <= 0.02 * (1 + 1e-12)
    if rows == "auto":
        assert spent >= 0.9 * 0.02


def plan_passes(**parameters) -> RunPlan:
    return make_plan(row_nbytes=17, config=RunConfig(), **parameters)


def test_make_plan__passes_sum_to_what_is_read() -> None:
    record = plan_passes(dim=4, n_rows=400_000)
    plan = plan_for_rows(400_000, 4, DEFAULT)
    names = [one.name for one in record.passes]
    assert (names[0], names[-1]) == ("initial", "final")
    assert [one.delta for one in record.passes[1:-1]] == list(plan.deltas)
    assert record.nbytes == sum(one.nbytes for one in record.passes)
    assert all(one.nbytes == 17 * one.rows for one in record.passes)
    assert sum(one.rows for one in record.passes) <= 400_000
    assert record.conclusive
    assert (record.rows, record.dim, record.eps) == (400_000, 4, plan.eps)
    assert record.memory_nbytes > 0
    assert not record.sketched


def test_make_plan__for_an_eps_names_the_rows() -> None:
    record = streamhalf.plan(dim=4, eps=0.1)
    assert record.rows == record.rows_needed == plan_for_eps(0.1, 4, RunConfig(eps=0.1)).n_rows
    assert record.conclusive


def test_make_plan__says_when_rows_do_not_suffice() -> None:
    record = streamhalf.plan(dim=4, n_rows=1_000)
    assert not record.conclusive
    assert record.rows == 1_000 < record.rows_needed == least_rows(4)


def test_make_plan__reused_rows_are_read_in_every_pass() -> None:
    record = streamhalf.plan(dim=4, n_rows=200_000, rows="reuse")
    assert {one.rows for one in record.passes} == {200_000}
    assert record.nbytes == len(record.passes) * 200_000 * 17


@pytest.mark.parametrize("dim", [WIDE_DIM, WIDE_DIM + 1, 1_000])
def test_make_plan__wide_data_are_sketched(dim: int) -> None:
    record = streamhalf.plan(dim=dim, n_rows=3_000_000)
    assert record.sketched == (dim > WIDE_DIM)
    assert record.conclusive


def test_make_plan__halving_starts_at_the_papers_scale() -> None:
    record = streamhalf.plan(dim=3, eps=0.005, schedule="halving")
    assert [one.delta for one in record.passes[1:-1]] == [0.01, 0.005, 0.0025]
    assert record.rows_needed > streamhalf.plan(dim=3, eps=0.25).rows_needed


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dim": 0, "n_rows": 10}, "dim: 0 given; must be at least 1"),
        ({"dim": 3, "n_rows": 0}, "rows: 0 given; must be at least 1"),
        ({"dim": -1}, "dim: -1 given; must be at least 1"),
        ({"dim": 3}, "eps: 'auto' needs a number of rows; give rows, or an eps"),
        ({"dim": 3, "eps": 0.3}, "eps: 0.3 is out of range; use 0.0001 to 0.25"),
        ({"dim": 3, "eps": 0.1, "rowz": 1}, "configuration: unknown parameter 'rowz'; did you"),
    ],
)
def test_plan__names_what_is_wrong(parameters: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        streamhalf.plan(**parameters)
    assert str(caught.value).startswith(message)
