"""The answer of a fit from a state: measured in a real run, then changed where a test needs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamhalf.algorithms.answer import assemble, halfspace_of, held_out_error
from streamhalf.algorithms.driver import localize
from streamhalf.algorithms.localization import Localization
from streamhalf.algorithms.localization_state import LocalizationState
from streamhalf.data.positions import Identity, Isotropic
from streamhalf.kernels.binomial import binomial_upper
from streamhalf.planning.plan import RunPlan, plan_for_rows
from streamhalf.records import (
    ErrorsDisagree,
    FitResult,
    Judgement,
    OneClass,
    Outcome,
    RatioNotReached,
    RepeatedRows,
    Stop,
    StopReason,
    Verdict,
)
from tests.algorithms.runs import EPS, draw, serial_run

DATA = draw()
Answer = Callable[..., FitResult]


@pytest.fixture(scope="module")
def finished() -> tuple[RunPlan, LocalizationState]:
    with serial_run(DATA) as (run, source, config, _):
        plan = plan_for_rows(source.n_rows, source.dim, config)
        algorithm = Localization(plan, config, source.blocks)
        return plan, localize(run, source, Identity(), algorithm)


@pytest.fixture
def answer(finished: tuple[RunPlan, LocalizationState]) -> Answer:
    """The result for the state, with some of its fields and of the configuration's changed."""
    plan, state = finished

    def make(
        *, certificate: Any = None, notices: tuple = (), eps: Any = EPS, max_ratio=None, **changes
    ) -> FitResult:
        more = {"certificate_degree": 2} if max_ratio else {}
        with serial_run(DATA, eps=eps, max_ratio=max_ratio, **more) as (run, source, config, _):
            return assemble(
                run,
                source,
                plan,
                config,
                state=dataclasses.replace(state, **changes),
                row_map=Identity(),
                certificate=certificate,
                notices=notices,
            )

    return make


def test_answer__has_what_the_final_pass_measured(
    answer: Answer, finished: tuple[RunPlan, LocalizationState]
) -> None:
    plan, state = finished
    found = answer()
    assert found.verdict is Verdict.ACCEPTED
    assert found.stop == Stop(StopReason.REACHED_EPS)
    assert found.chosen == state.chosen == int(np.argmin(state.final.errors))
    assert len(found.candidates) == len(state.candidates)
    best = found.candidates[found.chosen]
    assert best.error == found.error.empirical == min(one.error for one in found.candidates)
    assert best.angle == 0
    assert found.candidates[0].delta == 1.0
    assert [one.beta for one in found.candidates] == list(state.final.betas)
    assert found.testers == state.judgements
    assert found.eps == plan.eps == EPS
    assert found.rows_needed is None
    assert found.held_out == state.held_out.record
    measured = found.measurements
    assert sum(measured.slab_counts) == found.error.n_rows == state.final.n_rows
    assert measured.slab_width == EPS
    assert len(measured.feature_moments) == len(measured.pair_moments) == 2
    assert len(measured.eigenvalues) == len(measured.eigen_edges) + 1


def test_error__upper_bound_pays_for_the_choice_among_candidates(
    finished: tuple[RunPlan, LocalizationState],
) -> None:
    _, state = finished
    error = held_out_error(state, 0.01)
    wrong, n_rows = int(state.final.errors.min()), state.final.n_rows
    assert error.empirical == wrong / n_rows
    assert error.upper == binomial_upper(wrong, n_rows, 0.01 / len(state.candidates))
    assert error.upper > binomial_upper(wrong, n_rows, 0.01) > error.empirical


def test_halfspace__is_pulled_back_to_stored_rows(
    finished: tuple[RunPlan, LocalizationState],
) -> None:
    _, state = finished
    moved = Isotropic(np.array([5.0, -1.0]), np.diag([0.5, 4.0]))
    found = halfspace_of(state, moved)
    normal = state.candidates[state.chosen].plane.normal
    np.testing.assert_allclose(found.normal, normal * [0.5, 4.0])
    assert found.offset == pytest.approx(-(5.0 * found.normal[0] - found.normal[1]))
    assert halfspace_of(dataclasses.replace(state, final=None, candidates=()), moved) is None


