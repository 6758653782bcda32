"""The state machine without an engine: results are computed here, or scripted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamhalf import RunConfig
from streamhalf.algorithms.localization import Localization, sketch_directions
from streamhalf.algorithms.localization_state import Candidate, LocalizationState, Step
from streamhalf.algorithms.localized_update import LocalizedUpdate, UpdateOutcome
from streamhalf.data.block import Block, RowRange
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.planning.deal import Share
from streamhalf.planning.plan import plan_for_eps, plan_for_rows
from streamhalf.records import (
    Judgement,
    Outcome,
    Role,
    Split,
    Stage,
    Stop,
    StopReason,
    overall_outcome,
)
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant

DIM = 2
EPS = 0.25
N_ROWS = 130_000


def draw(noise: str = "random", rate: float = 0.05, marginal: str = "gaussian") -> Block:
    spec = SyntheticSpec(rows=N_ROWS, dim=DIM, marginal=marginal, noise=noise, rate=rate, seed=4)
    rows = generate(spec, plant(spec), RowRange(0, N_ROWS))
    return Block(rows.X, rows.y, np.arange(N_ROWS))


def make_blocks(n_rows: int, step: int = 7_000) -> tuple[RowRange, ...]:
    return tuple(RowRange(i, min(i + step, n_rows)) for i in range(0, n_rows, step))


def make_algorithm(n_rows: int = N_ROWS, dim: int = DIM, **parameters: Any) -> Localization:
    config = RunConfig(**({"eps": EPS} | parameters))
    return Localization(plan_for_rows(n_rows, dim, config), config, make_blocks(n_rows))


def measure(request: Step, data: Block) -> Any:
    """The pass's result, block by block in this thread."""
    total: Any = None
    for rows in request.share.blocks:
        window = slice(rows.start, rows.stop)
        part = request.reduction.map(Block(data.X[window], data.y[window], data.rows[window]))
        total = part if total is None else request.reduction.combine(total, part)
    return request.reduction.finalize(total)


def run(algorithm: Localization, data: Block) -> tuple[LocalizationState, list[Step]]:
    state, steps = algorithm.start(), []
    while (step := algorithm.next_step(state)) is not None:
        steps.append(step)
        state = step.conclude(measure(step, data))
    assert state.stage is Stage.DONE
    return state, steps


def advance(algorithm: Localization, state: LocalizationState) -> LocalizationState:
    """The state after an update whose outcome is scripted."""
    step = algorithm.next_step(state)
    assert step is not None
    return step.conclude(None)


def after_initial(algorithm: Localization) -> LocalizationState:
    """The state after a first pass that passed, with some candidate."""
    first = Candidate(Plane(np.eye(algorithm.plan.dim)[0]), 1.0, 0.0, 0.8, 1, 1)
    return replace(
        algorithm.start(),
        stage=Stage.UPDATE,
        cursor=algorithm.plan.initial_rows,
        candidates=(first,),
    )


class Script:
    """Update outcomes as a test wants them: `share` is the step in units of delta."""

    def __init__(self) -> None:
        self.share, self.overlap, self.accepted = 0.0, 0.5, 1.0
        self.judgements: tuple[Judgement, ...] = ()

    def conclude(self, update: LocalizedUpdate) -> UpdateOutcome:
        step = self.share * update.frame.delta
        accepted = round(self.accepted * 10**9)
        return UpdateOutcome(self.judgements, update.frame.plane, step, self.overlap, 1, accepted)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    written = Script()
    monkeypatch.setattr(
        LocalizedUpdate, "conclude", lambda update, result: written.conclude(update)
    )
    return written


def advance_while_updating(
    algorithm: Localization, script: Script, shares: Iterator[float]
) -> tuple[LocalizationState, list[float], list[Step]]:
    state, deltas, requests = after_initial(algorithm), [], []
    while state.stage is Stage.UPDATE:
        deltas.append(state.delta)
        step = algorithm.next_step(state)
        assert step is not None
        assert step.detail == f"delta {state.delta:.4g}"
        requests.append(step)
        script.share = next(shares)
        state = step.conclude(None)
    return state, deltas, requests


