"""Halfspaces learnt in memory or by regression, whatever the law of the rows, and which one wins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamhalf
from streamhalf import RunConfig
from streamhalf.algorithms import plan as run_plan
from streamhalf.algorithms.baselines import (
    FEW_TO_CHOOSE,
    METHODS,
    REGRESSION_PASSES,
    Baseline,
    choose,
    cross_fit,
    learn_baselines,
    learn_baselines_on_sample,
    regress,
    regress_in_memory,
    regression_passes,
)
from streamhalf.algorithms.plan import RunPlan, lacks_rows, plan_for_rows
from streamhalf.algorithms.row_split import draw_sample
from streamhalf.data.block import Block
from streamhalf.engine import memory
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream, uniforms_at
from streamhalf.reductions.errors import PlaneErrorsResult
from streamhalf.results import Method, Outcome, PassRecord
from tests.algorithms.runs import draw, serial_run
from tests.conftest import StoreWriter
from tests.saying import said

DIM = 4
PLANTED = np.array([0.6, -0.8, 0.0, 0.0])
RADIAL = {method for (radial, _, _), method in METHODS.items() if radial}


def labels(X: np.ndarray, t: float, *, flipped: float = 0.0, seed: int = 0) -> np.ndarray:
    wrong = np.random.default_rng(seed).random(len(X)) < flipped
    return np.where((t <= X @ PLANTED) != wrong, 1, -1).astype(np.int8)


def gaussian(n_rows: int = 20_000, *, positive: float = 0.5, flipped: float = 0.05, seed: int = 1) -> Block:
    X = np.random.default_rng(seed).standard_normal((n_rows, DIM))
    y = labels(X, float(ndtri(1 - positive)), flipped=flipped)
    return Block(X, y, np.arange(n_rows))


def errors(members: tuple[Baseline, ...], block: Block) -> dict[Method, float]:
    """Share of the rows that each member gets wrong."""
    return {one.method: one.plane.errors(block.X, block.y) / block.n_rows for one in members}


@pytest.mark.parametrize("positive", [0.5, 0.2, 0.95])
def test_pool__every_member_finds_plane_and_threshold(positive: float) -> None:
    block = gaussian(positive=positive, flipped=0.01)
    fresh = gaussian(positive=positive, flipped=0.0, seed=2)
    members = learn_baselines(block, seed=1)
    # learning from n rows errs by about sqrt(d / n) = 0.014; radial ones go through a centre first
    for method, error in errors(members, fresh).items():
        assert error < 0.03, method
    thresholds = [one.plane.unit().threshold for one in members]
    assert thresholds == pytest.approx([float(ndtri(1 - positive))] * len(members), abs=0.15)


def test_pool__noise_that_pulls_a_regression_does_not_pull_localised_updates() -> None:
    block = gaussian(flipped=0.0)
    # the far rows on one side of a direction orthogonal to the planted one
    score = np.where(block.y * block.X[:, 2] > 0, np.abs(block.X[:, 2]), 0)
    y = block.y.copy()
    y[np.argsort(-score)[:1_000]] *= -1
    found = errors(learn_baselines(Block(block.X, y, block.rows), seed=1), gaussian(flipped=0, seed=2))
    assert found[Method.REGRESSION] > 0.03
    assert min(found.values()) < 0.01


def test_pool__follows_the_rows_through_any_affine_map() -> None:
    block = gaussian()
    matrix = np.random.default_rng(3).standard_normal((DIM, DIM)) * [1e3, 1.0, 1e-3, 1.0]
    moved = Block(block.X @ matrix + [1e4, 0.0, -3.0, 7.0], block.y, block.rows)
    before = errors(learn_baselines(block, seed=1), block)
    after = errors(learn_baselines(moved, seed=1), moved)
    assert set(before) == set(after)
    for method in before:
        assert after[method] == pytest.approx(before[method], abs=0.005)


def test_pool__heavy_tails_are_learnt_in_the_radial_position() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((20_000, DIM)) / np.abs(rng.standard_normal((20_000, 1)))  # Cauchy
    block = Block(X, labels(X, 0.0, flipped=0.05), np.arange(20_000))
    found = errors(learn_baselines(block, seed=1), block)
    assert min(found[method] for method in RADIAL) == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize("point", [np.zeros(DIM), np.array([0.3, 0.0, -0.2, 1.0])])
def test_pool__may_have_to_go_through_a_point(point: np.ndarray) -> None:
    members = learn_baselines(gaussian(2_000, positive=0.3), seed=1, point=point)
    assert len(members) > 5
    for one in members:
        assert one.plane.margins(point[None])[0] == pytest.approx(0, abs=1e-9 * one.plane.length)


def test_pool__the_regression_is_that_of_scikit_learn_at_its_best_threshold() -> None:
    block = gaussian(3_000, positive=0.3, flipped=0.1)
    plane = learn_baselines(block, seed=1)[0].plane
    Z = (block.X - block.X.mean(axis=0)) / block.X.std(axis=0)
    other = LogisticRegression(tol=1e-8).fit(Z, block.y)
    normal = other.coef_[0] / block.X.std(axis=0)
    np.testing.assert_allclose(plane.unit().normal, normal / np.linalg.norm(normal), atol=1e-3)
    assert plane.errors(block.X, block.y) <= np.count_nonzero(other.predict(Z) != block.y)


def test_pool__features_that_stand_still_or_repeat_others_leave_it_the_rest() -> None:
    block = gaussian(2_000)
    X = np.column_stack([block.X, np.full(2_000, 7.0), block.X[:, 0] - 2 * block.X[:, 3]])
    members = learn_baselines(Block(X, block.y, block.rows), seed=1)
    assert members[0].method is Method.REGRESSION
    for one in members:
        assert np.isfinite(one.plane.normal).all()
        assert one.plane.errors(X, block.y) < 0.1 * 2_000


def test_pool__rows_without_a_radial_position_have_the_other_recipes() -> None:
    # most rows lie on a line: no shape spreads their directions evenly
    block = gaussian(1_000)
    X = block.X.copy()
    X[:700, 1:] = 0
    found = {one.method for one in learn_baselines(Block(X, block.y, block.rows), seed=1)}
    assert found == {Method.REGRESSION, *METHODS.values()} - RADIAL


def test_pool__no_rows_have_a_halfspace() -> None:
    nothing = Block(np.empty((0, 2)), np.empty(0, dtype=np.int8), np.empty(0, dtype=np.int64))
    (free,) = learn_baselines(nothing, seed=1)
    assert (free.plane.length, free.plane.threshold) == (1, 0)
    (bound,) = learn_baselines(nothing, seed=1, point=np.array([3.0, 4.0]))
    assert bound.plane.margins(np.array([[3.0, 4.0]])) == 0


@pytest.mark.parametrize("label", [1, -1])
def test_pool__one_class_is_never_wrong(label: int) -> None:
    block = gaussian(500)
    alike = Block(block.X, np.full(500, label, dtype=np.int8), block.rows)
    assert errors(learn_baselines(alike, seed=1), alike)[Method.REGRESSION] == 0


def counted(*wrong: set[int]) -> PlaneErrorsResult:
    """Planes that get these of 1,000 rows wrong."""
    errors = np.array([[len(one)] for one in wrong])
    shared = np.array([[len(one & other) for other in wrong] for one in wrong])
    return PlaneErrorsResult(np.array([1_000]), errors, shared, 0, np.zeros(len(wrong), np.int64))


def numbers(start: int, stop: int) -> set[int]:
    return set(range(start, stop))


@pytest.mark.parametrize(("ahead", "chosen"), [(0, 0), (10, 0), (11, 1), (40, 1)])
def test_choose__a_gain_within_a_standard_error_goes_to_the_favourite(ahead: int, chosen: int) -> None:
    # they disagree on 100 numbers, and the first errs on `ahead` more of them
    more = 50 + ahead // 2
    found = counted(numbers(0, more + ahead % 2), numbers(200, 300 - more))
    assert found.disagreements(0, 1) == pytest.approx(100, abs=1)
    assert choose(found, [0]) == chosen
    assert choose(found, [1]) == 1


def test_choose__the_best_of_the_favourites_speaks_for_them() -> None:
    found = counted(numbers(0, 60), numbers(0, 50), numbers(100, 145), numbers(100, 160))
    assert choose(found, [0, 1]) == 1
    assert choose(found, [0]) == 2
    assert choose(found, []) == 2


def block_of(n_rows: int, **parameters: float) -> Block:
    X, y = draw(n_rows, dim=3, **parameters)
    return Block(X, y, np.arange(n_rows))


def test_cross_fit__few_rows_keep_the_regression() -> None:
    # on 100 numbers nine methods do about as well: some would be ahead by chance on the numbers they
    # learnt from
    block = block_of(100)
    members = learn_baselines(block, seed=1)
    assert len(members) > 5
    assert cross_fit(block, members, seed=1) is members[0]


def test_cross_fit__a_recipe_that_is_better_wins() -> None:
    # far numbers with wrong labels pull a regression, and localised updates do not see them
    rng = np.random.default_rng(4)
    X = rng.standard_normal((4_000, 2))
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    far = np.argsort(-np.abs(X[:, 0]) - 2 * X[:, 1] * np.sign(X[:, 0]))[:400]
    y[far] *= -1
    block = Block(X, y, np.arange(4_000))
    members = learn_baselines(block, seed=1)
    found = cross_fit(block, members, seed=1)
    assert found.method is not Method.REGRESSION
    assert found.plane.errors(X, y) < members[0].plane.errors(X, y) - 30


def test_cross_fit__recipes_that_a_fold_lacks_are_left_out() -> None:
    # one that no fold finds again, and errs on nothing where it was learnt
    block = block_of(200, rate=0.0)
    regression = learn_baselines(block, seed=1)[0]
    alien = Baseline(Method.PATH, Plane(np.array([1.0, 1.0, 0.0])))
    assert alien.plane.errors(block.X, block.y) == 0
    assert cross_fit(block, (regression, alien), seed=1) is regression


DATA = draw(90_000, dim=3)


def sampled(data: tuple[Any, Any] = DATA, **parameters: Any) -> tuple[Block, float, tuple[PassRecord, ...]]:
    """The sample, the share of the rows that is held out, and the passes that it took."""
    with serial_run(data, seed=3, **parameters) as (run, source, config, _):
        plan = plan_for_rows(source.n_rows, source.dim, config)
        return draw_sample(run, source, plan, config), plan.held_out, tuple(run.passes)


def test_draw_sample__is_all_rows_for_learning_where_they_fit() -> None:
    block, held_out, (record,) = sampled()
    assert 0 < held_out < 1
    uniforms = uniforms_at(3, Stream.SHARES, np.arange(90_000))
    np.testing.assert_array_equal(block.rows, np.flatnonzero(uniforms >= held_out))
    X, y = DATA
    np.testing.assert_array_equal(block.X, X[block.rows])
    np.testing.assert_array_equal(block.y, y[block.rows])
    assert (record.name, record.rows_read, record.rows_accepted) == ("sample", 90_000, block.n_rows)


def test_draw_sample__takes_as_many_as_there_is_room_for_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TASK_NBYTES", 1 << 18)
    block, held_out, (record,) = sampled()
    assert 100 < block.n_rows < 1_000
    assert record.rows_read < 5 * block.n_rows
    assert (uniforms_at(3, Stream.SHARES, block.rows) >= held_out).all()
    X, y = DATA
    np.testing.assert_array_equal(block.X, X[block.rows])
    np.testing.assert_array_equal(block.y, y[block.rows])
    # 64 windows of equal chance: a third of the data has none with probability below 1e-11
    assert (np.bincount(block.rows // 30_000, minlength=3) > 0).all()


def test_draw_sample__a_quarter_of_few_rows_is_held_out() -> None:
    block, held_out, _ = sampled(draw(300, dim=3), eps="auto")
    assert held_out == 0.25
    # a binomial of mean 225 and standard deviation 7.5
    assert block.n_rows == pytest.approx(225, abs=45)


def some(n_rows: int) -> Block:
    X, y = DATA
    return Block(X[:n_rows] + 0.3, y[:n_rows], np.arange(n_rows))


def plan_of(final_rows: int) -> RunPlan:
    plan = plan_for_rows(4 * final_rows, 2, RunConfig(seed=1))
    return replace(plan, final_rows=final_rows)


def test_learn_members__of_many_rows_are_the_pool_and_of_few_the_best_of_it() -> None:
    config = RunConfig(seed=1)
    many = learn_baselines_on_sample(some(8_000), plan_of(FEW_TO_CHOOSE), config, spare=False)
    assert many[0].method is Method.REGRESSION
    assert len({one.method for one in many}) == len(many) > 5
    spared = learn_baselines_on_sample(some(8_000), plan_of(FEW_TO_CHOOSE), config, spare=True)
    assert [one.method for one in spared] == [one.method for one in many]
    (one,) = learn_baselines_on_sample(some(1_000), plan_of(FEW_TO_CHOOSE - 1), config, spare=False)
    assert one.plane.errors(*DATA) > 0
    # the rows were moved by 0.3: x1 + x2 >= 0.6
    assert one.plane.unit().threshold == pytest.approx(0.6 / 2**0.5, abs=0.1)


@pytest.mark.parametrize(
    ("through", "transform", "centred"),
    [("origin", "auto", False), ("centre", "stored", False), ("centre", "isotropic", True)],
)
@pytest.mark.parametrize("held_out", [250, FEW_TO_CHOOSE])
def test_learn_members__go_through_the_point_that_is_asked_for(
    through: str, transform: str, centred: bool, held_out: int
) -> None:
    block = some(1_000)
    config = RunConfig(seed=1, through=through, feature_transform=transform)
    for one in learn_baselines_on_sample(block, plan_of(held_out), config, spare=False):
        if centred:
            margin = one.plane.margins(block.X.mean(axis=0)[None])[0]
            assert margin == pytest.approx(0, abs=1e-12 * one.plane.length)
        else:
            assert one.plane.threshold == 0  # exactly: its class is read off that


SEED, WIDE, N_WIDE, N_FRESH = 4, 300, 3_000, 20_000
Rows = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than 250 rows in memory, fewer than there are features."""
    monkeypatch.setattr(run_plan, "_MOST_SAMPLED", 250)


