from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from scripts.evaluation import completeness, elliptical, refine, thresholds, wide
from scripts.evaluation.command import SCHEMA, main
from scripts.evaluation.distributions import HELD_OUT
from scripts.evaluation.drawing import Problem, draw, learn, least_error
from scripts.evaluation.search import best_halfspace, best_in_plane, best_threshold, error_of
from streamhalf.synthetic.spec import SyntheticSpec

Rng = np.random.Generator


def draw_lattice(rng: Rng) -> NDArray[np.float64]:
    """Few points, many of them on one line through the origin, and the origin itself."""
    return rng.integers(-2, 3, (int(rng.integers(1, 12)), 2)).astype(np.float64)


def draw_scattered(rng: Rng) -> NDArray[np.float64]:
    return rng.standard_normal((int(rng.integers(1, 12)), 2))


def enumerate_best(X: NDArray[np.float64], y: NDArray[np.int8]) -> float:
    """Every normal orthogonal to a row, and one between any two neighbours of them."""
    rows = X[np.any(X != 0, axis=1)]
    critical = np.concatenate([rows[:, ::-1] * [-1, 1], rows[:, ::-1] * [1, -1], [[1.0, 0.0]]])
    angles = np.unique(np.arctan2(critical[:, 1], critical[:, 0]))
    between = (angles + np.append(angles[1:], angles[0] + 2 * np.pi)) / 2
    normals = np.concatenate([critical, np.stack([np.cos(between), np.sin(between)], axis=1)])
    return min(error_of(X, y, w) for w in normals)


@pytest.mark.parametrize("draw", [draw_lattice, draw_scattered])
def test_best_in_plane__agrees_with_enumeration(draw: object) -> None:
    assert callable(draw)
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X = draw(rng)
        y = rng.choice(np.array([-1, 1], dtype=np.int8), len(X))
        assert best_in_plane(X, y).error == pytest.approx(enumerate_best(X, y), abs=1e-12)


def test_best_halfspace__finds_what_no_start_points_at() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2_000, 3))
    y = np.where(X @ [0.6, 0.0, 0.8] >= 0, 1, -1).astype(np.int8)
    assert best_halfspace(X, y, [np.eye(3)[1]], rng).error < 0.003


def test_best_threshold__agrees_with_trying_all() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        margin = rng.integers(-3, 4, int(rng.integers(1, 12))).astype(np.float64)
        y = rng.choice(np.array([-1, 1], dtype=np.int8), len(margin))

        def error(t: float, margin: object = margin, y: object = y) -> int:
            return int(np.count_nonzero((margin >= t) != (y > 0)))

        assert error(best_threshold(margin, y)) == min(error(t) for t in range(-4, 6))


@pytest.mark.parametrize("name", HELD_OUT)
def test_held_out_laws__are_centred_with_unit_covariance(name: str) -> None:
    rng = np.random.default_rng(2)
    X = HELD_OUT[name](100_000, np.array([0.6, 0.8, 0.0]), rng)
    assert X.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.2)
    assert np.cov(X.T) == pytest.approx(np.eye(3), abs=0.15)


@pytest.mark.slow
def test_other_learners__have_thresholds() -> None:
    spec = SyntheticSpec(rows=20_000, dim=3, marginal="gaussian", noise="far", rate=0.02, positive=0.1)
    problem = draw(spec)
    logistic, rescanned, svm = thresholds.learn_others(problem)
    errors = [plane.errors(problem.X, problem.y) for plane in (logistic, rescanned, svm)]
    # "always -1" errs on 12% of the rows, the planted halfspace on 2%
    assert problem.plane.errors(problem.X, problem.y) == 400
    assert errors[1] < 600 < errors[0] < errors[2] < 2_450
    assert rescanned.unit().threshold == pytest.approx(problem.threshold, abs=0.1)


