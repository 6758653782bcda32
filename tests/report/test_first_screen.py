"""Headlines of odd data: all numbers of one population, and no promise that says nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import streamhalf
from streamhalf.report.first_screen import face_of
from streamhalf.results import Advice, AdviceCode, LookRecord, NoticeCode, PromiseCode, StreamRecord, Verdict, replace
from tests.report.golden import shown

RNG_SEED = 11


def rows(n_rows: int, dim: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows, and labels of a halfspace with a share of them flipped."""
    rng = np.random.default_rng(RNG_SEED)
    X = rng.standard_normal((n_rows, dim))
    y = np.where(X[:, 0] - X[:, -1] >= 0.2, 1, -1)
    return X, np.where(rng.random(n_rows) < noise, -y, y).astype(np.int8)


def test_headline__speaks_of_all_rows() -> None:
    X, y = rows(3_000, 2, 0.1)
    result = streamhalf.fit((X, y), seed=0)
    quality, certificate = result.quality, result.certificate
    assert quality is not None
    assert certificate is not None
    wrong = result.predict(X) != y
    assert quality.error == pytest.approx(wrong.mean())
    assert quality.guess == min((y > 0).mean(), (y < 0).mean())
    assert quality.lower is not None
    assert quality.lower <= quality.error
    assert certificate.n_positive == (y > 0).sum()


def test_headline__of_noise_promises_nothing() -> None:
    X, y = rows(2_000, 3, 0.5)
    face = face_of(streamhalf.fit((X, y), seed=0))
    assert face.promise.sign == "?"
    assert "Proved" not in face.promise.words
    assert not any("audit" in one for one in face.advice)


def test_headline__of_a_classifier_that_is_worse_than_guessing() -> None:
    X, y = rows(5_000, 2, 0.05)
    result = streamhalf.certify((X, y), weights=[-1.0, 1.0], seed=0)
    assert result.promise is not None
    assert result.promise.code is PromiseCode.NO_BETTER
    assert not result.promise.holds
    face = face_of(result)
    assert face.promise.sign == "?"
    assert "right way round" in face.advice[0]


def test_headline__of_errors_that_drift_has_no_bound() -> None:
    X, y = rows(30_000, 2, 0.0)
    y[:6_000] *= -1
    result = streamhalf.fit((X, y), seed=0)
    assert result.error is not None
    assert result.error.segments == 1
    face = face_of(result)
    assert "no bound for fresh rows" in face.tiles[0].notes
    assert face.measured.endswith("No bound for fresh rows: the error drifts along the rows.")
    assert "at most" not in shown(result)


def test_headline__of_categories_names_them() -> None:
    rng = np.random.default_rng(RNG_SEED)
    frame = pd.DataFrame({"job": rng.choice(list("abc"), 2_000, p=[0.1, 0.3, 0.6]), "age": rng.normal(40, 9, 2_000)})
    labels = np.where((frame["job"] == "a") ^ (rng.random(2_000) < 0.2), "yes", "no")
    result = streamhalf.fit((frame, labels), seed=0, max_ratio=1.0)
    assert result.verdict is Verdict.REJECTED
    face = face_of(result)
    assert "“job=a”" in face.promise.words
    assert "have few values" in face.promise.words
    assert face.advice[0].startswith("Use the classifier as it is")


def test_headline__of_a_certified_run_asks_for_nothing() -> None:
    X, y = rows(2_000, 2, 0.1)
    result = streamhalf.fit((X, y), seed=0)
    assert result.verdict is Verdict.CERTIFIED
    assert not any("promise" in one for one in face_of(result).advice)


def test_advice__of_a_degree_is_for_runs_that_can_begin_with_it() -> None:
    result = streamhalf.fit(rows(2_000, 2, 0.1), seed=0)
    assert result.certificate is not None
    advice = Advice(AdviceCode.HIGHER_DEGREE, degree=8)
    result = replace(result, certificate=replace(result.certificate, advice=advice, ratio=2.0))
    assert any("--certificate-degree 8" in one for one in face_of(result).advice)
    looks = 2 * (LookRecord(0, 9, 0, 0.0, 1.0, 0.1),)
    for changes in ({"looks": looks}, {"stream": StreamRecord((0, 9), (0, 9), (0, 9))}):
        assert not any("degree" in one for one in face_of(replace(result, **changes)).advice)


def test_headline__of_few_rows_says_what_is_missing() -> None:
    X, y = rows(40, 3, 0.1)
    result = streamhalf.fit((X, y), seed=0)
    assert any(one.code is NoticeCode.NO_BETTER_THAN_GUESS for one in result.notices)
    face = face_of(result)
    assert face.promise.title == "No promise against chosen label flips (inconclusive):"
    assert face.advice[0].startswith("Look for features")
