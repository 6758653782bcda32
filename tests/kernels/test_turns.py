from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from streamhalf.kernels.plane import Plane
from streamhalf.kernels.turns import Turns

RNG = np.random.default_rng(5)
X = RNG.standard_normal((4_000, 4)) * [1.0, 3.0, 0.5, 1.0] + [0.0, 5.0, -1.0, 0.0]
CENTRE = np.array([0.0, 5.0, -1.0, 0.0])
SCALES = np.array([1.0, 1 / 3, 2.0, 1.0])


def measured(turns: Turns) -> tuple[np.ndarray, np.ndarray]:
    return turns.measure(X, turns.plane.margins(X))


def test_sines__are_margins_over_lengths_without_a_threshold() -> None:
    plane = Plane(np.array([3.0, 0.0, 4.0, 0.0]))
    sines, agreed = measured(Turns.of(plane, np.zeros(4), np.ones(4)))
    expected = np.abs(X @ plane.normal) / 5 / np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(sines, expected, rtol=1e-9)
    assert not agreed.any()


def test_sines__a_scaling_is_the_same_as_its_matrix() -> None:
    plane = Plane(np.array([1.0, -0.2, 0.7, 0.1]), 0.4)
    one = dataclasses.replace(Turns.of(plane, CENTRE, SCALES), angle=0.1, shift=0.05)
    other = dataclasses.replace(Turns.of(plane, CENTRE, np.diag(SCALES)), angle=0.1, shift=0.05)
    np.testing.assert_allclose(measured(one)[0], measured(other)[0], rtol=1e-9)
    np.testing.assert_array_equal(measured(one)[1], measured(other)[1])
    assert 0 < measured(one)[1].mean() < 1


def test_of__a_position_without_inverse_takes_its_own_planes() -> None:
    """A constant feature is mapped to 0, and a plane that came out of there has no part of it."""
    matrix = np.diag([1.0, 1 / 3, 2.0, 0.0])
    inner = np.array([0.6, 0.0, 0.8, 0.0])
    turns = Turns.of(Plane(matrix.T @ inner, float(matrix.T @ inner @ CENTRE)), CENTRE, matrix)
    assert turns.length == pytest.approx(1.0)
    assert turns.threshold == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("eta", [0.15, 0.6])
@pytest.mark.parametrize("threshold", [0.0, 0.8, -2.0])
def test_agreed__every_halfspace_within_the_angle_and_the_shift_says_the_same(threshold: float, eta: float) -> None:
    """Against planes of unit normals at the very angle and shift, and within; none is forgiven."""
    Z = (X - CENTRE) * SCALES
    v = np.array([0.5, 0.5, -0.5, 0.5])
    normal = v * SCALES
    plane = Plane(normal, threshold + float(normal @ CENTRE))
    shift = 0.1 if threshold else 0.0
    turns = dataclasses.replace(Turns.of(plane, CENTRE, SCALES), angle=eta, shift=shift)
    _, agreed = measured(turns)
    own, disagree = Z @ v >= threshold, np.zeros(len(Z), dtype=bool)
    for i in range(800):
        # half of them turn towards the rows that are nearest to disagreeing
        u = RNG.standard_normal(4) if i % 2 else Z[RNG.integers(len(Z))]
        u = RNG.choice([-1, 1]) * (u - (u @ v) * v)
        angle = eta if i % 4 else eta * RNG.random()
        w = math.cos(angle) * v + math.sin(angle) * u / np.linalg.norm(u)
        disagree |= (w @ Z.T >= threshold + RNG.choice([-shift, 0, shift])) != own
    assert not (agreed & disagree).any()
    assert (~agreed & ~disagree).mean() < eta / 2  # and hardly any row is left out in vain


def test_agreed__rounding_counts_against_it() -> None:
    """Features around 1e9 whose margins are mostly rounding."""
    far = np.array([[1e9, 1e9 + 2.0**-22], [1e9, 1e9 + 1.0]])
    plane = Plane(np.array([-1.0, 1.0]))
    turns = dataclasses.replace(Turns.of(plane, np.full(2, 1e9), np.ones(2)), angle=1e-9)
    assert turns.measure(far, plane.margins(far))[1].tolist() == [False, True]


def test_sines__a_row_on_the_plane_has_none() -> None:
    turns = dataclasses.replace(Turns.of(Plane(np.array([1.0, 0.0])), np.zeros(2), np.ones(2)), angle=0.1)
    sines, agreed = turns.measure(np.array([[0.0, 0.0], [0.0, 2.0]]), np.zeros(2))
    assert sines.tolist() == [0.0, 0.0]
    assert not agreed.any()