def test_answer__a_rejected_run_has_a_halfspace_and_no_error(answer: Answer) -> None:
    no = Judgement("largest moment", Outcome.REJECTED, 0.5, 0.1, 0.05, 9)
    found = answer(judgements=(no,), final=None, held_out=None, stop=None)
    assert found.verdict is Verdict.REJECTED
    assert found.stop == Stop(StopReason.TESTER_REJECTED)
    assert (found.error, found.held_out, found.rows_needed) == (None, None, None)
    assert found.halfspace is not None
    assert found.chosen == len(found.candidates) - 1
    assert {(one.error, one.beta) for one in found.candidates} == {(None, None)}
    assert found.measurements.slab_counts == ()
    assert found.measurements.feature_moments


def test_answer__nothing_learned_has_neither(answer: Answer) -> None:
    found = answer(candidates=(), final=None, held_out=None, moments=None)
    assert (found.halfspace, found.error, found.chosen) == (None, None, None)
    assert (found.candidates, found.measurements) == ((), None)


@pytest.mark.parametrize("reason", [StopReason.NOISE_DOMINATES, StopReason.NO_PROGRESS])
def test_eps__noise_that_stopped_the_updates_limits_what_was_judged(
    answer: Answer, reason: StopReason
) -> None:
    # angles up to delta stay hidden: an error of delta / 2 at most
    assert answer(stop=Stop(reason, 1.0)).eps == 0.5
    assert answer(stop=Stop(reason, 0.125)).eps == EPS
    # noise is an answer: the run is accepted at the eps that it names
    assert answer(stop=Stop(reason, 1.0)).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("reason", [StopReason.ROWS_USED_UP, StopReason.MOST_UPDATES])
def test_eps__scales_left_untested_are_not_claimed(answer: Answer, reason: StopReason) -> None:
    coarse = {"stop": Stop(reason), "tested_delta": 0.5}
    asked = answer(**coarse)
    assert asked.eps == 0.5
    assert asked.verdict is Verdict.INCONCLUSIVE  # eps 0.25 was asked for
    assert asked.rows_needed > 90_000
    free = answer(**coarse, eps="auto")
    assert (free.eps, free.verdict) == (0.5, Verdict.ACCEPTED)
    fine = answer(stop=Stop(reason), tested_delta=0.125)
    assert (fine.eps, fine.verdict) == (EPS, Verdict.ACCEPTED)


def test_rows_needed__is_scaled_by_the_hungriest_tester(
    answer: Answer, finished: tuple[RunPlan, LocalizationState]
) -> None:
    plan, _ = finished
    doubts = tuple(
        Judgement("t", Outcome.INCONCLUSIVE, 0.2, 0.1, 0.3, 1_000, rows_needed=rows)
        for rows in (1_500, 7_000)
    )
    found = answer(judgements=doubts)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.rows_needed == 7 * max(plan.required_rows, plan.n_rows)


class Certificate:
    """What an answer reads of a certificate."""

    def __init__(self, ratio: float | None, *, error: float = 0.0, repeated: float = 0.0) -> None:
        self.ratio, self.opt = ratio, None
        self.error, self.share, self.repeated, self.times = error, 1.0, repeated, 2.0


@pytest.mark.parametrize("ratio", [None, 2.0])
def test_max_ratio__that_is_not_reached_is_told(answer: Answer, ratio: float | None) -> None:
    found = answer(certificate=Certificate(ratio), max_ratio=1.5, notices=(OneClass(1),))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.notices == (OneClass(1), RatioNotReached(1.5, ratio))
    assert found.rows_needed is None  # more rows are not what it lacks
    assert found.ratio == ratio


def test_max_ratio__that_is_reached_changes_nothing(answer: Answer) -> None:
    found = answer(certificate=Certificate(1.25), max_ratio=1.5)
    assert (found.verdict, found.notices) == (Verdict.ACCEPTED, ())


def test_notices__an_error_that_contradicts_all_rows_comes_first(answer: Answer) -> None:
    found = answer(certificate=Certificate(1.0, error=0.6, repeated=0.5), notices=(OneClass(1),))
    assert found.error is not None
    disagree = ErrorsDisagree(found.error.empirical, found.error.upper, 0.6)
    assert found.notices == (disagree, RepeatedRows(0.5, 2.0), OneClass(1))


def test_max_ratio__is_not_blamed_for_a_rejection(answer: Answer) -> None:
    no = Judgement("largest moment", Outcome.REJECTED, 0.5, 0.1, 0.05, 9)
    found = answer(judgements=(no,), certificate=None, max_ratio=1.5)
    assert (found.verdict, found.notices) == (Verdict.REJECTED, ())