def draw_wide(n_rows: int, dim: int, *, noise: float = 0.0, mixed: bool = False) -> Rows:
    """Gaussian rows, with spreads from 1 to 1/100 along random axes if `mixed`."""
    rng = np.random.default_rng(dim)
    X = rng.standard_normal((n_rows, dim))
    if mixed:
        X = X * np.logspace(0, -2, dim) @ np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    y = np.where(X @ rng.standard_normal(dim) + 0.3 >= 0, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < noise] *= -1
    return X.astype(np.float32), y


def scikit_learn(X: np.ndarray, y: np.ndarray) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000)).fit(X, y)


def regressed(data: Rows, sample: Block | None = None) -> tuple[Plane, int, Rows]:
    """The plane, the passes that they took, and the rows for learning."""
    with serial_run(data, seed=SEED) as (run, source, config, _):
        plan = plan_for_rows(source.n_rows, source.dim, config)
        assert lacks_rows(plan, config)
        sample = sample or draw_sample(run, source, plan, config)
        before = len(run.passes)
        plane = regress(run, source, sample, plan, config)
        learning = uniforms_at(SEED, Stream.SHARES, np.arange(source.n_rows)) >= plan.held_out
        return plane, len(run.passes) - before, (data[0][learning], data[1][learning])


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_fit__is_not_behind_scikit_learn_on_the_same_rows(small_sample: None, noise: float, mixed: bool) -> None:
    X, y = draw_wide(N_WIDE + N_FRESH, WIDE, noise=noise, mixed=mixed)
    fresh = X[N_WIDE:], y[N_WIDE:]
    result = streamhalf.fit((X[:N_WIDE], y[:N_WIDE]), seed=SEED, certificate_degree=0)
    assert result.held_out is not None
    learning = uniforms_at(SEED, Stream.SHARES, np.arange(N_WIDE)) >= result.held_out.high
    theirs = 1 - scikit_learn(X[:N_WIDE][learning], y[:N_WIDE][learning]).score(*fresh)
    assert result.halfspace is not None
    assert result.halfspace.plane.errors(*fresh) / N_FRESH <= theirs + 0.005
    assert {one.method for one in result.candidates} == {Method.REGRESSION}
    assert result.error is not None
    # the error is that of the other rows, and its bound holds for fresh ones (it may fail with tau)
    plane, held_out = result.halfspace.plane, (X[:N_WIDE][~learning], y[:N_WIDE][~learning])
    assert result.error.empirical == plane.errors(*held_out) / len(held_out[1])
    assert plane.errors(*fresh) / N_FRESH <= result.error.upper


