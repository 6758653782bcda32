"""Algorithms 1 and 4, and refine: planes from statistics of rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamhalf.algorithms.localized_update import Candidate, LocalizedUpdate, ProperLearner, ProperOutcome, Refine
from streamhalf.algorithms.plan import REFINED
from streamhalf.data.block import Block, RowRange
from streamhalf.kernels.plane import Frame, Plane
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


def run_update(block: Block, v: np.ndarray, delta: float, number: int = 0) -> tuple[Candidate, ProperOutcome]:
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
    found, outcome = run_update(block, start, 0.25)
    assert overall_outcome(outcome.test_results) is Outcome.PASSED
    assert distance(found.plane.normal, planted.v) < reached
    assert np.linalg.norm(found.plane.normal) == pytest.approx(1)
    assert found.step == distance(found.plane.normal, start)


def test_update__beats_the_chow_vector_on_noise_made_against_it() -> None:
    block, planted = draw("chow", 0.05)
    chow = (block.y[:, None] * block.X).mean(axis=0)
    v = chow / np.linalg.norm(chow)
    reached = [distance(v, planted.v)]
    for i, delta in enumerate((0.5, 0.25, 0.125, 0.0625, 0.03125)):
        v = run_update(block, v, delta, number=i)[0].plane.normal
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
    found, proper = update.conclude(result)
    assert distance(found.plane.normal, planted.v) < 0.02
    w = proper.plane.normal
    assert found.overlap == w @ start
    printed = w - (1 - delta) * (w @ start) * start
    assert distance(printed / np.linalg.norm(printed), planted.v) > 0.1


@pytest.mark.parametrize("marginal", ["hole", "spike"])
def test_update__sees_what_moments_over_all_rows_do_not(marginal: str) -> None:
    block, planted = draw(marginal=marginal)
    _, outcome = run_update(block, planted.v, 0.125)
    assert overall_outcome(outcome.test_results) is Outcome.REJECTED


def test_update__overlap_is_negative_where_noise_dominates() -> None:
    # within 0.25 of the boundary most labels are wrong, so at scale 0.05 nothing can be learned
    block, planted = draw("near", 0.15)
    assert run_update(block, planted.v, 0.05)[0].overlap < 0
    assert run_update(block, planted.v, 0.5)[0].overlap > 0


def test_update__each_number_accepts_other_rows() -> None:
    streams = [make_update(np.eye(DIM)[0], 0.25, number).needs().view.sample.stream for number in range(3)]
    assert streams == [Stream.UPDATES, Stream.UPDATES + 1, Stream.UPDATES + 2]


def test_update__about_a_plane_with_a_threshold_finds_the_halfspace_there() -> None:
    # labels of sgn(v*·x - 0.4), looked at from a plane beside it: one update comes nearer
    block, planted = draw()
    shifted = Block(block.X, np.where(block.X @ planted.v >= 0.4, 1, -1).astype(np.int8), block.rows)
    start = turn(planted.v, planted.u, 0.15)
    update = make_update(start, 0.25, threshold=0.4)
    needs = update.needs()
    found, outcome = update.conclude(needs.finalize(needs.map(shifted)))
    assert overall_outcome(outcome.test_results) is Outcome.PASSED
    assert distance(found.plane.normal, planted.v) < 0.05
    assert found.plane.threshold == pytest.approx(0.4, abs=0.05)


def make_learner(dim: int, degree: int = 4) -> ProperLearner:
    moments = MomentTester(dim=dim, degree=degree, moment_tolerance=0.1, spectral_tolerance=0.3, tau=0.01)
    return ProperLearner(TesterSet((moments,)))


def learn(noise: str, rate: float, marginal: str = "gaussian", rows: int = 100_000, dim: int = 6) -> Any:
    spec = SyntheticSpec(rows=rows, dim=dim, marginal=marginal, noise=noise, rate=rate, seed=3)
    planted = plant(spec)
    data = generate(spec, planted, RowRange(0, rows))
    learner = make_learner(dim)
    needs = learner.needs()
    block = Block(data.X, data.y, np.arange(rows))
    return learner.conclude(needs.finalize(needs.map(block)), n_seen=rows), planted.v


def test_proper_learner__finds_the_planted_direction_without_noise() -> None:
    # the Chow vector errs by about sqrt(d / n) = 0.008
    outcome, v = learn("none", 0.0)
    assert overall_outcome(outcome.test_results) is Outcome.PASSED
    assert np.linalg.norm(outcome.plane.normal - v) < 0.03
    assert outcome.strength == pytest.approx(1, abs=0.025)


@pytest.mark.parametrize(("noise", "rate"), [("random", 0.1), ("chow", 0.05), ("far", 0.05)])
def test_proper_learner__error_is_of_the_order_of_root_opt(noise: str, rate: float) -> None:
    outcome, v = learn(noise, rate)
    assert np.linalg.norm(outcome.plane.normal - v) < 2 * math.sqrt(rate)


def test_proper_learner__reports_a_marginal_that_is_not_gaussian() -> None:
    outcome, _ = learn("none", 0.0, marginal="laplace")
    assert overall_outcome(outcome.test_results) is Outcome.REJECTED


def test_proper_learner__labels_without_any_direction_give_a_unit_vector() -> None:
    learner = make_learner(2, degree=2)
    needs = learner.needs()
    X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    block = Block(X, np.ones(2, dtype=np.int8), np.arange(2))
    outcome = learner.conclude(needs.finalize(needs.map(block)), n_seen=2)
    assert np.linalg.norm(outcome.plane.normal) == 1
    assert outcome.strength == 0


REFINE_DIM, REFINE_ROWS, DELTA, THRESHOLD = 5, 100_000, 0.1, 0.3


def draw_shifted(seed: int = 1, n_rows: int = REFINE_ROWS, noise: float = 0.05, threshold: float = THRESHOLD) -> Block:
    """Gaussian rows, labels of the first feature with a threshold, some flipped at random."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, REFINE_DIM))
    y = np.where((X[:, 0] > threshold) ^ (rng.random(n_rows) < noise), 1, -1).astype(np.int8)
    return Block(X, y, np.arange(n_rows))


