"""Bounds on quadratic forms over products of spheres."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.certificate.dual import Parts, Shifts, bound_form

SLICES = (slice(0, 1), slice(1, 5), slice(5, 15))


def symmetric(rng: np.random.Generator, size: int) -> np.ndarray:
    square = rng.standard_normal((size, size))
    return square + square.T


@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(0, 6),
    scale=st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 1e20]),
    rank=st.sampled_from([0, 1, 15]),
)
@settings(max_examples=80, deadline=None)
def test_bound_form__never_exceeds_the_form(seed, steps, scale, rank):
    rng = np.random.default_rng(seed)
    parts = Parts.of(SLICES)
    rows = rng.standard_normal((rank, 15))
    matrix = scale * (symmetric(rng, 15) if rank == 15 else -rows.T @ rows)
    start = Shifts.of(matrix, parts, rng.standard_normal(15))
    bound, found = bound_form(matrix, parts, start, steps=steps)
    y = found.vector
    points = [parts.normalise(rng.standard_normal(15)) for _ in range(50)]
    assert bound <= min(float(point @ matrix @ point) for point in [*points, parts.normalise(y)])


def test_bound_form__is_the_smallest_eigenvalue_where_there_is_one_part():
    matrix = symmetric(np.random.default_rng(1), 30)
    least = float(np.linalg.eigvalsh(matrix)[0])
    parts = Parts.of((slice(0, 30),))
    found, _ = bound_form(matrix, parts, Shifts.of(matrix, parts, np.ones(30)), steps=8)
    assert found <= least
    assert found == pytest.approx(least, rel=2e-3)


def test_bound_form__is_attained_by_the_point_it_returns():
    rng = np.random.default_rng(2)
    parts = Parts.of(SLICES)
    # one direction far below the others: the relaxation is exact
    low = parts.normalise(rng.standard_normal(15))
    matrix = 0.01 * symmetric(rng, 15) - np.outer(low, low)
    start = Shifts.of(matrix, parts, rng.standard_normal(15))
    found, shifts = bound_form(matrix, parts, start, steps=8)
    y = parts.normalise(shifts.vector)
    assert found == pytest.approx(float(y @ matrix @ y), rel=2e-3)


def test_bound_form__an_eigenvector_that_is_not_the_lowest_does_not_trap_it():
    matrix = np.diag([1.0, 0.0, -3.0])
    parts = Parts.of((slice(0, 3),))
    start = Shifts.of(matrix, parts, np.array([1.0, 0.0, 0.0]))
    found, _ = bound_form(matrix, parts, start, steps=4)
    assert -3.01 <= found <= -3.0
