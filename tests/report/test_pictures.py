"""Figures that must be read at a glance: scales, names and sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import streamhalf
from streamhalf import FitResult
from streamhalf.report.audit import _merged, _say_of
from streamhalf.report.distribution import feature_spreads, weight_figure
from streamhalf.report.panels import Comparison
from streamhalf.report.pictures import candidate_table
from streamhalf.report.svg import Axis, Canvas
from streamhalf.results import Method, Segment, replace

SCALES = np.array([1.0, 4e4, 1e-3])


@pytest.fixture(scope="module")
def result() -> FitResult:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3000, 3)) * SCALES
    return streamhalf.fit(
        (X, np.where(X @ (1 / SCALES) >= 0.3, 1, -1)),
        feature_transform="isotropic",
        certificate_degree=0,
    )


def test_weights__are_drawn_by_what_they_come_to(result: FitResult) -> None:
    spreads = feature_spreads(result)
    assert spreads is not None
    np.testing.assert_allclose(spreads, SCALES, rtol=0.1)
    figure = weight_figure(result)
    assert figure is not None
    (table,) = figure.tables
    assert table.labels == ("feature", "weight", "spread", "weight × spread")
    drawn = [float(row[-1]) for row in table.rows[:-1]]
    assert max(drawn) < 2 * min(drawn)  # of raw weights, one in 4e7


def test_weights__of_hostile_numbers_are_left_out(result: FitResult) -> None:
    for value in (1e308, math.inf):
        wild = replace(result.transform, matrix=((value,) * 3,) * 3)
        assert feature_spreads(replace(result, transform=wild)) in (None, (0.0,) * 3)


@pytest.mark.parametrize(("largest", "is_log"), [(90.0, False), (1e19, True)])
def test_comparison__has_a_logarithmic_scale_where_the_limit_would_vanish(
    largest: float, is_log: bool
) -> None:
    picture = Comparison("", "", (("a", "", largest), ("b", "", 0.0)), 0.1, "limit 0.1")
    assert picture.is_log is is_log
    drawn = str(picture.draw(790, "wide"))
    assert "nan" not in drawn
    limit = float(drawn.split('text x="')[1].split('"')[0])
    assert (limit > 8) is is_log


def test_axis__names_take_the_place_of_numbers_where_there_is_room() -> None:
    for names, shown in ((("age", "pay"), True), (("a long name of a feature",) * 9, False)):
        canvas = Canvas(350)
        axis = Axis("feature", 0.4, len(names) + 0.6, whole=True, names=names)
        canvas.axis(axis, (50.0, 330.0), 200.0, 5)
        drawn = str(canvas.finish(250))
        assert (names[0] in drawn) is shown
        assert (">2<" in drawn) is not shown


def test_candidates__what_is_known_of_none_is_left_out(result: FitResult) -> None:
    pooled = tuple(one for one in result.candidates if one.method is not Method.PATH)
    assert pooled
    table = candidate_table(pooled)
    assert "found by" in table.labels
    assert "scale delta" not in table.labels


def test_stretches__have_rows_enough_and_say_how_many() -> None:
    many = tuple(Segment(10 * i, 10 * i + 10, i % 2, 0) for i in range(400))
    merged = _merged(many, 256)
    assert len(merged) == 80
    assert {one.stop - one.start for one in merged} == {50}
    assert _say_of(merged).startswith("Share of wrong rows in 80 segments of about 50 rows")
    assert len(_merged(many, 64)) <= 64
    assert len(_merged(many[:2], 64)) == 1
