from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from streamhalf import DataError
from streamhalf.data.block import Block
from streamhalf.data.transforms import Isotropic, Radial
from streamhalf.kernels.plane import Plane
from streamhalf.results import Halfspace, HalfspaceClass, Transform, replace

N_ROWS, DIM = 40_000, 4
RNG = np.random.default_rng(5)
MIX = RNG.standard_normal((DIM, DIM))
CENTRE = np.array([3.0, -1.0, 1000.0, 0.0])
GAUSSIAN = RNG.standard_normal((N_ROWS, DIM))
CAUCHY = (GAUSSIAN / np.abs(RNG.standard_normal(N_ROWS))[:, None]) @ MIX.T + CENTRE
LABELS = np.where(RNG.random(N_ROWS) < 0.6, 1, -1).astype(np.int8)
RADIAL = Radial(CENTRE, np.linalg.inv(MIX), seed=7)


def block_of(X: NDArray[Any]) -> Block:
    return Block(X, LABELS[: len(X)], np.arange(len(X)))


def test_apply__elliptical_rows_become_gaussian() -> None:
    # Kolmogorov's statistic of 40,000 Gaussian numbers is above 0.0155 with probability 1e-8
    mapped = RADIAL.apply(block_of(CAUCHY))
    for direction in (*np.eye(DIM), np.full(DIM, 0.5)):
        assert stats.kstest(mapped.X @ direction, "norm").statistic < 0.0155
    lengths = np.linalg.norm(mapped.X, axis=1)
    assert stats.kstest(lengths, stats.chi(DIM).cdf).statistic < 0.0155
    assert abs(np.corrcoef(lengths, np.log(np.abs(CAUCHY - CENTRE).sum(axis=1)))[0, 1]) < 0.03


def test_apply__half_of_the_rows_change_to_the_opposite_point_with_their_label() -> None:
    mapped = RADIAL.apply(block_of(CAUCHY))
    turned = mapped.y != LABELS
    assert abs(turned.mean() - 0.5) < 0.02  # 8 standard deviations
    along = np.einsum("ij,ij->i", mapped.X, (CAUCHY - CENTRE) @ RADIAL.matrix.T)
    np.testing.assert_array_equal(along < 0, turned)


def test_apply__errors_are_those_among_stored_rows() -> None:
    block = block_of(CAUCHY)
    mapped = RADIAL.apply(block)
    for normal in np.random.default_rng(1).standard_normal((5, DIM)):
        plane = Plane(normal)
        stored = RADIAL.to_stored(plane).errors(block.X, block.y)
        assert plane.errors(mapped.X, mapped.y) == pytest.approx(stored, abs=1)


def test_apply__only_rows_on_a_plane_may_change_sides() -> None:
    lattice = np.random.default_rng(0).integers(-1, 2, (20_000, 2)).astype(np.float64)
    block = Block(lattice, np.where(lattice[:, 0] >= 0, 1, -1).astype(np.int8), np.arange(20_000))
    mapped = Radial(np.zeros(2), np.eye(2), seed=1).apply(block)
    tilted, upright = Plane(np.array([1.0, 0.01])), Plane(np.array([1.0, 0.0]))
    assert tilted.errors(mapped.X, mapped.y) == tilted.errors(block.X, block.y)
    # a third of the rows is on this one, a third of them at the centre, and half of the rest turns
    assert upright.errors(block.X, block.y) == 0
    assert upright.errors(mapped.X, mapped.y) == pytest.approx(20_000 / 9, rel=0.1)


