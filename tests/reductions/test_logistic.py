"""Logistic regression by Newton steps, against scikit-learn and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from streamhalf.data.block import Block
from streamhalf.reductions.logistic import PENALTY, Logistic
from streamhalf.testing import fold, make_block


def draw(n_rows: int = 2_000, *, dim: int = 4, seed: int = 3) -> Block:
    """Rows with chosen scales and means; labels by a logistic law with an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim)) * np.logspace(-2, 2, dim) + np.linspace(50, -3, dim)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    chance = 1 / (1 + np.exp(-(Z @ np.linspace(-1, 2, dim) + 0.7)))
    y = np.where(rng.random(n_rows) < chance, 1, -1).astype(np.int8)
    return Block(X, y, np.arange(n_rows))


def started(block: Block) -> Logistic:
    return Logistic.start(block.X.mean(axis=0), block.X.std(axis=0))


def test_settle__finds_the_weights_of_scikit_learn() -> None:
    block = draw()
    found = started(block).settle(block)
    Z = (block.X - found.centre) / found.scale
    other = LogisticRegression(C=1 / PENALTY, tol=1e-10, max_iter=1_000).fit(Z, block.y)
    np.testing.assert_allclose(found.weights[:-1], other.coef_[0], atol=1e-3)
    assert found.weights[-1] == pytest.approx(other.intercept_[0], abs=1e-3)
    # the objective is flat at its minimum: ours is no higher but for rounding
    own = found.objective(found.map(block))
    best = Logistic(found.centre, found.scale, np.append(other.coef_[0], other.intercept_[0]))
    assert own <= best.objective(best.map(block)) * (1 + 1e-6)


def test_map__gradient_and_hessian_are_derivatives_of_the_loss() -> None:
    block = make_block(300, 3, seed=1)
    at = Logistic(np.array([0.1, 0.2, -0.3]), np.array([1.0, 2.0, 0.5]), np.array([0.3, -1, 2, 1]))

    def sums(move: np.ndarray):
        return Logistic(at.centre, at.scale, at.weights + move).map(block)

    here = at.map(block)
    assert here.n_rows == 300
    for i, move in enumerate(1e-5 * np.eye(4)):
        ahead, behind = sums(move), sums(-move)
        assert (ahead.loss - behind.loss) / 2e-5 == pytest.approx(here.gradient[i], rel=1e-5)
        slope = (ahead.gradient - behind.gradient) / 2e-5
        np.testing.assert_allclose(slope, here.hessian[i], rtol=1e-5)


def test_step__passes_over_blocks_settle_where_rows_in_memory_do() -> None:
    block = draw(500)
    at = started(block)
    for _ in range(12):
        at = at.step(fold(at, block, [slice(0, 123), slice(123, 124), slice(124, 500)]))
    np.testing.assert_allclose(at.weights, started(block).settle(block).weights, atol=1e-3)


def test_plane__is_the_boundary_among_rows_as_they_came() -> None:
    block = draw()
    found = started(block).settle(block)
    Z = (block.X - found.centre) / found.scale
    np.testing.assert_allclose(found.plane.margins(block.X), Z @ found.weights[:-1] + found.weights[-1], atol=1e-9)
    assert found.plane.errors(block.X, block.y) < 0.3 * block.n_rows


def test_start__a_feature_that_stands_still_gets_no_weight() -> None:
    block = draw()
    X = np.column_stack([block.X, np.full(block.n_rows, 7.0)])
    still = Block(X, block.y, block.rows)
    found = started(still).settle(still)
    assert found.plane.normal[-1] == 0
    np.testing.assert_allclose(found.weights[:-2], started(block).settle(block).weights[:-1])


@pytest.mark.parametrize("label", [1, -1])
def test_settle__one_class_has_finite_weights_and_no_error(label: int) -> None:
    block = draw(200)
    alike = Block(block.X, np.full(200, label, dtype=np.int8), block.rows)
    found = started(alike).settle(alike)
    assert np.isfinite(found.weights).all()
    assert found.plane.errors(alike.X, alike.y) == 0


def test_settle__rows_that_a_plane_separates_have_finite_weights() -> None:
    block = draw(300)
    y = np.where(block.X[:, 1] >= block.X[:, 1].mean(), 1, -1).astype(np.int8)
    apart = Block(block.X, y, block.rows)
    found = started(apart).settle(apart)
    assert np.isfinite(found.weights).all()
    assert found.plane.errors(apart.X, y) <= 3


def test_settle__steps_that_go_too_far_are_halved() -> None:
    # far out the loss is nearly straight: a Newton step overshoots by far
    block = draw(400)
    far = Logistic(block.X.mean(axis=0), block.X.std(axis=0), np.array([40.0, -40, 40, -40, 30]))
    ahead = far.step(far.map(block))
    assert ahead.objective(ahead.map(block)) > far.objective(far.map(block))
    np.testing.assert_allclose(far.settle(block).weights, started(block).settle(block).weights, atol=2e-3)
