from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamhalf.algorithms.few_rows import answer_few_rows
from streamhalf.planning.plan import plan_for_rows
from streamhalf.records import (
    FitResult,
    Position,
    PositionRecord,
    ReuseSuffices,
    Split,
    Stop,
    StopReason,
    Unverified,
    Verdict,
)
from tests.algorithms.runs import draw, names_of, serial_run


def answer(
    data: Any, *, unverified: bool = False, **parameters: Any
) -> tuple[FitResult, list[str]]:
    with serial_run(data, **({"eps": "auto"} | parameters)) as (run, source, config, _):
        plan = plan_for_rows(source.n_rows, source.dim, config)
        assert plan.required_rows > source.n_rows
        found = answer_few_rows(run, source, plan, config, unverified=unverified)
        assert found.rows_needed == plan.required_rows
        return found, names_of(run)


def test_few_rows__says_how_many_it_takes_and_reads_nothing() -> None:
    found, passes = answer(draw(400))
    assert passes == []
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.stop == Stop(StopReason.TOO_FEW_ROWS)
    assert (found.halfspace, found.error, found.chosen) == (None, None, None)
    assert (found.candidates, found.testers, found.passes) == ((), (), ())
    assert found.split is Split.REUSE
    assert found.notices == ()
    assert found.position == PositionRecord(Position.STORED)


def test_few_rows__says_where_reuse_would_do() -> None:
    found, _ = answer(draw(45_000), rows="rows")
    (notice,) = found.notices
    assert isinstance(notice, ReuseSuffices)
    assert notice.rows == 45_000
    assert 0 < notice.eps <= 0.25
    with serial_run(draw(45_000), eps="auto", rows="reuse") as (_, source, config, _):
        plan = plan_for_rows(source.n_rows, source.dim, config)
    assert plan.required_rows <= 45_000
    assert notice.eps == plan.eps


def test_few_rows__unverified_is_the_chow_direction_of_all_rows() -> None:
    X, y = draw(400)
    found, passes = answer((X, y), unverified=True, through="centre")
    assert passes == ["unverified"]
    chow = (X * y[:, None]).mean(axis=0)
    np.testing.assert_allclose(found.halfspace.normal, chow / np.linalg.norm(chow), atol=1e-12)
    assert found.halfspace.offset == 0
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.error is None
    assert found.notices == (Unverified(),)
    assert [record.name for record in found.passes] == ["unverified"]


def test_few_rows__unverified_in_another_position() -> None:
    X, y = draw(400)
    moved = X * [4.0, 0.25] + [10.0, -1.0]
    found, passes = answer((moved, y), unverified=True, whiten=True)
    assert passes == ["whitening", "unverified", "thresholds"]
    assert found.position.kind == Position.ISOTROPIC
    np.testing.assert_allclose(found.position.centre, moved.mean(axis=0))
    # about x1 / 4 + 4 x2 >= 10 / 4 - 4; 5% of the labels are wrong
    wrong = found.halfspace.plane.errors(moved, y)
    assert wrong / 400 < 0.12


@pytest.mark.parametrize("whiten", [True, False])
def test_few_rows__unverified_has_the_threshold_that_errs_least(whiten: bool) -> None:
    X, _ = draw(400)
    y = np.where(X[:, 0] >= 1.2, 1, -1).astype(np.int8)
    found, _ = answer((X, y), unverified=True, whiten=whiten)
    centred, _ = answer((X, y), unverified=True, whiten=whiten, through="centre")
    assert found.halfspace.normal == centred.halfspace.normal
    errors = [one.halfspace.plane.errors(X, y) / 400 for one in (found, centred)]
    assert errors[0] < 0.05 < 0.3 < errors[1]


@pytest.mark.parametrize("whiten", [True, False])
def test_few_rows__constant_features_get_no_weight(whiten: bool) -> None:
    X, y = draw(400)
    still = np.column_stack([X, np.full(400, 0.0)])
    found, _ = answer((still, y), unverified=True, whiten=whiten)
    assert found.halfspace.normal[2] == 0
    assert found.halfspace.plane.errors(still, y) / 400 < 0.12


def test_few_rows__reuse_is_not_proposed_to_those_who_reuse() -> None:
    found, _ = answer(draw(400), rows="reuse")
    assert found.split is Split.REUSE
    assert found.notices == ()


def test_few_rows__keeps_what_was_noticed_about_the_data() -> None:
    X, y = draw(400)
    with serial_run((X, (y > 0).astype(np.int8)), eps="auto") as (run, source, config, _):
        assert source.notices
        plan = plan_for_rows(source.n_rows, source.dim, config)
        found = answer_few_rows(run, source, replace(plan), config, unverified=True)
    assert found.notices == (*source.notices, Unverified())