def test_apply__rows_at_the_centre_stay_there_with_their_label() -> None:
    X = CAUCHY[:1000].copy()
    X[::3] = CENTRE
    block = block_of(X)
    mapped = RADIAL.apply(block)
    np.testing.assert_array_equal(mapped.X[::3], 0)
    np.testing.assert_array_equal(mapped.y[::3], LABELS[:1000:3])
    # among stored rows they are exactly on every plane that comes back, which says +1 there
    for normal in np.random.default_rng(2).standard_normal((20, DIM)):
        assert (RADIAL.to_stored(Plane(normal)).signs(X[::3]) == 1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_apply__takes_rows_however_long_or_short(dtype: str) -> None:
    largest = 1e30 if dtype == "float32" else 1e290
    X = GAUSSIAN[:6] * np.array([largest, 1e3, 1.0, 1e-3, 1 / largest, 1.0])[:, None]
    mapped = Radial(np.zeros(DIM), np.eye(DIM), seed=1).apply(block_of(X.astype(dtype)))
    assert mapped.X.dtype == dtype
    lengths = np.linalg.norm(mapped.X.astype(np.float64), axis=1)
    assert (lengths > 0.05).all()
    assert (lengths < 8).all()


def test_pull_back__refuses_planes_beside_the_centre() -> None:
    with pytest.raises(ValueError, match=r"threshold 0\.5 in radial transform; only planes through"):
        RADIAL.to_stored(Plane(np.ones(DIM), 0.5))


def test_push__inverts_pull_back_and_takes_the_parallel_through_the_centre() -> None:
    plane = Plane(np.array([1.0, -2.0, 0.5, 3.0]))
    back = RADIAL.to_stored(plane)
    for shift in (0.0, 2.0):
        found = RADIAL.to_transformed(Plane(back.normal, back.threshold + shift))
        np.testing.assert_allclose(found.normal, plane.normal, rtol=1e-9)
        assert found.threshold == 0
    with pytest.raises(DataError, match="transform: singular matrix; the result file is invalid"):
        Radial(np.zeros(2), np.zeros((2, 2)), seed=1).to_transformed(Plane(np.ones(2)))


def test_affine__turns_rows_alike_and_keeps_every_halfspace() -> None:
    block = block_of(CAUCHY)
    turned, drawn = RADIAL.affine().apply(block), RADIAL.apply(block)
    np.testing.assert_array_equal(turned.y, block.y)
    cosines = np.sum(turned.X * drawn.X, axis=1)
    lengths = np.linalg.norm(turned.X, axis=1) * np.linalg.norm(drawn.X, axis=1)
    np.testing.assert_allclose(cosines, lengths * block.y * drawn.y, rtol=1e-9)
    plane = Plane(np.array([1.0, -2.0, 0.5, 3.0]), 0.7)
    pulled = RADIAL.affine().to_stored(plane)
    assert pulled.errors(block.X, block.y) == plane.errors(turned.X, turned.y)


def test_rounding__is_more_than_rows_are_off_by_whatever_the_matrix() -> None:
    """Directions of W (x - c) in fractions, where nearly collinear features make W large."""
    rng = np.random.default_rng(5)
    X = 1e3 + rng.standard_normal((200, 1)) + 1e-4 * rng.standard_normal((200, 3))
    isotropic = Isotropic.from_rows(X)
    radial = Radial(isotropic.centre, isotropic.matrix, seed=3)
    matrix, centre = fractions(radial.matrix), fractions(radial.centre)
    true = ((fractions(X) - centre) @ matrix.T).astype(np.float64)
    true /= np.linalg.norm(true, axis=1)[:, None]
    block = radial.apply(Block(X, np.ones(200, np.int8), np.arange(200)))
    found = block.X * block.y[:, None]
    miss = found - np.sum(found * true, axis=1)[:, None] * true
    off = np.linalg.norm(miss, axis=1) / np.linalg.norm(found, axis=1)
    assert 50 * 2.0**-52 < off.max() < radial.rounding < 1e-8


def fractions(values: NDArray[np.float64]) -> NDArray[np.object_]:
    return np.vectorize(Fraction, otypes=[object])(values)


def test_record__names_the_class_of_its_halfspaces() -> None:
    record = RADIAL.record
    assert (record.kind, record.through, record.whitened) == (Transform.RADIAL, "centre", True)
    back = Halfspace.of(RADIAL.to_stored(Plane(np.array([1.0, 2.0, 3.0, 4.0]))))
    assert record.class_of(back) is HalfspaceClass.CENTRE
    assert record.class_of(replace(back, offset=back.offset + 1)) is HalfspaceClass.ANY
    about_origin = Radial(np.zeros(2), np.eye(2), seed=1).record
    assert about_origin.through is HalfspaceClass.ORIGIN
    assert about_origin.class_of(Halfspace((1.0, 2.0))) is HalfspaceClass.ORIGIN
    assert about_origin.class_of(Halfspace((1.0, 2.0), 0.5)) is HalfspaceClass.ANY
