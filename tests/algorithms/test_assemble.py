"""The answer of a fit from a state: measured in a real run, then changed where a test needs it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamhalf import results
from streamhalf.algorithms.assemble import assemble, held_out_error
from streamhalf.algorithms.driver import fit, localize
from streamhalf.algorithms.localization import Localization
from streamhalf.algorithms.plan import RunPlan, plan_for_rows
from streamhalf.algorithms.promises import StepOutcome
from streamhalf.algorithms.row_split import row_split_for
from streamhalf.algorithms.state import LocalizationState
from streamhalf.config import RunConfig
from streamhalf.data.transforms import Identity
from streamhalf.kernels.binomial import binomial_upper
from streamhalf.results import (
    Advice,
    AdviceCode,
    CertificateRecord,
    FitResult,
    HalfspaceClass,
    Notice,
    NoticeCode,
    OptRecord,
    Outcome,
    Role,
    Stop,
    StopReason,
    TestResult,
    Verdict,
)
from tests.algorithms.runs import draw, serial_run

EPS, N_ROWS = 1 / 16, 200_000
DATA = draw(N_ROWS)
Answer = Callable[..., FitResult]
NO = TestResult("largest moment", Outcome.REJECTED, 0.5, 0.1, 0.05, 9)
DOUBT = TestResult("t", Outcome.INCONCLUSIVE, 0.2, 0.1, 0.3, 1_000, rows_needed=2_000)


@pytest.fixture(scope="module")
def finished() -> tuple[RunPlan, LocalizationState]:
    with serial_run(DATA, eps=EPS, sampling="rows") as (run, source, config, _):
        plan = plan_for_rows(source.n_rows, source.dim, config)
        algorithm = Localization(plan, config, row_split_for(source, plan, config))
        return plan, localize(run, source, algorithm)[0]


@pytest.fixture
def answer(finished: tuple[RunPlan, LocalizationState]) -> Answer:
    """The result for the state, with some of its fields and of the configuration's changed."""
    _, state = finished

    def make(*, certificate: Any = None, notices: tuple = (), eps: Any = EPS, max_ratio=2.0, **changes) -> FitResult:
        given = {"eps": eps, "sampling": "rows", "max_ratio": max_ratio}
        with serial_run(DATA, **given) as (run, source, config, _):
            return assemble(
                run,
                source,
                config,
                state=dataclasses.replace(state, **changes),
                row_transform=Identity(),
                closing=(certificate, None, None),
                notices=notices,
            )

    return make


def test_answer__has_what_the_final_pass_measured(answer: Answer, finished: tuple[RunPlan, LocalizationState]) -> None:
    plan, state = finished
    found = answer()
    assert found.verdict is Verdict.ACCEPTED
    assert found.stop == Stop(StopReason.REACHED_EPS)
    assert found.chosen == state.chosen == int(np.argmin(state.errors.errors))
    assert len(found.candidates) == len(state.candidates)
    best = found.candidates[found.chosen]
    assert best.error == found.error.empirical == min(one.error for one in found.candidates)
    assert best.angle == 0
    assert found.candidates[0].delta == 1.0
    assert [one.beta for one in found.candidates] == list(state.final.betas)
    assert found.testers == state.test_results
    assert found.eps == plan.eps == EPS
    assert [one.delta for one in found.promises] == [0.5, 0.25, 0.125]
    assert found.constant == found.promises[-1].constant
    assert found.rows_needed is None
    assert found.held_out == state.held_out.record
    measured = found.measurements
    assert sum(measured.slab_counts) == found.error.n_rows == state.errors.n_rows
    assert measured.slab_width == plan.slab_eps
    assert len(measured.feature_moments) == len(measured.pair_moments) == 2
    assert len(measured.eigenvalues) == len(measured.eigen_edges) + 1


def test_error__upper_bound_pays_for_the_choice_among_candidates(finished: tuple[RunPlan, LocalizationState]) -> None:
    _, state = finished
    error = held_out_error(state, Identity(), RunConfig(tau=0.01))
    wrong, n_rows = int(state.errors.errors.min()), state.errors.n_rows
    assert error.empirical == wrong / n_rows
    # a quarter of tau is for the error
    assert error.tau == 0.0025
    assert error.upper == binomial_upper(wrong, n_rows, 0.0025 / len(state.planes))
    assert error.upper > binomial_upper(wrong, n_rows, 0.0025) > error.empirical


