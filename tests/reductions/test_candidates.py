"""Reductions about planes: errors, slabs and slab moments, with thresholds and without."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions import CandidateSlabs, PlaneErrors, SlabCovariance

N_ROWS = 4_000
RNG = np.random.default_rng(2)
# quarters: sums and thresholds are exact, so that a shifted row has the same margin bit by bit
X = RNG.integers(-12, 13, (N_ROWS, 3)) / 4
Y = np.where(RNG.random(N_ROWS) < 0.6, 1, -1).astype(np.int8)
NORMALS = np.eye(3)[:2]
EDGES = np.array([-1.0, 0.0, 1.0])


def block_of(X: np.ndarray) -> Block:
    return Block(X, Y[: len(X)], np.arange(len(X)))


def planes(*thresholds: float) -> tuple[Plane, ...]:
    return tuple(Plane(normal, t) for normal, t in zip(NORMALS, thresholds, strict=False))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_candidate_slabs__a_threshold_shifts_the_slabs(dtype: str) -> None:
    found = CandidateSlabs(planes(0.5, -0.25), 0.25, 6).map(block_of(X.astype(dtype)))
    shifted = (X - [0.5, -0.25, 0.0]).astype(dtype)
    expected = CandidateSlabs(planes(0.0, 0.0), 0.25, 6).map(block_of(shifted))
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_array_equal(found.counts.sum(axis=1), N_ROWS)


def test_plane_errors__are_counted_by_segment_of_the_data_set() -> None:
    # the block is part of a data set that goes on behind it, and every third row is left out
    several, total_rows = planes(0.5, -0.25), 5_000
    block = Block(X, Y, np.arange(N_ROWS)).select(np.arange(N_ROWS) % 3 > 0)
    found = PlaneErrors(several, total_rows).map(block)
    count = total_rows // 64
    assert found.segment_errors.shape == (2, count)
    segment = block.rows * count // total_rows
    for i in range(count):
        rows = segment == i
        assert found.segment_rows[i] == np.count_nonzero(rows)
        expected = [plane.errors(block.X[rows], block.y[rows]) for plane in several]
        assert found.segment_errors[:, i].tolist() == expected
    assert found.segment_rows[-1] == 0 < found.segment_rows[0]


def test_slab_covariance__a_threshold_moves_rows_between_slabs_and_keeps_them() -> None:
    found = SlabCovariance(planes(0.5), EDGES).map(block_of(X))
    slab = np.searchsorted(EDGES, X[:, 0] - 0.5, side="right")
    for i in range(4):
        rows = X[slab == i]
        assert found.counts[0, i] == len(rows)
        np.testing.assert_allclose(found.products[0, i], (rows.T @ rows)[np.triu_indices(3)])


@pytest.mark.parametrize(("scale", "threshold"), [(1.0, 0.0), (1.0, 0.5), (4.0, 0.25)])
def test_plane_errors__rows_on_the_plane_are_positive(scale: float, threshold: float) -> None:
    plane = Plane(scale * NORMALS[0], scale * threshold)
    found = PlaneErrors((plane,)).map(block_of(X))
    assert np.count_nonzero(X[:, 0] == threshold) > 50
    assert found.errors[0] == np.count_nonzero((X[:, 0] >= threshold) != (Y > 0))
    assert found.n_rows == N_ROWS


@pytest.mark.parametrize("ranges", [[(0, N_ROWS)], [(0, 1), (1, 2), (100, 777)], [(3_999, 4_000), (5_000, 6_000)], []])
@pytest.mark.parametrize("start", [0, 500])
def test_plane_errors__counts_the_rows_in_the_ranges(ranges: list[tuple[int, int]], start: int) -> None:
    block = Block(X[start:], Y[start:], np.arange(start, N_ROWS))
    plane = planes(0.25)[0]
    reduction = PlaneErrors((plane,), ranges=np.array(ranges, dtype=np.int64).reshape(-1, 2))
    chosen = [row for a, b in ranges for row in range(max(a, start), min(b, N_ROWS))]
    found = reduction.map(block)
    assert found.n_rows == reduction.rows_used(found) == len(chosen)
    assert found.errors[0] == plane.errors(X[chosen], Y[chosen])