def test_scale__halves_after_small_steps_down_to_eps(script: Script) -> None:
    state, deltas, requests = advance_while_updating(
        make_algorithm(), script, itertools.repeat(0.34)
    )
    assert deltas == [0.5, 0.25, 0.125]
    assert [request.name for request in requests] == ["update-1", "update-2", "update-3"]
    assert state.stage is Stage.FINAL
    assert state.stop == Stop(StopReason.REACHED_EPS)
    assert state.tested_delta == 0.125
    # the last one is the mean of the two before
    assert [candidate.delta for candidate in state.candidates] == [1.0, 0.5, 0.25, 0.125, 0.125]


def test_scale__stays_after_large_steps(script: Script) -> None:
    shares = iter([0.5, 0.1, 0.36, 0.35, 0.1, 0.0])
    state, deltas, _ = advance_while_updating(make_algorithm(), script, shares)
    assert deltas == [0.5, 0.5, 0.25, 0.25, 0.25, 0.125]
    assert state.stop == Stop(StopReason.REACHED_EPS)
    assert len(state.candidates) == 8


def test_scale__gives_up_where_steps_stay_large(script: Script) -> None:
    state, deltas, _ = advance_while_updating(make_algorithm(), script, itertools.repeat(1.0))
    assert deltas == [0.5] * 4
    assert state.stop == Stop(StopReason.NO_PROGRESS, 0.5)


def test_update__stops_where_noise_dominates(script: Script) -> None:
    algorithm = make_algorithm()
    state = after_initial(algorithm)
    script.overlap = 0.0
    stopped = advance(algorithm, state)
    assert stopped.stage is Stage.FINAL
    assert stopped.stop == Stop(StopReason.NOISE_DOMINATES, 0.5)
    assert len(stopped.candidates) == 1  # the candidate before is already as good as it gets
    assert stopped.cursor > state.cursor  # its rows are spent all the same


def test_update__below_the_planned_rows_doubts_do_not_count(script: Script) -> None:
    algorithm = make_algorithm()
    doubt = Judgement("largest moment", Outcome.INCONCLUSIVE, 0.2, 0.1, 0.3, 9, rows_needed=99)
    script.judgements, script.accepted = (doubt,), 0.0
    state = advance(algorithm, after_initial(algorithm))
    (judgement,) = state.judgements
    assert judgement.outcome is Outcome.NOT_JUDGED
    assert judgement.role is Role.REFINEMENT
    assert judgement.pass_name == "update-1"
    assert state.tested_delta == 1.0
    assert state.stage is Stage.UPDATE


@pytest.mark.parametrize("accepted", [0.0, 1.0])
def test_update__a_rejection_ends_the_run_at_any_scale(script: Script, accepted: float) -> None:
    algorithm = make_algorithm()
    no = Judgement("largest moment", Outcome.REJECTED, 0.5, 0.1, 0.05, 9)
    script.judgements, script.accepted = (no,), accepted
    state = advance(algorithm, after_initial(algorithm))
    assert state.stage is Stage.DONE
    assert state.outcome is Outcome.REJECTED
    assert state.stop == Stop(StopReason.TESTER_REJECTED)
    assert state.final is None
    assert algorithm.next_step(state) is None


def test_update__required_doubts_count(script: Script) -> None:
    algorithm = make_algorithm()
    script.judgements = (Judgement("largest moment", Outcome.INCONCLUSIVE, 0.2, 0.1, 0.3, 9),)
    state = advance(algorithm, after_initial(algorithm))
    assert overall_outcome(state.judgements) is Outcome.INCONCLUSIVE


def rows_of(share: Share) -> set[int]:
    rows = share.blocks.numbers()
    uniforms = uniforms_at(share.seed, Stream.SHARES, rows)
    return set(rows[(uniforms >= share.low) & (uniforms < share.high)].tolist())