def test_answer__nothing_learned_has_neither(answer: Answer) -> None:
    found = answer(candidates=(), final=None, errors=None, held_out=None, moments=None, steps=())
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.halfspace, found.error, found.chosen) == (None, None, None)
    assert (found.candidates, found.measurements) == ((), None)


@pytest.mark.parametrize("reason", [StopReason.NOISE_DOMINATES, StopReason.NO_PROGRESS])
def test_eps__that_noise_kept_from_being_reached_is_told_and_rows_do_not_help(
    answer: Answer, finished: tuple[RunPlan, LocalizationState], reason: StopReason
) -> None:
    _, state = finished
    coarse = {"stop": Stop(reason, 0.25), "steps": state.steps[:2]}
    asked = answer(**coarse)
    assert (asked.verdict, asked.rows_needed) == (Verdict.INCONCLUSIVE, None)
    assert asked.notices == (Notice.of(NoticeCode.EPS_NOT_REACHED, asked=EPS, reached=0.25, noise=True),)
    assert asked.constant is None
    # not asked for: accepted at the eps that was tested
    free = answer(**coarse, eps="auto")
    assert (free.verdict, free.eps, free.notices) == (Verdict.ACCEPTED, 0.25, ())


@pytest.mark.parametrize("reason", [StopReason.ROWS_USED_UP, StopReason.MOST_UPDATES])
def test_eps__that_rows_kept_from_being_reached_is_told_with_the_rows_it_takes(
    answer: Answer, finished: tuple[RunPlan, LocalizationState], reason: StopReason
) -> None:
    _, state = finished
    asked = answer(stop=Stop(reason), steps=state.steps[:3])
    assert asked.verdict is Verdict.INCONCLUSIVE
    assert asked.notices == (Notice.of(NoticeCode.EPS_NOT_REACHED, asked=EPS, reached=0.125, noise=False),)
    assert asked.rows_needed > N_ROWS
    nothing = answer(stop=Stop(reason), steps=state.steps[:1])
    assert nothing.notices == (Notice.of(NoticeCode.EPS_NOT_REACHED, asked=EPS, reached=None, noise=False),)
    assert nothing.rows_needed > asked.rows_needed
    free = answer(stop=Stop(reason), steps=state.steps[:3], eps="auto")
    assert min(one.eps for one in free.promises) == 0.125
    assert (free.verdict, free.eps) == (Verdict.ACCEPTED, leading_eps(free))


def leading_eps(found: FitResult) -> float:
    """Of the promise with the smallest constant · error + eps."""
    sizes = {one.constant * found.error.empirical + one.eps: one.eps for one in found.promises}
    return sizes[min(sizes)]


def doubtful(step: StepOutcome) -> StepOutcome:
    said = tuple(
        results.replace(one, outcome=Outcome.INCONCLUSIVE) if one.role is Role.REQUIRED else one
        for one in step.test_results
    )
    return dataclasses.replace(step, test_results=said)


def test_eps__is_half_of_the_finest_scale_whose_required_tests_passed(
    answer: Answer, finished: tuple[RunPlan, LocalizationState]
) -> None:
    _, state = finished
    steps = (*state.steps[:-1], doubtful(state.steps[-1]))
    found = answer(steps=steps, eps="auto")
    assert [one.eps for one in found.promises] == [0.25, 0.125]
    assert found.eps == leading_eps(found)
    assert answer(steps=steps).verdict is Verdict.INCONCLUSIVE


def test_rows_needed__is_scaled_by_the_hungriest_tester(
    answer: Answer, finished: tuple[RunPlan, LocalizationState]
) -> None:
    plan, _ = finished
    doubts = tuple(
        TestResult("t", Outcome.INCONCLUSIVE, 0.2, 0.1, 0.3, 1_000, rows_needed=rows) for rows in (1_500, 7_000)
    )
    found = answer(test_results=doubts)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.rows_needed == 7 * max(plan.required_rows, plan.n_rows)