def test_fit__says_nothing_of_dependent_features_where_rows_cannot_tell(small_sample: None) -> None:
    result = streamhalf.fit(draw_wide(N_WIDE, WIDE), seed=SEED, certificate_degree=0)
    assert not any(one.features for one in result.transforms)
    assert [one.outcome for one in result.transforms[1:]] == [Outcome.NOT_JUDGED] * 2
    assert "repeat each other" not in said(result)


def test_fit__has_the_same_bits_for_every_chunking_and_engine(
    small_sample: None, write_store: StoreWriter, small_blocks: None
) -> None:
    X, y = draw_wide(N_WIDE, WIDE, noise=0.05)
    found = [
        streamhalf.fit(write_store(X, y, chunk_rows=chunk_rows), seed=SEED, certificate_degree=0, **engine)
        for chunk_rows, engine in (
            (333, {"scheduler": "serial"}),
            (1_000, {"scheduler": "threads", "n_workers": 3}),
            (N_WIDE, {"scheduler": "threads", "n_workers": 2}),
        )
    ]
    assert len({one.halfspace for one in found}) == len({one.error for one in found}) == 1


def test_regress__finds_the_weights_of_scikit_learn(small_sample: None) -> None:
    plane, n_passes, (X, y) = regressed(draw_wide(2_000, 20, noise=0.05, mixed=True))
    assert n_passes < REGRESSION_PASSES
    theirs = scikit_learn(X, y)
    scale, weights = theirs[0].scale_, theirs[1].coef_[0]
    ours = plane.normal * scale
    # the penalty is of standard deviations that are rounded to a few thousandths
    np.testing.assert_allclose(ours, weights, atol=0.04 * np.abs(weights).max())


