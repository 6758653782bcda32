"""The threshold with the fewest errors, direction by direction."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.candidates import ThresholdScan, scanned_offsets


def scan(X: np.ndarray, y: np.ndarray, *planes: Plane) -> tuple[Plane, ...]:
    reduction = ThresholdScan(planes)
    return reduction.finalize(reduction.map(Block(X, y.astype(np.int8), np.arange(len(y)))))


def draw(threshold: float, *, flipped: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40_000, 3)).astype(np.float32)
    y = np.where(X[:, 1] >= threshold, 1, -1)
    return X, np.where(rng.random(len(y)) < flipped, -y, y)


@pytest.mark.parametrize("threshold", [-1.9, -0.3, 0.0, 1.2])
@pytest.mark.parametrize("given", [0.0, 0.7])
def test_scan__finds_a_planted_threshold(threshold: float, given: float) -> None:
    X, y = draw(threshold, flipped=0.05)
    (found,) = scan(X, y, Plane(np.eye(3)[1], given))
    # thresholds lie a fiftieth of the distance apart, and the rows leave a gap of about 1e-4
    assert found.threshold == pytest.approx(threshold, abs=0.02 * abs(threshold - given) + 2e-3)


def test_scan__counts_what_the_planes_get_wrong() -> None:
    X, y = draw(0.4, flipped=0.1)
    planes = (Plane(np.eye(3)[1], 0.5), Plane(np.array([0.6, 0.8, 0.0]), -0.2))
    for plane, found in zip(planes, scan(X, y, *planes), strict=True):
        errors = [Plane(plane.normal, plane.threshold + offset).errors(X, y) for offset in scanned_offsets()[::10]]
        # it moves for a gain of more than one standard error, and then to the best
        assert found.errors(X, y) <= min(errors)


def test_scan__keeps_the_given_threshold_where_none_is_better() -> None:
    X, y = draw(0.4)
    (found,) = scan(X, y, Plane(np.eye(3)[1], 0.4))
    assert found.threshold == 0.4


def test_scan__keeps_the_given_threshold_where_chance_put_another_ahead() -> None:
    rng = np.random.default_rng(5)
    gained = []
    for _ in range(50):
        X = rng.standard_normal((300, 3)).astype(np.float32)
        y = np.where((X[:, 1] >= 0) != (rng.random(len(X)) < 0.2), 1, -1)
        (found,) = scan(X, y, Plane(np.eye(3)[1]))
        gained.append(Plane(np.eye(3)[1]).errors(X, y) - found.errors(X, y))
        if found.threshold != 0:
            moved = np.count_nonzero((X[:, 1] >= 0) != (X[:, 1] >= found.threshold))
            assert gained[-1] > np.sqrt(moved)
    assert np.mean(np.array(gained) > 0) < 0.5  # the least error of a scan is less nearly always


@pytest.mark.parametrize("label", [1, -1])
def test_scan__one_class_ends_beyond_all_rows(label: int) -> None:
    X, y = draw(0.0)
    (found,) = scan(X, np.full_like(y, label), Plane(np.eye(3)[1]))
    assert found.errors(X, np.full_like(y, label)) == 0


def test_scan__no_rows_leave_the_planes_as_they_are() -> None:
    reduction = ThresholdScan((Plane(np.eye(3)[0], 0.25),))
    (found,) = reduction.finalize(reduction.empty(3))
    assert found.threshold == 0.25