def test_constant__that_is_not_good_comes_with_the_rows_of_a_good_one(
    answer: Answer, finished: tuple[RunPlan, LocalizationState]
) -> None:
    _, state = finished
    loose, tight = (
        answer(steps=tuple(dataclasses.replace(one, deviation=value) for one in state.steps)) for value in (0.2, 0.01)
    )
    assert loose.constant > 5 >= tight.constant
    assert tight.rows_for_five is None
    assert loose.rows_for_five > N_ROWS


def test_notices__rows_in_an_order_and_errors_in_clusters_are_told() -> None:
    # the first half of the rows has all the noise
    X, y = draw(N_ROWS, rate=0.0)
    y[: N_ROWS // 2][np.random.default_rng(1).random(N_ROWS // 2) < 0.1] *= -1
    with serial_run((X, y), eps=0.25) as (run, source, config, _):
        found = fit(run, source, config)
    assert found.verdict is Verdict.ACCEPTED
    kinds = [one.code for one in found.notices]
    assert kinds == [NoticeCode.ROWS_IN_ORDER, NoticeCode.ERRORS_CLUSTER]
    assert found.error.upper > 0.05


def certificate_of(ratio: float | None, *, error: float = 0.05, repeated: float = 0.0) -> CertificateRecord:
    """A certificate of all rows that bounds the best by so much less than this error."""
    lower = 0.0 if ratio is None else error / ratio
    opt = OptRecord(lower, lower, HalfspaceClass.ANY, 0.005)
    return CertificateRecord(
        n_rows=N_ROWS,
        n_errors=round(error * N_ROWS),
        error=error,
        opt=opt,
        ratio=ratio,
        angle_low=0.0,
        angle_high=math.pi,
        degree=4,
        slab_error=error,
        n_slabs=(8,),
        digest="",
        profile=(),
        advice=Advice(AdviceCode.NOTHING),
        repeated=repeated,
        times=2.0,
        bounds=(opt,),
    )


@pytest.mark.parametrize(("said", "verdict"), [(NO, "rejected"), (DOUBT, "inconclusive")])
@pytest.mark.parametrize("ratio", [None, 1.6, 1.5, 1.0])
def test_max_ratio__that_is_reached_certifies_where_testers_do_not_pass(
    answer: Answer, said: TestResult, verdict: str, ratio: float | None
) -> None:
    found = answer(test_results=(said,), certificate=certificate_of(ratio), max_ratio=1.5)
    reached = ratio is not None and ratio <= 1.5
    assert found.verdict is (Verdict.CERTIFIED if reached else Verdict(verdict))
    assert found.ratio == found.promise.factor == ratio
    assert found.quality.lower == found.opt.lower_empirical == (0.05 / ratio if ratio else 0.0)
    assert found.promise.holds == reached
    assert found.notices == ()


def test_guess__that_does_as_well_is_told_and_keeps_the_run_from_being_accepted(
    answer: Answer, finished: tuple[RunPlan, LocalizationState]
) -> None:
    _, state = finished
    few = np.full_like(state.errors.positive_errors, 1)
    rare = int(state.errors.errors.min())  # as many positive rows as errors
    counted = dataclasses.replace(state.errors, positives=rare, positive_errors=few)
    found = answer(errors=counted, certificate=certificate_of(1.0))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.notices == (Notice.of(NoticeCode.NO_BETTER_THAN_GUESS, label=-1, error=rare / state.errors.n_rows),)


def test_notices__an_error_that_contradicts_all_rows_is_told(answer: Answer) -> None:
    found = answer(
        certificate=certificate_of(1.0, error=0.6, repeated=0.5), notices=(Notice.of(NoticeCode.ONE_CLASS, label=1),)
    )
    assert found.error is not None
    disagree = Notice.of(
        NoticeCode.ERRORS_DISAGREE, held_out=found.error.empirical, upper=found.error.upper, all_rows=0.6
    )
    assert found.notices == (
        Notice.of(NoticeCode.ONE_CLASS, label=1),
        disagree,
        Notice.of(NoticeCode.REPEATED_ROWS, share=0.5, times=2.0),
    )
