"""Logistic regression by Newton steps, against scikit-learn and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from streamhalf.data.block import Block
from streamhalf.reductions import LogisticLine
from streamhalf.reductions.logistic import PENALTY, logistic_plane, newton_weights
from streamhalf.testing import make_block


def draw(n_rows: int = 2_000, *, dim: int = 4, seed: int = 3) -> Block:
    """Rows with chosen scales and means; labels by a logistic law with an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim)) * np.logspace(-2, 2, dim) + np.linspace(50, -3, dim)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    chance = 1 / (1 + np.exp(-(Z @ np.linspace(-1, 2, dim) + 0.7)))
    y = np.where(rng.random(n_rows) < chance, 1, -1).astype(np.int8)
    return Block(X, y, np.arange(n_rows))


def weights_of(block: Block, start: np.ndarray | None = None) -> np.ndarray:
    start = np.zeros(block.dim + 1) if start is None else start
    return newton_weights(block, block.X.mean(axis=0), block.X.std(axis=0), start)


def test_newton_weights__are_those_of_scikit_learn() -> None:
    block = draw()
    Z = (block.X - block.X.mean(axis=0)) / block.X.std(axis=0)
    found = weights_of(block)
    other = LogisticRegression(C=1 / PENALTY, tol=1e-10, max_iter=1_000).fit(Z, block.y)
    np.testing.assert_allclose(found, [*other.coef_[0], other.intercept_[0]], atol=1e-3)
    # the plane is the boundary among rows as they came
    plane = logistic_plane(block)
    along, expected = plane.margins(block.X), Z @ found[:-1] + found[-1]
    np.testing.assert_allclose(along, expected, atol=1e-9)


def test_newton_weights__steps_that_go_too_far_are_halved() -> None:
    # far out the loss is nearly straight: a Newton step overshoots by far
    block = draw(400)
    far = weights_of(block, np.array([40.0, -40, 40, -40, 30]))
    np.testing.assert_allclose(far, weights_of(block), atol=2e-3)


def test_logistic_plane__a_constant_feature_gets_no_weight() -> None:
    block = draw()
    X = np.column_stack([block.X, np.full(block.n_rows, 7.0)])
    found, without = logistic_plane(Block(X, block.y, block.rows)), logistic_plane(block)
    assert found.normal[-1] == 0
    np.testing.assert_allclose(found.normal[:-1], without.normal)


@pytest.mark.parametrize("labels", ["all +1", "all -1", "apart"])
def test_logistic_plane__rows_without_errors_have_finite_weights(labels: str) -> None:
    block = draw(300)
    above = block.X[:, 1] >= block.X[:, 1].mean()
    positive = {"all +1": True, "all -1": False, "apart": above}[labels]
    y = np.where(positive, 1, -1).astype(np.int8) * np.ones(300, dtype=np.int8)
    found = logistic_plane(Block(block.X, y, block.rows))
    assert np.isfinite(found.normal).all()
    assert found.errors(block.X, y) <= (3 if labels == "apart" else 0)


def test_logistic_line__gradients_are_derivatives_of_the_loss() -> None:
    block = make_block(300, 3, seed=1)
    at, move = np.array([0.3, -1, 2, 1]), np.array([1.0, 0.5, -0.5, 0.2])
    line = LogisticLine(np.array([0.1, 0.2, -0.3]), np.array([1.0, 2.0, 0.5]), at, move, (-1e-2, 0.0, 1e-2))
    found = line.finalize(line.map(block))
    assert found.n_rows == 300
    slope = (found.losses[2] - found.losses[0]) / 2e-2
    assert slope == pytest.approx(found.gradients[1] @ move, rel=1e-3)
