from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.reductions.spread import Tyler

RNG = np.random.default_rng(4)
X = RNG.standard_normal((400, 3)) @ RNG.standard_normal((3, 3)) + [1.0, 0.0, -2.0]
CENTRE, MATRIX = np.array([0.5, 0.2, -1.0]), RNG.standard_normal((3, 3))


def block_of(X: NDArray[np.float64]) -> Block:
    return Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))


def test_tyler__sums_directions_row_by_row() -> None:
    found = Tyler(CENTRE, MATRIX).map(block_of(X))
    turned = [MATRIX @ (row - CENTRE) for row in X]
    units = [one / np.linalg.norm(one) for one in turned]
    np.testing.assert_allclose(found.directions, sum(units))
    np.testing.assert_allclose(found.products, sum(np.outer(one, one) for one in units))
    np.testing.assert_allclose(found.inverse, sum(1 / np.linalg.norm(one) for one in turned))
    np.testing.assert_allclose(found.offsets, sum(turned))
    assert (found.n_rows, found.n_central) == (400, 0)


def test_step__is_the_fixed_point_iteration_of_the_shape() -> None:
    # Sigma <- d mean of z z^T / (z^T Sigma^-1 z), up to a factor
    sigma = np.linalg.inv(MATRIX.T @ MATRIX)
    Z = X - CENTRE
    weights = np.einsum("ij,jk,ik->i", Z, np.linalg.inv(sigma), Z)
    expected = 3 * (Z / weights[:, None]).T @ Z / len(Z)
    tyler = Tyler(CENTRE, MATRIX)
    moved = tyler.step(tyler.map(block_of(X)), centre="origin")
    np.testing.assert_array_equal(moved.centre, CENTRE)
    np.testing.assert_allclose(np.linalg.inv(moved.matrix.T @ moved.matrix), expected)


def test_step__moves_the_centre_towards_the_mean_or_the_middle() -> None:
    tyler = Tyler(CENTRE, MATRIX)
    sums = tyler.map(block_of(X))
    np.testing.assert_allclose(tyler.step(sums, centre="mean").centre, X.mean(axis=0))
    weights = 1 / np.linalg.norm((X - CENTRE) @ MATRIX.T, axis=1)
    middle = weights @ X / weights.sum()
    np.testing.assert_allclose(tyler.step(sums, centre="auto").centre, middle)


def test_step__rows_at_the_centre_hold_it_back() -> None:
    few, many = (np.vstack([X, np.tile(CENTRE, (count, 1))]) for count in (20, 390))
    tyler = Tyler(CENTRE, MATRIX)
    free, held, kept = (tyler.map(block_of(rows)) for rows in (X, few, many))
    assert (held.n_central, kept.n_central) == (20, 390)
    assert kept.lean == 0 < held.lean < free.lean
    np.testing.assert_array_equal(tyler.step(kept, centre="auto").centre, CENTRE)
    step, whole = (tyler.step(one, centre="auto").centre - CENTRE for one in (held, free))
    share = 1 - 20 / np.linalg.norm(free.directions)
    np.testing.assert_allclose(step, share * whole, rtol=1e-9)