def make(n_rows: int = REFINE_ROWS, **parameters: Any) -> Refine:
    """The refine of a plane that is off by 0.03."""
    plane = Plane(np.array([1.0, 0.03, 0.0, 0.0, 0.0]), THRESHOLD + 0.02).unit()
    given = {"size": n_rows, "seed": 1, "centred": False} | parameters
    return Refine(start=Candidate(plane, DELTA, 0.0, 0.9, 9, 9), n_rows=n_rows, **given)


def refined(refine: Refine, block: Block) -> tuple[Candidate, ...]:
    needs = refine.needs()
    return refine.conclude(needs.finalize(needs.map(block)))


def off(plane: Plane) -> float:
    return float(np.hypot(plane.angle_to(Plane(np.eye(REFINE_DIM)[0])), plane.threshold - THRESHOLD))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_refine__planes_of_the_last_scales_are_nearer(seed: int) -> None:
    refine = make()
    found = refined(refine, draw_shifted(seed))
    assert len(found) == REFINED
    before, last = found
    assert last.delta == before.delta / 2 < DELTA / 2
    # an update errs by about delta sqrt(d / accepted rows) along all directions together, 0.002 at
    # the last scale but one; ten times that is out of reach of chance
    assert off(refine.start.plane) > 0.03
    assert max(off(one.plane) for one in found) < 0.01
    assert np.linalg.norm(last.plane.normal) == pytest.approx(1)


def test_refine__through_the_origin_there_is_no_threshold() -> None:
    refine = make(centred=True)
    start = replace(refine.start, plane=Plane(refine.start.plane.normal))
    found = refined(replace(refine, start=start), draw_shifted(threshold=0.0))
    assert {one.plane.threshold for one in found} == {0.0}


def test_refine__keeps_no_more_rows_than_there_is_room_for() -> None:
    wide, narrow = make(), make(size=20_000)
    assert wide.reach == pytest.approx(3 * DELTA)
    assert 1.5 * DELTA <= narrow.reach < wide.reach
    needs = narrow.needs()
    kept = needs.finalize(needs.map(draw_shifted())).n_rows
    assert kept == pytest.approx(20_000, rel=0.1)
    assert max(off(one.plane) for one in refined(narrow, draw_shifted())) < 0.02


def test_refine__labels_that_are_noise_end_it() -> None:
    # least squares on coins points away from the plane with probability 1/2 at every update
    found = [refined(make(), draw_shifted(seed, noise=0.5)) for seed in range(4)]
    assert all(len(one) < REFINED or off(one[-1].plane) > 0.001 for one in found)
    assert any(len(one) < REFINED for one in found)


def test_refine__finds_back_from_a_scale_that_is_too_fine() -> None:
    # ten times as far off as the scale: an update there sees rows of one side alone
    off_by = Plane(np.array([1.0, 0.05, 0.0, 0.0, 0.0])).unit()
    refine = Refine(Candidate(off_by, 0.005, 0.0, 0.9, 9, 9), REFINE_ROWS, REFINE_ROWS, 1, centred=True)
    found = refined(refine, draw_shifted(threshold=0.0))
    # by chance 0.002 at the last scale, as above
    assert found[-1].plane.angle_to(Plane(np.eye(REFINE_DIM)[0])) < 0.01


def test_refine__ends_where_all_rows_lie_on_the_plane() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((2_000, REFINE_DIM))
    X[:, 0] = 0.0
    y = np.where(rng.random(2_000) < 0.5, 1, -1).astype(np.int8)
    refine = Refine(Candidate(Plane(np.eye(REFINE_DIM)[0]), DELTA, 0.0, 0.9, 9, 9), 2_000, 2_000, 1, centred=True)
    assert len(refined(refine, Block(X, y, np.arange(2_000)))) <= REFINED
