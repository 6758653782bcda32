from __future__ import annotations

import math

import numpy as np
import pytest

from streamhalf.algorithms.localized_update import LocalizedUpdate, UpdateOutcome
from streamhalf.algorithms.proper_learner import ProperLearner
from streamhalf.data.block import Block, RowRange
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream
from streamhalf.results import Outcome, overall_outcome
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.acceptance import AcceptanceTester
from streamhalf.testers.base import TesterSet
from streamhalf.testers.moments import MomentTester

N_ROWS, DIM = 120_000, 4


def draw(noise: str = "none", rate: float = 0.0, marginal: str = "gaussian"):
    spec = SyntheticSpec(rows=N_ROWS, dim=DIM, marginal=marginal, noise=noise, rate=rate, seed=6)
    planted = plant(spec)
    rows = generate(spec, planted, RowRange(0, N_ROWS))
    return Block(rows.X.astype(np.float64), rows.y, np.arange(N_ROWS)), planted


def make_update(v: np.ndarray, delta: float, number: int = 0, threshold: float = 0.0) -> LocalizedUpdate:
    frame = Frame(Plane(v, threshold), delta)
    moments = MomentTester(dim=DIM, degree=4, moment_tolerance=0.1, spectral_tolerance=0.3, tau=0.001)
    tester_set = TesterSet((AcceptanceTester(frame=frame, tau=0.001), moments))
    return LocalizedUpdate(ProperLearner(tester_set), frame, seed=2, number=number)


def run_update(block: Block, v: np.ndarray, delta: float, number: int = 0) -> UpdateOutcome:
    update = make_update(v, delta, number)
    needs = update.needs()
    return update.conclude(needs.finalize(needs.map(block)))


def turn(v: np.ndarray, u: np.ndarray, angle: float) -> np.ndarray:
    u = u - (u @ v) * v
    return math.cos(angle) * v + math.sin(angle) * u / np.linalg.norm(u)


def distance(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.linalg.norm(left - right))


@pytest.mark.parametrize(
    ("noise", "rate", "reached"),
    # of n delta accepted rows, the Chow direction errs by about delta sqrt(d / (n delta)) after the
    # map back, 0.005 here; noise adds its own, of the order of its rate
    [("none", 0.0, 0.02), ("random", 0.1, 0.03), ("chow", 0.02, 0.05), ("far", 0.05, 0.03)],
)
@pytest.mark.parametrize("angle", [0.1, 0.25])
def test_update__moves_towards_the_planted_direction(noise: str, rate: float, reached: float, angle: float) -> None:
    block, planted = draw(noise, rate)
    start = turn(planted.v, planted.u, angle)
    outcome = run_update(block, start, 0.25)
    assert overall_outcome(outcome.test_results) is Outcome.PASSED
    assert distance(outcome.plane.normal, planted.v) < reached
    assert np.linalg.norm(outcome.plane.normal) == pytest.approx(1)
    assert outcome.step == distance(outcome.plane.normal, start)


def test_update__beats_the_chow_vector_on_noise_made_against_it() -> None:
    block, planted = draw("chow", 0.05)
    chow = (block.y[:, None] * block.X).mean(axis=0)
    v = chow / np.linalg.norm(chow)
    reached = [distance(v, planted.v)]
    for i, delta in enumerate((0.5, 0.25, 0.125, 0.0625, 0.03125)):
        v = run_update(block, v, delta, number=i).plane.normal
        reached.append(distance(v, planted.v))
    assert reached[0] > 0.1
    assert reached[-1] < 0.25 * reached[0]


@pytest.mark.parametrize("delta", [0.5, 0.1])
def test_update__maps_back_with_the_inverse_root(delta: float) -> None:
    # the printed Sigma^{1/2} ends far from the truth: the lemma's Sigma^{-1/2} is the right one
    block, planted = draw()
    start = turn(planted.v, planted.u, 0.1)
    update = make_update(start, delta)
    needs = update.needs()
    result = needs.finalize(needs.map(block))
    outcome = update.conclude(result)
    assert distance(outcome.plane.normal, planted.v) < 0.02
    w = update.learner.conclude(result.inner, n_seen=result.n_seen).plane.normal
    assert outcome.overlap == w @ start
    printed = w - (1 - delta) * (w @ start) * start
    assert distance(printed / np.linalg.norm(printed), planted.v) > 0.1


def test_update__judges_acceptance_first() -> None:
    block, planted = draw()
    outcome = run_update(block, planted.v, 0.125)
    acceptance = outcome.test_results[0]
    assert acceptance.tester == "acceptance"
    assert acceptance.outcome is Outcome.PASSED
    assert acceptance.evidence[0].observed == outcome.n_accepted / outcome.n_seen
    assert outcome.n_seen == acceptance.n_rows == N_ROWS
    assert [one.tester for one in outcome.test_results[1:]] == ["largest moment", "second moment", "quadratics"]
    assert {one.n_rows for one in outcome.test_results[1:]} == {outcome.n_accepted}


@pytest.mark.parametrize("marginal", ["hole", "spike"])
def test_update__sees_what_moments_over_all_rows_do_not(marginal: str) -> None:
    block, planted = draw(marginal=marginal)
    outcome = run_update(block, planted.v, 0.125)
    assert overall_outcome(outcome.test_results) is Outcome.REJECTED


def test_update__overlap_is_negative_where_noise_dominates() -> None:
    # within 0.25 of the boundary most labels are wrong, so at scale 0.05 nothing can be learned
    block, planted = draw("near", 0.15)
    assert run_update(block, planted.v, 0.05).overlap < 0
    assert run_update(block, planted.v, 0.5).overlap > 0


def test_update__another_number_accepts_other_rows() -> None:
    block, planted = draw()
    first, again, other = (run_update(block, planted.v, 0.25, number) for number in (0, 0, 1))
    np.testing.assert_array_equal(first.plane.normal, again.plane.normal)
    assert first.test_results == again.test_results
    assert first.n_accepted != other.n_accepted


def test_update__each_number_has_a_stream_of_its_own() -> None:
    streams = [make_update(np.eye(DIM)[0], 0.25, number).needs().view.sample.stream for number in range(3)]
    assert streams == [Stream.UPDATES, Stream.UPDATES + 1, Stream.UPDATES + 2]


def test_update__about_a_plane_with_a_threshold_finds_the_halfspace_there() -> None:
    # labels of sgn(v*·x - 0.4), looked at from a plane beside it: one update comes nearer
    block, planted = draw()
    shifted = Block(block.X, np.where(block.X @ planted.v >= 0.4, 1, -1).astype(np.int8), block.rows)
    start = turn(planted.v, planted.u, 0.15)
    update = make_update(start, 0.25, threshold=0.4)
    needs = update.needs()
    outcome = update.conclude(needs.finalize(needs.map(shifted)))
    assert overall_outcome(outcome.test_results) is Outcome.PASSED
    assert distance(outcome.plane.normal, planted.v) < 0.05
    assert outcome.plane.threshold == pytest.approx(0.4, abs=0.05)
