from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from streamhalf.algorithms import transform as radial
from streamhalf.algorithms.transform import estimate_radial, settle
from streamhalf.errors import TransformError
from tests.algorithms.runs import names_of, serial_run

MIX = np.array([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [-3.0, 1.0, 10.0]])
CENTRE = np.array([5.0, -2.0, 100.0])


def draw(n_rows: int, *, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """A correlated Cauchy law about CENTRE: no mean, no covariance."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3)) / np.abs(rng.standard_normal((n_rows, 1)))
    return X @ MIX.T + CENTRE, np.where(X[:, 0] > 0, 1, -1).astype(np.int8)


def shape_of(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shape that a matrix makes even, with trace d."""
    found = np.linalg.inv(matrix.T @ matrix)
    return np.asarray(found * len(found) / np.trace(found))


def test_settle__finds_the_shape_of_an_independent_program() -> None:
    t = np.arange(1.0, 41.0)
    first, second = np.sin(t) * t, np.cos(2 * t) * t**0.5 + 0.02 * t * np.sin(t)
    X = np.stack([first, second, np.sin(3 * t + 1) + 0.1 * np.cos(t) * t], axis=1)
    tyler, sums = settle(X, centre="origin")
    expected = [
        [2.87785462, 0.0739329592, -0.0274892500],
        [0.0739329592, 0.0987756860, -0.00202036659],
        [-0.0274892500, -0.00202036659, 0.0233696901],
    ]
    # directions are spread evenly to 1e-5; one step more takes off about half of what is left
    np.testing.assert_allclose(shape_of(tyler.matrix), expected, rtol=1e-3)
    np.testing.assert_array_equal(tyler.centre, 0)
    assert sums.unevenness < 1e-5


@pytest.mark.parametrize("centre", ["auto", "origin", "mean"])
def test_settle__spreads_directions_evenly_about_the_centre(centre: str) -> None:
    X, _ = draw(3000)
    tyler, _ = settle(X, centre=centre)
    turned = (X - tyler.centre) @ tyler.matrix.T
    units = turned / np.linalg.norm(turned, axis=1)[:, None]
    np.testing.assert_allclose(3 * units.T @ units / len(X), np.eye(3), atol=2e-5)
    where = {"origin": np.zeros(3), "mean": X.mean(axis=0)}
    if centre == "auto":
        np.testing.assert_allclose(units.mean(axis=0), 0, atol=2e-5)
        # 3,000 directions know the centre to 0.02 of the scales: 6 standard deviations
        np.testing.assert_allclose(np.linalg.solve(MIX, tyler.centre - CENTRE), 0, atol=0.12)
    else:
        np.testing.assert_allclose(tyler.centre, where[centre], atol=1e-9)


def test_estimate__passes_take_it_from_some_rows_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radial, "_SAMPLE_ROWS", 500)
    X, y = draw(20_000)
    with serial_run((X, y), feature_transform="radial", seed=3) as (run, source, config, _):
        found = estimate_radial(run, source, config)
        passes = names_of(run)
    assert passes[:3] == ["radial", "radial-2", "radial-3"]
    tyler, _ = settle(X, centre="auto")
    rough, _ = settle(X[:500], centre="auto")
    expected = shape_of(tyler.matrix)
    left, before = (np.abs(shape_of(one.matrix) - expected).max() for one in (found, rough))
    assert left < before / 10


def test_estimate__reads_windows_from_all_over_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radial, "_SAMPLE_ROWS", 500)
    monkeypatch.setattr(radial, "_PASS_ROWS", 4000)
    monkeypatch.setattr(radial, "_PASS_PER_FEATURE", 100)
    X, y = draw(20_000)
    order = np.argsort(X[:, 0])  # sorted rows: one window would tell nothing about the others
    with serial_run((X[order], y[order]), feature_transform="radial", seed=3) as (run, source, config, _):
        found = estimate_radial(run, source, config)
        rows = [record.rows_read for record in run.passes]
    assert rows[0] == 256 * (2000 // 256)
    assert set(rows[1:]) == {256 * (5000 // 256)}
    tyler, _ = settle(X, centre="auto")
    # 5,000 rows in 3 dimensions: entries are off by 0.02 each
    np.testing.assert_allclose(shape_of(found.matrix), shape_of(tyler.matrix), atol=0.15)


def fail(X: NDArray[np.float64], centre: str = "auto") -> TransformError:
    with pytest.raises(TransformError) as caught:
        settle(X, centre=centre)
    return caught.value


@pytest.mark.parametrize("centre", ["auto", "mean"])
def test_existence__constant_features_are_named(centre: str) -> None:
    X, _ = draw(500)
    X[:, 1] = 1 / 3
    error = fail(X, centre)
    assert str(error) == "radial transform: feature 2 is constant (0.333333); remove it"
    assert error.features == (1,)


def test_existence__about_the_origin_only_zeros_stand_still() -> None:
    X, _ = draw(500)
    X[:, 1] = 1 / 3
    assert settle(X, centre="origin")[1].unevenness < 1e-5
    X[:, 1] = 0
    assert fail(X, "origin").features == (1,)


def test_existence__dependent_features_are_named() -> None:
    X, _ = draw(500)
    wide = np.column_stack([X, X[:, 0] - 2 * X[:, 1], np.random.default_rng(1).random(500)])
    error = fail(wide)
    assert "linearly dependent" in str(error)
    assert "look at features 1, 2, 4 and remove one of them" in str(error)
    assert error.features == (0, 1, 3)


def test_existence__no_more_rows_than_features_cannot_tell() -> None:
    X, _ = draw(3)
    assert "3 rows cannot tell how 3 features are correlated" in str(fail(X))
    assert "no rows" in str(fail(X[:0]))


@pytest.mark.parametrize("centre", ["auto", "origin"])
def test_existence__too_many_rows_in_a_subspace_are_refused(centre: str) -> None:
    # Forster's condition for three features: fewer than two thirds of the rows in a plane
    X = draw(2000)[0] - CENTRE
    X[:1500, 2] = 0
    error = fail(X, centre)
    assert "directions cannot be spread evenly" in str(error)
    assert "lie in a subspace of dimension 2 of 3" in str(error)
    assert "look at features 3, which hardly vary there" in str(error)
    assert error.features == (2,)
    X[1200:1500, 2] = draw(300, seed=2)[0][:, 2] - CENTRE[2]
    assert settle(X, centre="origin")[1].unevenness < 1e-4
