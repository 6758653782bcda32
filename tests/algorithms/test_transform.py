"""Transforms: estimated from a source, ruled out by a sample, and the radial one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamhalf import RunConfig
from streamhalf.algorithms import transform
from streamhalf.algorithms.plan import plan_for_rows
from streamhalf.algorithms.transform import (
    estimate_radial,
    estimate_transform,
    settle,
    transform_notices,
    transforms_to_try,
    try_transforms,
)
from streamhalf.data.block import Block
from streamhalf.data.transforms import Identity, Isotropic, Radial
from streamhalf.errors import TransformError
from streamhalf.kernels.plane import Plane
from streamhalf.results import HalfspaceClass, Notice, NoticeCode, Outcome, Transform, TransformTrial
from tests.algorithms.runs import draw, names_of, serial_run

X, Y = draw(3_000)
MOVED = X * [3.0, 0.5] + [1.0, -2.0]


def test_position__whitened_takes_one_pass_over_all_rows() -> None:
    with serial_run((MOVED, Y), whiten=True) as (run, source, config, _):
        found = estimate_transform(run, source, config)
        (record,) = run.passes
    assert isinstance(found, Isotropic)
    assert (record.name, record.rows_read) == ("whitening", 3_000)
    white = found.apply(Block(MOVED, Y, np.arange(3_000))).X
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(2), atol=1e-9)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-9)


def test_position__through_the_origin_it_stays_where_it_is() -> None:
    with serial_run((MOVED, Y), whiten=True, through="origin") as (run, source, config, _):
        found = estimate_transform(run, source, config)
    white = found.apply(Block(MOVED, Y, np.arange(3_000))).X
    np.testing.assert_allclose(white.T @ white / 3_000, np.eye(2), atol=1e-9)
    np.testing.assert_array_equal(found.apply(Block(0 * MOVED, Y, np.arange(3_000))).X, 0)
    assert found.record.through is HalfspaceClass.ORIGIN
    plane = Plane(np.array([0.6, 0.8]))
    assert found.to_stored(plane).threshold == 0


@pytest.mark.parametrize("many", [True, False])
def test_position__radial_is_estimated_from_rows_that_are_not_held_out_if_they_are_many(
    monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    monkeypatch.setattr(transform, "_MANY_PER_FEATURE", 700 if many else 800)
    with serial_run((MOVED, Y), feature_transform="radial", seed=2) as (run, source, config, _):
        found = estimate_transform(run, source, config, held_out=0.5)
        (record,) = run.passes
    assert isinstance(found, Radial)
    assert (record.name, record.rows_read) == ("radial", 3_000)
    assert record.rows_accepted == (pytest.approx(1_500, abs=200) if many else 3_000)
    assert transform_notices(found.record) == (Notice.of(NoticeCode.RADII_DRAWN, at_centre=0.0),)
    assert transform_notices(Identity().record) == ()


@pytest.mark.parametrize("kind", ["isotropic", "radial"])
def test_position__features_that_stand_still_are_refused(kind: str) -> None:
    still = np.column_stack([MOVED, np.full(3_000, 7.0)])
    with (
        serial_run((still, Y), feature_transform=kind) as (run, source, config, _),
        pytest.raises(TransformError, match="feature 3 is constant") as caught,
    ):
        estimate_transform(run, source, config)
    assert caught.value.features == (2,)


def test_position__isotropic_errors_name_the_features() -> None:
    still = np.column_stack([MOVED, MOVED[:, 0], np.full(3_000, 7.0)])
    with (
        serial_run((still[:, :3], Y), feature_transform="isotropic") as (run, source, config, _),
        pytest.raises(TransformError) as caught,
    ):
        estimate_transform(run, source, config)
    assert caught.value.features == (0, 2)


PASSED, DOUBT, NO, SILENT = (Outcome.PASSED, Outcome.INCONCLUSIVE, Outcome.REJECTED, Outcome.NOT_JUDGED)
DIM = 3
MIXING = np.array([[2.0, 0.0, 0.3], [1.0, 0.5, 0.0], [0.0, -1.0, 3.0]])


def rows_of_kind(kind: str, n_rows: int = 20_000) -> np.ndarray:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n_rows, DIM))
    shapes = {
        "gaussian": X,
        "affine": X @ MIXING + [3.0, -1.0, 0.0],
        "cauchy": X @ MIXING / np.abs(rng.standard_normal((n_rows, 1))) + [3.0, -1.0, 0.0],
        "cubes": X**3,
    }
    return shapes[kind]


def look(X: np.ndarray, **parameters: Any) -> tuple[TransformTrial, ...]:
    config = RunConfig(seed=1, **parameters)
    plan = plan_for_rows(200_000, X.shape[1], config)
    block = Block(X, np.resize([1, -1], len(X)).astype(np.int8), np.arange(len(X)))
    return try_transforms(block, plan, config)


@pytest.mark.parametrize(
    ("kind", "outcomes", "tried"),
    [
        ("gaussian", (PASSED, PASSED, PASSED), ("stored", "isotropic", "radial")),
        ("affine", (NO, PASSED, PASSED), ("isotropic", "radial")),
        ("cauchy", (NO, NO, PASSED), ("radial",)),
        ("cubes", (NO, NO, NO), ("isotropic",)),
    ],
)
def test_look__rules_out_what_the_rows_are_not(
    kind: str, outcomes: tuple[Outcome, ...], tried: tuple[str, ...]
) -> None:
    # those that pass do not with probability below tau = 0.01 each
    trials = look(rows_of_kind(kind))
    assert [one.kind for one in trials] == ["stored", "isotropic", "radial"]
    assert tuple(one.outcome for one in trials) == outcomes
    assert tuple(str(one) for one in transforms_to_try(trials)) == tried
    assert not any(one.tried for one in trials)
    for one in trials:
        assert one.evidence is not None
        assert one.evidence.outcome is one.outcome
        assert one.problem == ""


def test_look__few_rows_rule_out_what_is_far_off_and_nothing_else() -> None:
    rows = rows_of_kind("gaussian", 100)
    assert NO not in {one.outcome for one in look(rows)}
    far = rows.copy()
    far[:, 0] = np.exp(4 * far[:, 0])
    assert [one.outcome for one in look(far)[:2]] == [NO, NO]


def test_look__a_position_that_is_not_there_names_the_features() -> None:
    rows = rows_of_kind("gaussian", 2_000)
    rows[:, 1] = 7
    stored, isotropic, radial = look(rows)
    assert stored.problem == ""
    for one in (isotropic, radial):
        assert one.outcome is NO
        assert "feature 2 is constant" in one.problem
    assert transforms_to_try((stored, isotropic, radial)) == (Transform.STORED,)


def test_look__no_rows_leave_the_stored_position() -> None:
    trials = look(np.empty((0, DIM)))
    assert [one.outcome for one in trials] == [SILENT, NO, NO]
    assert trials[1].problem == "isotropic transform: no rows to estimate it from; gather some"
    assert transforms_to_try(trials) == (Transform.STORED,)


def test_look__no_more_rows_than_features_name_none() -> None:
    for n_rows in (DIM - 1, DIM):
        trials = look(rows_of_kind("gaussian", n_rows))
        assert [one.features for one in trials] == [(), (), ()]
        for one in trials[1:]:
            assert one.outcome is SILENT
            assert f"{n_rows} rows is too small to tell how {DIM} features are" in one.problem
        assert transforms_to_try(trials) == (Transform.STORED,)


MIX = np.array([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [-3.0, 1.0, 10.0]])
CENTRE = np.array([5.0, -2.0, 100.0])


def cauchy(n_rows: int, *, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
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
    X, _ = cauchy(3000)
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
    monkeypatch.setattr(transform, "_SAMPLE_ROWS", 500)
    X, y = cauchy(20_000)
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
    monkeypatch.setattr(transform, "_SAMPLE_ROWS", 500)
    monkeypatch.setattr(transform, "_PASS_ROWS", 4000)
    monkeypatch.setattr(transform, "_PASS_PER_FEATURE", 100)
    X, y = cauchy(20_000)
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
    X, _ = cauchy(500)
    X[:, 1] = 1 / 3
    error = fail(X, centre)
    assert str(error) == "radial transform: feature 2 is constant (0.333333); remove it"
    assert error.features == (1,)


def test_existence__about_the_origin_only_zeros_stand_still() -> None:
    X, _ = cauchy(500)
    X[:, 1] = 1 / 3
    assert settle(X, centre="origin")[1].unevenness < 1e-5
    X[:, 1] = 0
    assert fail(X, "origin").features == (1,)


def test_existence__dependent_features_are_named() -> None:
    X, _ = cauchy(500)
    wide = np.column_stack([X, X[:, 0] - 2 * X[:, 1], np.random.default_rng(1).random(500)])
    error = fail(wide)
    assert "linearly dependent" in str(error)
    assert "look at features 1, 2, 4 and remove one of them" in str(error)
    assert error.features == (0, 1, 3)


def test_existence__no_more_rows_than_features_cannot_tell() -> None:
    X, _ = cauchy(3)
    assert "3 rows cannot tell how 3 features are correlated" in str(fail(X))
    assert "no rows" in str(fail(X[:0]))


@pytest.mark.parametrize("centre", ["auto", "origin"])
def test_existence__too_many_rows_in_a_subspace_are_refused(centre: str) -> None:
    # Forster's condition for three features: fewer than two thirds of the rows in a plane
    X = cauchy(2000)[0] - CENTRE
    X[:1500, 2] = 0
    error = fail(X, centre)
    assert "directions cannot be spread evenly" in str(error)
    assert "lie in a subspace of dimension 2 of 3" in str(error)
    assert "look at features 3, which hardly vary there" in str(error)
    assert error.features == (2,)
    X[1200:1500, 2] = cauchy(300, seed=2)[0][:, 2] - CENTRE[2]
    assert settle(X, centre="origin")[1].unevenness < 1e-4
