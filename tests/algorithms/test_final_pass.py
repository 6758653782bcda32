"""The final pass: every step of the path tested again, in as many batches as memory asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamhalf import RunConfig
from streamhalf.algorithms.baselines import Baseline
from streamhalf.algorithms.final_pass import FinalPass
from streamhalf.algorithms.localization import Localization
from streamhalf.algorithms.localized_update import Candidate
from streamhalf.algorithms.plan import REFINED, plan_for_rows
from streamhalf.algorithms.row_split import RowSplit
from streamhalf.algorithms.state import LocalizationState, Step
from streamhalf.data.block import Block
from streamhalf.data.transforms import Isotropic
from streamhalf.engine import memory
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream, uniforms_at
from streamhalf.results import Method, Outcome, Role, Stage, StopReason, TestResult, overall_outcome
from streamhalf.testers.moments import MomentTester
from streamhalf.testers.wedge import WedgeTester
from tests.algorithms.machine import DIM, draw, make_algorithm, make_blocks, measure, rows_of, run

DATA = draw()
WHOLE = make_algorithm()
CENTRED = make_algorithm(through="centre")
"""How many rows the wedge test looks at follows the thresholds of a batch: here there are none."""


@pytest.fixture(scope="module")
def finished() -> tuple[LocalizationState, list[Step]]:
    return run(WHOLE, DATA)


@pytest.fixture(scope="module")
def centred() -> tuple[LocalizationState, list[Step]]:
    return run(CENTRED, DATA)


def final_judgements(state: LocalizationState) -> tuple[TestResult, ...]:
    return tuple(one for one in state.test_results if one.pass_name == "final")


def test_final__tests_the_first_step_and_every_update(finished: tuple[LocalizationState, list[Step]]) -> None:
    state, requests = finished
    assert [step.delta for step in state.steps] == [1.0, *(frame.delta for frame in state.frames)]
    # refine, thresholds and the final pass are none
    assert len(state.steps) == len(requests) - 3
    said = [(one.candidate, one.scale) for one in final_judgements(state) if one.tester == "largest moment"]
    # an update starts from the candidate before; the first step has none
    assert said == [(None, 1.0), *((i, frame.delta) for i, frame in enumerate(state.frames))]
    normals = [candidate.plane.normal for candidate in state.candidates]
    assert all(normals[i] is frame.plane.normal for i, frame in enumerate(state.frames))
    assert {one.stage for one in final_judgements(state)} == {Stage.FINAL}
    roles = {one.role for one in final_judgements(state)}
    assert Role.REQUIRED in roles
    assert Role.EARLY not in roles


def test_final__a_step_is_tested_on_held_out_rows_in_its_frame(finished: tuple[LocalizationState, list[Step]]) -> None:
    state, requests = finished
    rows = np.array(sorted(rows_of(requests[-1].subset)))
    for frame, step in zip(state.frames, state.steps[1:], strict=True):
        looked_at = WHOLE.plan.rows_for_step(frame.rate)
        top = WHOLE.plan.held_out * looked_at / WHOLE.plan.final_rows
        uniforms = uniforms_at(1, Stream.SHARES, rows)
        seen = rows[uniforms < top]
        along = frame.coordinates(DATA.X[seen])
        # below the top, u / top is an unused number
        keep = uniforms[uniforms < top] / top < frame.acceptance(along)
        kept = seen[keep]
        context = replace(WHOLE.plan.context(Stage.UPDATE, WHOLE.config), frame=frame)
        tester = MomentTester.of(context)
        assert tester is not None
        needs = tester.needs()
        X = frame.to_frame(DATA.X[kept], along[keep])
        result = needs.finalize(needs.map(Block(X, DATA.y[kept], kept)))
        expected = {one.tester: one for one in tester.judge(result, n_seen=len(seen))}
        found = {one.tester: one for one in step.test_results}
        for name, one in expected.items():
            assert found[name].n_rows == pytest.approx(len(kept), abs=2)
            assert found[name].statistic == pytest.approx(one.statistic, abs=1e-4)
            assert found[name].null_quantile == pytest.approx(one.null_quantile, rel=1e-3)


@pytest.mark.parametrize("per_batch", [1, 2])
def test_final__batches_equal_one_batch(
    centred: tuple[LocalizationState, list[Step]], per_batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, requests = centred
    context = CENTRED.plan.context(Stage.FINAL, CENTRED.config)
    # room for the matrices of so many candidates
    matrices = len(expected.final.eigenvalues[0]) + len(WedgeTester.of(context).etas)
    limit = 4 * DIM * (DIM + 3) * matrices * per_batch
    monkeypatch.setattr(memory, "TASK_NBYTES", (CENTRED.config.split_every + 2) * limit)
    algorithm = CENTRED
    early = tuple(one for one in expected.test_results if one.pass_name != "final")
    state = replace(
        expected,
        stage=Stage.FINAL,
        final=None,
        planes=(),
        errors=None,
        held_out=None,
        test_results=early,
        batches=(),
        steps=(),
        n_batches=0,
    )
    names = []
    while (step := algorithm.next_step(state)) is not None:
        names.append(step.name)
        assert step.subset == requests[-1].subset
        # errors are counted once, beside the first batch
        assert (step.beside is not None) == (len(names) == 1)
        state = step.conclude(measure(step, DATA))
    assert names == [f"final-{i + 1}" for i in range(len(names))]
    # what the steps need comes with the last candidates, and after them
    assert len(names) > -(-len(state.candidates) // per_batch)
    np.testing.assert_array_equal(state.final.slab_counts, expected.final.slab_counts)
    np.testing.assert_array_equal(state.errors.errors, expected.errors.errors)
    assert state.final.betas == expected.final.betas
    assert state.test_results == expected.test_results
    assert [one.deviation for one in state.steps] == [one.deviation for one in expected.steps]


def test_final__an_update_without_a_candidate_is_tested_too() -> None:
    # most labels near the boundary are wrong: the last update finds nothing
    state, _ = run(WHOLE, draw("near", 0.25))
    assert state.stop.reason is StopReason.NOISE_DOMINATES
    # beside those that updates found there is a turned one, and what refine adds
    assert state.turned is not None
    assert 0 <= len(state.candidates) - 1 - state.n_updates <= REFINED
    assert len(state.steps) == state.n_updates + 1


def sour(data: Block) -> Block:
    """Rows that are not Gaussian, but only those that are held out."""
    rows = np.array(sorted(rows_of(WHOLE.row_split.held_out_subset())))
    X = data.X.copy()
    X[rows] = np.sign(X[rows]) * np.abs(X[rows]) ** 1.5
    return Block(X, data.y, data.rows)


def test_final__a_rejection_there_rejects_the_run() -> None:
    state, _ = run(WHOLE, sour(DATA))
    early = tuple(one for one in state.test_results if one.role is Role.EARLY)
    assert {one.outcome for one in early} <= {Outcome.PASSED, Outcome.INCONCLUSIVE}
    assert state.outcome is Outcome.REJECTED
    assert state.final is not None
    assert any(one.outcome is Outcome.REJECTED and one.scale == 1.0 for one in final_judgements(state))


def test_final__early_rejections_alone_do_not() -> None:
    held_out = np.array(sorted(rows_of(WHOLE.row_split.held_out_subset())))
    X = np.sign(DATA.X) * np.abs(DATA.X) ** 1.5
    X[held_out] = DATA.X[held_out]
    state, requests = run(WHOLE, Block(X, DATA.y, DATA.rows))
    early = tuple(one for one in state.test_results if one.role is Role.EARLY)
    assert Outcome.REJECTED in {one.outcome for one in early if one.pass_name == "initial"}
    assert requests[-1].name == "final"
    # Gaussian rows are rejected with probability below tau
    assert overall_outcome(state.test_results) is Outcome.PASSED


def test_final__errors_are_those_of_stored_rows_in_any_position_and_of_all_members() -> None:
    transform = Isotropic(np.array([5.0, -1.0]), np.diag([0.5, 4.0]))
    stored = Block(DATA.X / [0.5, 4.0] + transform.centre, DATA.y, DATA.rows)
    member = Baseline(Method.REGRESSION, Plane(np.array([1.0, -2.0]), 7.0))
    final = FinalPass(WHOLE.plan, WHOLE.config, WHOLE.testers, transform, (member,))
    candidates = tuple(
        Candidate(Plane(np.array(normal), 0.1), 1.0, 0.0, 0.8, 1, 1) for normal in ([1.0, 0.0], [0.6, 0.8])
    )
    before = replace(WHOLE.start(), stage=Stage.FINAL, candidates=candidates)
    step = final.step(before, WHOLE.row_split.held_out_subset())
    state = step.conclude(measure(step, stored, transform))
    rows = np.array(sorted(rows_of(state.held_out)))
    X, y = stored.X[rows], stored.y[rows]
    assert len(state.planes) == 3
    assert state.planes[2] is member.plane
    assert state.errors.errors.tolist() == [plane.errors(X, y) for plane in state.planes]
    laid = transform.apply(stored).X[rows]
    for one, candidate in zip(state.errors.errors, candidates, strict=False):
        assert one == pytest.approx(candidate.plane.errors(laid, y), abs=2)
    assert state.chosen is not None


def test_final__of_too_few_rows_members_are_measured_and_all_rows_tested() -> None:
    data = Block(DATA.X[:600], DATA.y[:600], DATA.rows[:600])
    config = RunConfig(eps="auto", seed=1)
    plan = plan_for_rows(600, DIM, config)
    assert plan.required_rows == plan.needed_rows > 600
    row_split = RowSplit(
        seed=1,
        n_rows=600,
        held_out=plan.held_out,
        sampling=plan.sampling,
        window_rows=64,
        chunk_rows=None,
        blocks=make_blocks(600),
    )
    planted = Baseline(Method.REGRESSION, Plane(np.array([1.0, 1.0])))
    state, (step,) = run(Localization(plan, config, row_split, baselines=(planted,)), data)
    assert step.name == "final"
    assert state.stop.reason is StopReason.TOO_FEW_ROWS
    assert (state.candidates, state.final, state.chosen) == ((), None, 0)
    # a binomial of mean 150 and standard deviation 11
    assert state.errors.n_rows == pytest.approx(150, abs=60)
    assert {one.stage for one in state.test_results} <= {Stage.INITIAL, Stage.FINAL}
    assert state.outcome is not Outcome.REJECTED
