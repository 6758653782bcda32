from __future__ import annotations

import numpy as np
import pytest

from streamhalf.algorithms import transform
from streamhalf.algorithms.transform import estimate_transform, transform_notices
from streamhalf.data.transforms import Identity, Isotropic, Radial
from streamhalf.errors import TransformError
from streamhalf.kernels.plane import Plane
from streamhalf.results import HalfspaceClass, Notice, NoticeCode
from streamhalf.testing import Block
from tests.algorithms.runs import draw, serial_run

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
