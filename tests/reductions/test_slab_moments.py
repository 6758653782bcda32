"""Slab moments against sums over rows, and what becomes of rows on the boundary."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.errors import UsageError
from streamhalf.kernels.monomials import monomial_ranks
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.slabs import complement_basis, split_basis
from streamhalf.reductions.slab_moments import SlabMoments, across_edges, certificate_edges


def reduce_rows(X, y, v, *, threshold=0.0, degree=4, error=0.1, by_label=False):
    plane = Plane(np.asarray(v, dtype=float), threshold)
    reduction = SlabMoments(plane, certificate_edges(error), degree, by_label)
    block = Block(np.asarray(X), np.asarray(y, dtype=np.int8), np.arange(len(y)))
    return reduction.finalize(reduction.map(block))


@pytest.mark.parametrize("dim", [1, 2, 5, 40])
def test_complement_basis__is_orthonormal_and_orthogonal_to_v(dim):
    rng = np.random.default_rng(dim)
    for v in (np.eye(dim)[0], -np.eye(dim)[0], rng.standard_normal(dim)):
        unit = v / np.linalg.norm(v)
        full = np.column_stack([unit, complement_basis(unit)])
        np.testing.assert_allclose(full.T @ full, np.eye(dim), atol=1e-14)


@pytest.mark.parametrize("dim", [3, 6, 40])
def test_split_basis__is_orthonormal_and_takes_the_direction_apart(dim):
    rng = np.random.default_rng(dim)
    v, direction = rng.standard_normal((2, dim))
    v /= np.linalg.norm(v)
    second, rest = split_basis(complement_basis(v), direction)
    full = np.column_stack([v, second, rest])
    np.testing.assert_allclose(full.T @ full, np.eye(dim), atol=1e-14)
    np.testing.assert_allclose(rest.T @ direction, 0, atol=1e-13)


def test_boxes__hold_rows_between_their_extremes_in_strips():
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((3_000, 4)), np.where(rng.random(3_000) < 0.5, 1, -1)
    across, edges = np.array([1.0, 2.0, 0.0, 0.0]), across_edges(6)
    plane = Plane(np.eye(4)[0])
    reduction = SlabMoments(plane, certificate_edges(0.1), 4, True, across=(across, edges))
    found = reduction.finalize(reduction.map(Block(X, y.astype(np.int8), np.arange(3_000))))
    assert found.rest == 2
    assert len(found.counts) == reduction.n_slabs == 2 * (len(edges) + 1) * found.n_side
    assert found.counts.sum() == 3_000
    q = X[:, 1] * y  # the part of the direction that is orthogonal to v
    assert np.nanmax(np.where(found.counts > 0, found.across[1], np.nan)) == q.max()
    held = found.counts > 0
    strip = found.strips[held] % (len(edges) + 1)
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    assert (found.across[0, held] >= ends[strip]).all()
    assert (found.across[1, held] < ends[strip + 1]).all()
    central = found.central()
    assert len(central.counts) == len(found.counts) // 2
    assert central.sums[:, 0].sum() == 3_000
    squares = (X[:, 2] ** 2 + X[:, 3] ** 2).sum()  # whatever the basis of what is left
    ranks = monomial_ranks(np.array([[0, 0], [1, 1]]), 2)
    assert central.sums[:, ranks].sum() == pytest.approx(squares)


def test_with_constant__has_the_moments_of_a_further_feature():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((800, 3)), np.where(rng.random(800) < 0.3, 1, -1)
    found = reduce_rows(X, y, [1.0, 0.0, 0.0], by_label=True)
    wider = found.with_constant(0.7)
    s = np.column_stack([(X * y[:, None]) @ complement_basis(np.eye(3)[0]), 0.7 * y])
    assert (wider.rest, wider.degree, len(wider.counts)) == (3, 4, len(found.counts) // 2)
    assert not wider.by_label
    for variables in [(), (2,), (0, 2), (2, 2), (0, 1, 2), (1, 2, 2, 2), (0, 0, 1, 2), (2, 2, 2, 2)]:
        rank = monomial_ranks(np.array([variables], dtype=np.int64).reshape(1, -1), 3)[0]
        expected = np.prod(s[:, list(variables)], axis=1).sum()
        assert wider.sums[:, rank].sum() == pytest.approx(expected, rel=1e-12, abs=1e-11)
    few = found.upto(2).with_constant(0.7)
    assert few.degree == 2
    np.testing.assert_array_equal(few.sums, wider.sums[:, : few.sums.shape[1]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_slab_moments__equal_sums_over_rows(dtype):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 4)).astype(dtype)
    y = np.where(rng.random(500) < 0.5, 1, -1)
    v = np.array([0.5, 0.5, -0.5, 0.5])
    result = reduce_rows(X, y, v)
    r = X.astype(np.float64) * y[:, None]
    s = r @ complement_basis(v)
    assert result.n_rows == 500
    for variables in [(), (0,), (1, 2), (0, 0, 2), (0, 1, 1, 2), (2, 2, 2, 2)]:
        rank = monomial_ranks(np.array([variables], dtype=np.int64).reshape(1, -1), 3)[0]
        expected = np.prod(s[:, list(variables)], axis=1).sum()
        assert result.sums[:, rank].sum() == pytest.approx(expected, rel=1e-12, abs=1e-11)


def test_slab_moments__products_of_float32_do_not_overflow():
    X = np.array([[1.0, 2e15, 0.0], [-1.0, 1.0, 3e14]], dtype=np.float32)
    result = reduce_rows(X, [1, 1], [1.0, 0.0, 0.0])
    assert result.sums.max() == pytest.approx(16e60, rel=1e-6)


def test_slab_moments__slabs_hold_margins_of_one_sign_between_their_extremes():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 3))
    y = np.where(rng.random(400) < 0.5, 1, -1)
    result = reduce_rows(X, y, [1.0, 0.0, 0.0])
    z = X[:, 0] * y
    full = result.counts > 0
    assert (result.low[full] <= result.high[full]).all()
    assert result.counts[result.high < 0].sum() == (z < 0).sum()
    assert result.counts[result.low >= 0].sum() == (z >= 0).sum()
    assert (result.low.min(), result.high.max()) == (z.min(), z.max())


def test_slab_moments__by_label_about_a_threshold():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, 3))
    y = np.where(rng.random(600) < 0.3, 1, -1)
    result = reduce_rows(X, y, [1.0, 0.0, 0.0], threshold=0.7, by_label=True)
    assert result.by_label
    for label in (1, -1):
        own = result.labels == label
        z = (X[y == label, 0] - 0.7) * label
        assert result.counts[own].sum() == (y == label).sum()
        assert (result.low[own].min(), result.high[own].max()) == (z.min(), z.max())
    sides = (X[:, 0] >= 0.7, X[:, 0] <= 0.7, X[:, 0] >= 0, X[:, 0] <= 0)
    assert result.errors == tuple(np.count_nonzero(side != (y > 0)) for side in sides)


@pytest.mark.parametrize("threshold", [0.0, 0.7])
def test_central__is_of_slabs_of_both_labels_about_the_origin(threshold):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((600, 3))
    y = np.where(rng.random(600) < 0.3, 1, -1)
    whole = reduce_rows(X, y, [1.0, 0.0, 0.0])
    found = reduce_rows(X, y, [1.0, 0.0, 0.0], threshold=threshold, by_label=True).central()
    assert not found.by_label
    assert found.threshold == 0
    assert (found.n_rows, found.errors) == (whole.n_rows, whole.errors)
    z = y * X[:, 0]
    assert found.low.min() == pytest.approx(z.min(), abs=1e-15)
    assert found.high.max() == pytest.approx(z.max(), abs=1e-15)
    np.testing.assert_allclose(found.sums.sum(axis=0), whole.sums.sum(axis=0), atol=1e-9)
    if threshold == 0:
        np.testing.assert_array_equal(found.counts, whole.counts)
        np.testing.assert_array_equal(found.low, whole.low)
        np.testing.assert_allclose(found.sums, whole.sums, atol=1e-10)


def test_slab_moments__sign_of_zero_is_plus_one():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    y = np.array([1, -1, -1, -1, -1])
    result = reduce_rows(X, y, [1.0, 0.0])
    # of the three rows on the boundary those with y = -1 are errors of v and of -v alike
    assert result.errors[:2] == (3, 3)


@pytest.mark.parametrize(
    ("direction", "threshold", "edges", "degree", "word"),
    [
        ([1.0, 0.0], 0.0, [1.0, 2.0], 4, "edges"),
        ([1.0, 0.0], 0.0, [0.0, 0.0], 4, "edges"),
        ([1.0, 0.0], 0.0, [0.0], 3, "degree"),
        ([1.0, 1.0], 0.0, [0.0], 2, "direction"),
        ([1.0, 0.0], 0.5, [0.0], 2, "threshold"),
    ],
)
def test_slab_moments__wrong_parameter_is_named(direction, threshold, edges, degree, word):
    plane = Plane(np.array(direction), threshold)
    with pytest.raises(UsageError, match=word):
        SlabMoments(plane, np.array(edges), degree, by_label=False)
