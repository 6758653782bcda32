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
    sines, proved = measured(Turns.of(plane, np.zeros(4), np.ones(4)))
    expected = np.abs(X @ plane.normal) / 5 / np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(sines, expected, rtol=1e-9)
    assert not proved.any()


def test_sines__a_scaling_is_the_same_as_its_matrix() -> None:
    plane = Plane(np.array([1.0, -0.2, 0.7, 0.1]), 0.4)
    one = dataclasses.replace(Turns.of(plane, CENTRE, SCALES), tangent=0.1, shift=0.05)
    other = dataclasses.replace(Turns.of(plane, CENTRE, np.diag(SCALES)), tangent=0.1, shift=0.05)
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


@pytest.mark.parametrize("threshold", [0.0, 0.8])
def test_proved__every_halfspace_within_the_angle_agrees(threshold: float) -> None:
    """Against 400 planes at the very angle and shift, in the position that angles are taken in."""
    Z, eta = (X - CENTRE) * SCALES, 0.15
    v = np.array([0.5, 0.5, -0.5, 0.5])
    normal = v * SCALES
    plane = Plane(normal, threshold + float(normal @ CENTRE))
    shift = 0.1 if threshold else 0.0
    turns = dataclasses.replace(Turns.of(plane, CENTRE, SCALES), tangent=math.tan(eta), shift=shift)
    _, proved = measured(turns)
    own, disagree = Z @ v >= threshold, np.zeros(len(Z), dtype=bool)
    for _ in range(400):
        u = RNG.standard_normal(4)
        u -= (u @ v) * v
        w = math.cos(eta) * v + math.sin(eta) * u / np.linalg.norm(u)
        other = math.cos(eta) * (threshold + RNG.choice([-shift, shift]))
        disagree |= (Z @ w >= other) != own
    assert not (proved & disagree).any()
    assert (~proved & ~disagree).mean() < 0.05  # and hardly any row is left out in vain


def test_sines__a_row_on_the_plane_has_none() -> None:
    turns = dataclasses.replace(
        Turns.of(Plane(np.array([1.0, 0.0])), np.zeros(2), np.ones(2)), tangent=0.1
    )
    sines, proved = turns.measure(np.array([[0.0, 0.0], [0.0, 2.0]]), np.zeros(2))
    assert sines.tolist() == [0.0, 0.0]
    assert not proved.any()