def test_regress__shortens_steps_that_all_go_too_far(small_sample: None) -> None:
    # features look independent in the sample, and are one and the same elsewhere
    X, y = draw_wide(2_000, 60)
    X[:] = X[:, :1]
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    rng = np.random.default_rng(0)
    sample = Block(rng.standard_normal((4_000, 60)), np.ones(4_000, np.int8), np.arange(4_000))
    plane, _, (X, y) = regressed((X, y), sample)
    assert plane.errors(X, y) <= 0.01 * len(y)


def test_regress__knows_features_that_are_constant_in_the_sample(small_sample: None) -> None:
    X, y = draw_wide(2_000, 5)
    rare = np.zeros(2_000, dtype=np.float32)
    rare[::20] = 1
    y = np.where(rare > 0, 1, y).astype(np.int8)
    data = np.column_stack([X, rare, np.full(2_000, 7, np.float32)]), y
    common = np.flatnonzero(rare == 0)[:250]
    plane, _, (X, y) = regressed(data, Block(data[0][common], y[common], common))
    assert plane.normal[5] > 0
    assert plane.normal[6] == 0
    assert plane.errors(X, y) < 0.03 * len(y)


def test_plan__counts_the_passes_of_a_regression(small_sample: None) -> None:
    data = draw_wide(N_WIDE, WIDE)
    sample, regression, *_ = streamhalf.plan(data).passes
    assert (sample.name, regression.name) == ("sample", "regression")
    assert regression.nbytes == regression_passes(regression.rows, WIDE) * N_WIDE * (4 * WIDE + 1)


def test_lacks_rows__not_where_all_are_in_memory_or_a_sample_has_enough() -> None:
    config = streamhalf.RunConfig(seed=1)
    for n_rows, dim, lacking in (
        (1_000_000, 10, False),
        (10_000_000, 100, False),
        (4_000, 500, False),
        (20_000, 2_000, True),
        (20_000, 500, True),
    ):
        plan = plan_for_rows(n_rows, dim, config)
        assert lacks_rows(plan, config) is lacking
        # however few are held out
        assert lacks_rows(replace(plan, final_rows=1), config) is lacking


# 300 rows choose: on clean rows their choice costs 0.0067 with this seed
@pytest.mark.parametrize(("noise", "gain"), [(0.0, -0.01), (0.15, 0.005)])
def test_regress__validation_rows_choose_the_penalty(noise: float, gain: float) -> None:
    X, y = draw_wide(1_500 + N_FRESH, 300, noise=noise)
    theirs = 1 - scikit_learn(X[:1_500], y[:1_500]).score(X[1_500:], y[1_500:])
    plane = regress_in_memory(Block(X[:1_500], y[:1_500], np.arange(1_500)), seed=1)
    assert plane.errors(X[1_500:], y[1_500:]) / N_FRESH <= theirs - gain