def final_share(algorithm: Localization, state: LocalizationState) -> Share:
    step = algorithm.next_step(state)
    assert step is not None
    assert step.name.startswith("final")
    return step.share


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    large=st.lists(st.booleans(), min_size=40, max_size=40),
    factor=st.floats(1.0, 3.0),
    eps=st.sampled_from([0.25, 0.12, "auto"]),
    rows=st.sampled_from(["windows", "rows"]),
)
def test_budget__no_row_is_used_twice_whatever_happens(
    script: Script, large: list[bool], factor: float, eps: float | str, rows: str
) -> None:
    config = RunConfig(eps=eps, rows=rows)
    least = plan_for_eps(0.25 if eps == "auto" else eps, DIM, config).required_rows
    algorithm = make_algorithm(int(factor * least), eps=eps, rows=rows)
    n_rows = algorithm.plan.n_rows
    first = algorithm.next_step(algorithm.start())
    assert first is not None
    shares = [first.share]
    steps = (1.0 if one else 0.0 for one in large)
    state, _, requests = advance_while_updating(algorithm, script, steps)
    shares += [request.share for request in requests]
    shares.append(final_share(algorithm, state))
    used = [rows_of(share) for share in shares]
    assert sum(len(one) for one in used) == len(set().union(*used)) <= n_rows
    assert all(used)
    # single rows drawn at random: of 25 examples one is farther off with probability 1e-7
    assert len(used[-1]) >= algorithm.plan.final_rows - 6 * algorithm.plan.final_rows**0.5
    assert state.n_updates <= algorithm.plan.max_updates


def test_budget__repeats_never_take_the_rows_of_finer_scales(script: Script) -> None:
    algorithm = make_algorithm(plan_for_eps(0.1, DIM, RunConfig(eps=0.1)).n_rows, eps=0.1)
    steps = iter([0.0, 0.0, *itertools.repeat(1.0, 8)])
    state, deltas, requests = advance_while_updating(algorithm, script, steps)
    assert deltas[:3] == [0.5, 0.25, 0.125]
    assert deltas.count(0.125) > 1  # it repeats while it can
    assert deltas[-1] == algorithm.plan.deltas[-1]
    assert state.stop == Stop(StopReason.REACHED_EPS)
    wanted = int(algorithm.plan.accepted_rows / deltas[-1]) + 1
    assert len(rows_of(requests[-1].share)) == pytest.approx(wanted, abs=64 + 6 * wanted**0.5)


def test_budget__an_update_wants_its_accepted_rows_over_delta(script: Script) -> None:
    algorithm = make_algorithm()
    _, deltas, requests = advance_while_updating(algorithm, script, itertools.repeat(0.0))
    for delta, request in zip(deltas, requests, strict=True):
        wanted = int(algorithm.plan.accepted_rows / delta) + 1
        # whole windows, less the rows that are held out
        assert len(rows_of(request.share)) == pytest.approx(wanted, abs=64 + 6 * wanted**0.5)


def test_budget__auto_eps_measures_errors_on_all_that_is_held_out(script: Script) -> None:
    algorithm = make_algorithm(eps="auto")
    state, _, _ = advance_while_updating(algorithm, script, itertools.repeat(0.0))
    held_out = N_ROWS - algorithm.plan.initial_rows - algorithm.plan.update_rows
    found = len(rows_of(final_share(algorithm, state)))
    assert found == pytest.approx(held_out, abs=6 * held_out**0.5)


def test_halving__is_the_papers_fixed_schedule(script: Script) -> None:
    config = RunConfig(eps=0.003, schedule="halving")
    n_rows = plan_for_eps(0.003, DIM, config).n_rows
    plan = plan_for_rows(n_rows, DIM, config)
    algorithm = Localization(plan, config, make_blocks(n_rows, 1 << 20))
    assert algorithm.start().delta == 0.01
    state, deltas, _ = advance_while_updating(algorithm, script, itertools.repeat(1.0))
    assert deltas == [0.01, 0.005, 0.0025]
    assert state.stop == Stop(StopReason.REACHED_EPS)