@pytest.mark.slow
def test_threshold_tables__are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small ones: whether the criteria are met takes more rows."""
    cells = ((3, 0.5, "random"), (3, 0.03, "minor"), (3, 0.1, "tilt"))
    monkeypatch.setitem(thresholds.CELLS, "short", cells)
    monkeypatch.setitem(thresholds.ROWS, "short", 20_000)
    monkeypatch.setattr(completeness, "EPS", 0.25)
    monkeypatch.setattr(completeness, "THRESHOLDS", (0.0, 1.0))
    names = ["thresholds", "threshold-completeness"]
    code = main(["--only", *names, "--out", str(tmp_path)])
    document = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    assert code == int(not document["met"])
    assert list(document["tables"]) == names
    errors = document["tables"]["thresholds"]["rows"]
    assert [(row["d"], row["positive"], row["noise"]) for row in errors] == list(cells)
    for row in errors:
        rate = 0.2 * row["positive"]
        # random noise at 20,000 rows: six standard errors, failure probability below 2e-9
        assert row["planted error"] == pytest.approx(rate, abs=0.0128)
        assert row[thresholds.RESCANNED] <= row[thresholds.LOGISTIC]
        assert row[thresholds.RESCANNED] < row[thresholds.CONSTANT]
    counts = document["tables"]["threshold-completeness"]["rows"]
    for row in counts:
        found = (row[one] for one in ("accepted", "rejected", "inconclusive"))
        assert sum(found) == completeness.THRESHOLD_REPEATS["short"]
    assert counts[1]["rows"] == pytest.approx(np.exp(0.5) * counts[0]["rows"], rel=1e-3)
    assert (tmp_path / "evaluation.png").stat().st_size > 10_000
    assert "## Thresholds" in capsys.readouterr().out


@pytest.mark.parametrize("law", elliptical.LAWS)
def test_elliptical_laws__have_the_planted_halfspace_with_its_flips(law: str) -> None:
    rng = np.random.default_rng(1)
    problem = elliptical.draw_elliptical(*elliptical.LAWS[law], 20_000, 4, "chow", 0.05, rng)
    # rounding to float32 may move a row over the boundary
    assert problem.plane.errors(problem.X, problem.y) == pytest.approx(1_000, abs=3)
    rest = elliptical.draw_elliptical(*elliptical.LAWS[law], 20_000, 4, "none", 0.0, rng)
    assert np.mean(rest.y) == pytest.approx(0, abs=0.04)  # 5.6 standard errors: below 3e-8


def test_least_error__is_of_the_class_of_the_promise() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((4_000, 2)).astype(np.float32)
    y = np.where(X[:, 0] >= 0.7, 1, -1).astype(np.int8)
    problem = Problem(X, y, np.array([1.0, 0.0]))
    for transform, least, most in (("stored", 0.0, 0.001), ("radial", 0.2, 0.3)):
        result = learn(problem, feature_transform=transform, centre="origin", seed=0)
        assert least <= least_error(problem, result, [problem.plane], rng) <= most


@pytest.mark.slow
def test_position_tables__are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones: whether the criteria are met takes more rows."""
    monkeypatch.setitem(elliptical.CELLS, "short", (("Cauchy", "chow", 0.05),))
    monkeypatch.setitem(elliptical.ROWS, "short", 20_000)
    monkeypatch.setattr(elliptical, "DIM", 3)
    monkeypatch.setattr(completeness, "LAW_DIMS", (2,))
    monkeypatch.setitem(completeness.LAW_REPEATS, "short", 1)
    monkeypatch.setattr(refine, "ROWS", 20_000)
    monkeypatch.setitem(refine.CASES, "short", (refine.Case(3, "random", 0.05, None),))
    names = ["elliptical", "completeness-auto", "refine"]
    code = main(["--only", *names, "--out", str(tmp_path)])
    document = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    assert code == int(not document["met"])
    tables = document["tables"]
    assert list(tables) == names
    (cauchy,) = tables["elliptical"]["rows"]
    assert cauchy["planted error"] == pytest.approx(0.05, abs=1e-3)
    assert cauchy["streamhalf"] < cauchy["logistic regression"]
    assert [row["law"] for row in tables["completeness-auto"]["rows"]] == [*completeness.LAWS]
    (refined,) = tables["refine"]["rows"]
    assert refined["limit"] == pytest.approx(refined["logistic regression"] + refine.BEHIND)
    assert refined["holds"] == (refined["streamhalf"] <= refined["limit"])


@pytest.mark.slow
def test_wide_table__is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(wide.GAUSSIAN, "short", ((400, 20),))
    monkeypatch.setitem(wide.SPLITS, "short", 1)
    monkeypatch.setattr(wide, "FRESH", 2_000)
    code = main(["--only", "wide", "--out", str(tmp_path)])
    document = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    assert code == int(not document["met"])
    rows = document["tables"]["wide"]["rows"]
    assert [row["d"] for row in rows] == [20, 20, 30, 64]
    for row in rows:
        assert 0.67 * row["rows"] < row["rows for learning"] < row["rows"]
        assert row["holds"] == (row["streamhalf"] <= row[wide.SAME] + wide.SLACK)


@pytest.mark.slow
def test_short_form__meets_every_criterion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["completeness", "robustness", "soundness"]
    code = main(["--form", "short", "--only", *names, "--out", str(tmp_path)])
    document = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    assert document["schema"] == SCHEMA
    assert document["form"] == "short"
    assert list(document["tables"]) == names
    for name, table in document["tables"].items():
        assert set(table) >= {"criterion", "met", "summary", "rows"}
        assert table["met"], f"{name}: {table['summary']}"
    assert document["tables"]["soundness"]["wrong"] == []
    assert document["met"]
    assert code == 0
    assert (tmp_path / "evaluation.png").stat().st_size > 10_000
    assert "## Soundness" in capsys.readouterr().out
