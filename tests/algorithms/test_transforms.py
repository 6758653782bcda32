"""Runs in whichever transform the rows pass in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamhalf.algorithms import driver, transform
from streamhalf.algorithms.transform import try_transforms
from streamhalf.errors import TransformError
from streamhalf.results import FitResult, HalfspaceClass, Method, Notice, NoticeCode, Outcome, Stage, Transform, Verdict
from streamhalf.testers import TESTERS
from tests.algorithms.runs import N_ROWS, draw, serial_run
from tests.algorithms.test_driver import toy

X, Y = draw()
MIXING = np.array([[2.0, 0.0], [1.0, 0.3]])


def fit(data: tuple[Any, Any], *, testers: tuple[type, ...] = TESTERS, **parameters: Any) -> FitResult:
    given = {"seed": 2, "feature_transform": "auto"} | parameters
    with serial_run(data, **given) as (run, source, config, _):
        return driver.fit(run, source, config, testers=testers)


def said(result: FitResult) -> list[tuple[str, bool]]:
    """Of each transform what was said, and whether a run was made in it."""
    return [(one.outcome.value, one.tried) for one in result.transforms]


def passes(result: FitResult) -> list[str]:
    return [record.name for record in result.passes]


def test_auto__gaussian_rows_stay_as_they_are() -> None:
    # accepted but with probability below tau = 0.01, here and below
    result = fit((X, Y))
    assert (result.verdict, result.transform.kind) == (Verdict.ACCEPTED, "stored")
    assert said(result) == [("passed", True), ("passed", False), ("passed", False)]


def test_auto__rows_of_an_ellipse_are_whitened() -> None:
    moved = X @ MIXING + [3.0, -1.0]
    result = fit((moved, Y))
    assert (result.verdict, result.transform.kind) == (Verdict.ACCEPTED, "isotropic")
    assert said(result) == [("rejected", False), ("passed", True), ("passed", False)]
    assert result.halfspace.plane.errors(moved, Y) / N_ROWS == pytest.approx(0.05, abs=0.005)


def cauchy() -> tuple[np.ndarray, np.ndarray]:
    scale = np.abs(np.random.default_rng(6).standard_normal((N_ROWS, 1)))
    return X / scale @ MIXING + [3.0, -1.0], Y


def test_auto__cauchy_rows_are_accepted_in_the_radial_position() -> None:
    rows, y = cauchy()
    result = fit((rows, y))
    assert (result.verdict, result.transform.kind) == (Verdict.ACCEPTED, "radial")
    assert said(result) == [("rejected", False), ("rejected", False), ("passed", True)]
    assert passes(result)[:2] == ["sample", "radial"]
    assert Notice.of(NoticeCode.RADII_DRAWN, at_centre=0.0) in result.notices
    # errors are those of stored rows, by planes that come back from there
    assert result.error.empirical == pytest.approx(0.05, abs=0.005)
    assert result.halfspace.plane.errors(rows, y) / N_ROWS == pytest.approx(0.05, abs=0.005)
    assert "thresholds" not in passes(result)  # its path goes through the centre


def test_auto__where_every_position_is_ruled_out_one_is_tried_and_rejects() -> None:
    result = fit((X**3, Y))
    assert (result.verdict, result.transform.kind) == (Verdict.REJECTED, "isotropic")
    assert said(result) == [("rejected", False), ("rejected", True), ("rejected", False)]
    tried = result.transforms[1]
    assert tried.evidence.outcome is Outcome.REJECTED
    assert tried.evidence in result.testers
    assert result.error.empirical == pytest.approx(0.05, abs=0.005)
    # where the tests speak against it, the path has to be clearly better than the regression
    method = result.candidates[result.chosen].method
    errors = {one.method: one.error for one in result.candidates}
    assert method is not Method.PATH or errors[Method.PATH] < errors[Method.REGRESSION]


def test_auto__a_rejection_moves_on_to_the_next_position() -> None:
    own = toy(Stage.FINAL, Outcome.REJECTED)
    result = fit((X, Y), testers=(*TESTERS, own))
    assert said(result) == [("rejected", True), ("rejected", True), ("rejected", True)]
    assert (result.verdict, result.transform.kind) == (Verdict.REJECTED, "radial")
    assert passes(result).count("final") == 3
    assert passes(result).count("sample") == 1


def test_auto__stops_early_where_asked_to() -> None:
    own = toy(Stage.FINAL, Outcome.REJECTED)
    result = fit((X, Y), testers=(*TESTERS, own), stop_early=True, certificate_degree=2)
    assert said(result) == [("rejected", True), ("passed", False), ("passed", False)]
    assert (result.verdict, result.transform.kind) == (Verdict.REJECTED, "stored")
    assert result.certificate is None
    assert result.halfspace is not None
    assert result.error.empirical == pytest.approx(0.05, abs=0.005)


def test_auto__features_that_stand_still_leave_the_stored_position() -> None:
    rows = np.column_stack([X, np.full(N_ROWS, 7.0)])
    result = fit((rows, Y))
    assert (result.verdict, result.transform.kind) == (Verdict.REJECTED, "stored")
    assert [bool(one.problem) for one in result.transforms] == [False, True, True]
    assert "feature 3 is constant" in result.transforms[1].problem
    assert result.error.empirical == pytest.approx(0.05, abs=0.005)
    for kind in ("isotropic", "radial"):  # refused where asked for
        with pytest.raises(TransformError, match="feature 3 is constant"):
            fit((rows, Y), feature_transform=kind)


def test_look__sees_no_held_out_row(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def spy(block: Any, plan: Any, config: Any) -> Any:
        seen.extend(block.rows.tolist())
        return try_transforms(block, plan, config)

    monkeypatch.setattr(transform, "try_transforms", spy)
    result = fit((X, Y))
    assert len(seen) + result.error.n_rows <= N_ROWS
    assert result.held_out.low == 0
    assert len(set(seen)) == len(seen) > 1_000


@pytest.mark.parametrize(
    ("n_rows", "moved", "through"),
    [(N_ROWS, 0.0, HalfspaceClass.ORIGIN), (2_000, 0.0, HalfspaceClass.ORIGIN), (2_000, 3.0, HalfspaceClass.CENTRE)],
)
def test_through__the_centre_is_that_of_the_position_for_the_pool_too(
    n_rows: int, moved: float, through: HalfspaceClass
) -> None:
    result = fit((X[:n_rows] + moved, Y[:n_rows]), through="centre")
    assert result.transform.kind == (Transform.ISOTROPIC if moved else Transform.STORED)
    assert result.error.through is through