@pytest.mark.parametrize("rows", ["auto", "windows", "rows", "reuse"])
def test_run__learns_and_tests_in_every_split(rows: str) -> None:
    # Gaussian rows are not accepted with probability below tau = 0.01, for this seed they are
    algorithm = make_algorithm(rows=rows)
    state, requests = run(algorithm, draw("chow", 0.03))
    assert overall_outcome(state.judgements) is Outcome.PASSED
    assert requests[0].name == "initial"
    assert requests[-1].name == "final"
    assert state.final is not None
    assert len(state.final.errors) == len(state.candidates)
    assert state.split is (Split.WINDOWS if rows == "auto" else Split(rows))
    # the noise is made against the first candidate: updates win most of its excess back
    excess = state.final.errors / state.final.n_rows - 0.03
    assert excess.min() < 0.5 * excess[0]
    assert all(beta < 3 * EPS for beta in state.final.betas)
    assert {judgement.pass_name for judgement in state.judgements} == {
        request.name for request in requests
    }
    if rows == "reuse":
        assert all(len(rows_of(request.share)) == N_ROWS for request in requests)
        assert state.final.n_rows == N_ROWS


def test_run__steps_and_scales_of_the_path_agree() -> None:
    state, _ = run(make_algorithm(), draw("chow", 0.1))
    path = state.candidates[1:-1]
    for before, after in itertools.pairwise(path):
        small = before.step < 0.35 * before.delta
        assert after.delta == (before.delta / 2 if small else before.delta)
    for before, after in itertools.pairwise(state.candidates):
        assert after.step == pytest.approx(np.linalg.norm(after.plane.normal - before.plane.normal))
    wanted = make_algorithm().plan.initial_rows
    assert state.candidates[0].n_seen == pytest.approx(wanted, abs=64 + 6 * wanted**0.5)


def test_run__ends_with_the_mean_of_the_last_two_candidates() -> None:
    state, _ = run(make_algorithm(), draw("random", 0.05))
    before, last, mean = state.candidates[-3:]
    assert last.delta == mean.delta == before.delta / 2
    # an update errs in proportion to delta: the last one counts about four times
    total = before.n_accepted * before.plane.normal + 4 * last.n_accepted * last.plane.normal
    np.testing.assert_allclose(mean.plane.normal, total / np.linalg.norm(total), atol=1e-12)
    assert mean.step == pytest.approx(np.linalg.norm(mean.plane.normal - last.plane.normal))
    assert len(state.final.errors) == len(state.candidates)


def sort_rows(data: Block) -> Block:
    order = np.argsort(data.y, kind="stable")
    return Block(data.X[order], data.y[order], data.rows)


def test_fallback__sorted_rows_are_sampled_instead() -> None:
    state, requests = run(make_algorithm(), sort_rows(draw()))
    assert state.split is Split.ROWS
    assert [request.name for request in requests[:2]] == ["initial", "initial"]
    assert requests[0].share.blocks.n_rows < N_ROWS
    assert requests[0].share.low == requests[1].share.low == requests[-1].share.high
    assert requests[1].share.high < 1.0
    assert all(request.share.blocks.n_rows == N_ROWS for request in requests[1:])
    said = [one for one in state.judgements if one.tester == "exchangeable chunks"]
    assert [one.role for one in said] == [Role.FALLBACK, Role.ADVISORY]
    assert {one.outcome for one in said} == {Outcome.NOT_JUDGED}
    assert overall_outcome(state.judgements) is Outcome.PASSED
    assert state.final is not None
    assert state.final.errors.min() / state.final.n_rows == pytest.approx(0.05, abs=0.01)


def test_fallback__only_where_it_may() -> None:
    algorithm = make_algorithm(rows="windows")
    data = sort_rows(draw())
    step = algorithm.next_step(algorithm.start())
    assert step is not None
    state = step.conclude(measure(step, data))
    assert state.split is Split.WINDOWS
    (judgement,) = (one for one in state.judgements if "chunks" in one.tester)
    assert judgement.outcome is Outcome.NOT_JUDGED
    assert judgement.role is Role.ADVISORY


