"""Halfspaces learnt in memory, whatever the law of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.linear_model import LogisticRegression

from streamhalf.algorithms.baselines import METHODS, Baseline, learn_baselines
from streamhalf.data.block import Block
from streamhalf.results import Method

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
