from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import streamhalf
from streamhalf.report.codes import evidence_name
from streamhalf.report.features import speaking_of
from streamhalf.report.html import render_report
from streamhalf.report.terminal import show_test
from streamhalf.report.words import moment_sentence
from streamhalf.results import (
    DataRecord,
    Evidence,
    Moment,
    MomentTestResult,
    SecondMoment,
    SegmentMean,
    SegmentQuantity,
    replace,
)

NAMES = ("age", "fare", "mean radius")


def rejected() -> MomentTestResult:
    """The second feature is too wide."""
    rows = np.random.default_rng(0).standard_normal((20_000, 3)) * [1.0, 3.0, 1.0]
    return streamhalf.test(
        (pd.DataFrame(rows, columns=list(NAMES)), np.sign(rows[:, 0])), feature_transform="stored"
    )


def test_evidence_name__calls_features_by_their_names() -> None:
    result = rejected()
    with speaking_of(result):
        subjects = (
            Moment((1, 1, 2)),
            SecondMoment((0.8, 0.6, 0.0)),
            SegmentMean(0, SegmentQuantity.PRODUCT, 1),
        )
        found = [evidence_name(Evidence(one, 1.0, 1.0, 0.0, 1.0)) for one in subjects]
    assert found == [
        "fare²·“mean radius”",
        "second moment along +0.80·age +0.60·fare",
        "mean of y·fare in segment 1",
    ]
    assert evidence_name(Evidence(Moment((1,)), 1.0, 1.0, 0.0, 1.0)) == "x₂"


@pytest.mark.parametrize("kind", ["isotropic", "radial"])
def test_speaking_of__whitened_features_have_the_names_of_their_columns(kind: str) -> None:
    result = rejected()
    scales = np.diag([100.0, 0.01, 1.0])
    # the third is more of the first column than of its own
    mixed = np.array([[1.0, 0.3, 0.5], [0.3, 1.0, 0.5], [0.9, 0.1, 0.2]]) @ scales
    for matrix, third in ((scales, "“mean radius”"), (mixed, "x₃")):
        rows = tuple(map(tuple, matrix.tolist()))
        transform = replace(result.transform, kind=kind, matrix=rows)
        with speaking_of(replace(result, feature_transform=transform)):
            found = [evidence_name(Evidence(Moment((j,)), 1.0, 1.0, 0.0, 1.0)) for j in range(3)]
        assert found == ["age", "fare", third]


def test_speaking_of__features_of_a_position_without_a_matrix_go_by_their_columns() -> None:
    result = rejected()
    turned = replace(result, transform=replace(result.transform, kind="isotropic"))
    with speaking_of(turned):
        assert evidence_name(Evidence(Moment((1,)), 1.0, 1.0, 0.0, 1.0)) == "fare"


def test_words__name_the_column() -> None:
    result = rejected()
    said = io.StringIO()
    show_test(Console(file=said, width=100), result)
    assert "fare²" in said.getvalue()
    assert "x₂" not in said.getvalue()
    assert "Inspect fare" in moment_sentence(result)


def test_page__names_columns_and_escapes_them() -> None:
    rows = np.random.default_rng(0).standard_normal((60_000, 3))
    result = streamhalf.fit((rows, np.sign(rows[:, 0])), certificate_degree=0)
    named = replace(result, data=DataRecord(60_000, 3, "abc", "", ("age", "<b>fare</b>", "radius")))
    page = render_report(named)
    assert "&lt;b&gt;fare&lt;/b&gt;" in page
    assert "<b>fare" not in page
    assert "radius" in page