def test_initial__a_rejection_reads_nothing_more() -> None:
    state, requests = run(make_algorithm(), draw("none", 0.0, "laplace"))
    assert [request.name for request in requests] == ["initial"]
    assert state.outcome is Outcome.REJECTED
    assert state.stop == Stop(StopReason.TESTER_REJECTED)
    assert len(state.candidates) == 1
    assert state.chosen == 0


def test_final__batches_of_candidates_equal_one_batch() -> None:
    data = draw()
    whole = make_algorithm()
    expected, requests = run(whole, data)
    n_matrices = len(expected.final.eigenvalues[0]) + 1  # of slabs, and of the wedge at eps = 1/4
    # room for the matrices of two candidates in each batch
    memory = 4 * 10 * (4 * DIM * (DIM + 3) * 2 * n_matrices + 8)
    tight = replace(whole, config=_tight(whole.config, memory))
    state = replace(
        expected, stage=Stage.FINAL, final=None, judgements=(), batches=(), cursor=_cursor(requests)
    )
    names = []
    while (step := tight.next_step(state)) is not None:
        names.append(step.name)
        assert rows_of(step.share) == rows_of(requests[-1].share)
        state = step.conclude(measure(step, data))
    assert names == [f"final-{i + 1}" for i in range(len(names))]
    assert len(names) == -(-len(state.candidates) // 2)
    np.testing.assert_array_equal(state.final.errors, expected.final.errors)
    assert state.final.betas == expected.final.betas
    assert state.judgements == tuple(
        judgement for judgement in expected.judgements if judgement.pass_name == "final"
    )


def _tight(config: RunConfig, memory: int) -> RunConfig:
    """A configuration with less memory than it would take itself."""
    changed = replace(config)
    object.__setattr__(changed, "memory_limit", memory)
    return changed


def _cursor(requests: list[Step]) -> int:
    return sum(len(rows_of(request.share)) for request in requests[:-1])


@pytest.mark.parametrize("n_anchors", [0, 1, 2])
def test_sketch_directions__span_the_anchors(n_anchors: int) -> None:
    rng = np.random.default_rng(1)
    anchors = list(rng.standard_normal((n_anchors, 80)))
    found = sketch_directions(80, anchors, seed=3, number=0)
    assert found.shape == (24, 80)
    np.testing.assert_allclose(found @ found.T, np.eye(24), atol=1e-12)
    for i, anchor in enumerate(anchors):
        span = found[: i + 1]
        np.testing.assert_allclose(span.T @ (span @ anchor), anchor, atol=1e-10)
    np.testing.assert_array_equal(found, sketch_directions(80, anchors, seed=3, number=0))
    assert not np.allclose(found, sketch_directions(80, anchors, seed=4, number=0))
    assert not np.allclose(found, sketch_directions(80, anchors, seed=3, number=1))


def test_stage_and_outcome__are_two_things() -> None:
    # doubts do not change what is done next
    doubt = Judgement("largest moment", Outcome.INCONCLUSIVE, 0.2, 0.1, 0.3, 9)
    state = replace(after_initial(make_algorithm()), judgements=(doubt,))
    assert (state.stage, state.outcome) == (Stage.UPDATE, Outcome.INCONCLUSIVE)
    assert make_algorithm().next_step(state) is not None


def test_final__what_it_says_and_what_it_measured_are_kept() -> None:
    algorithm = make_algorithm()
    state, steps = run(algorithm, draw("random", 0.05))
    assert state.held_out == steps[-1].share
    assert state.chosen == int(np.argmin(state.final.errors))
    assert state.moments is not None
    assert state.moments.n_rows == state.candidates[0].n_seen
    candidates = {one.candidate for one in state.judgements if one.pass_name == "final"}
    assert candidates == set(range(len(state.candidates)))
