"""Which transforms a sample rules out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamhalf import RunConfig
from streamhalf.algorithms.plan import plan_for_rows
from streamhalf.algorithms.transform import transforms_to_try, try_transforms
from streamhalf.data.block import Block
from streamhalf.results import Outcome, Transform, TransformTrial

PASSED, DOUBT, NO, SILENT = (Outcome.PASSED, Outcome.INCONCLUSIVE, Outcome.REJECTED, Outcome.NOT_JUDGED)
DIM = 3
MIXING = np.array([[2.0, 0.0, 0.3], [1.0, 0.5, 0.0], [0.0, -1.0, 3.0]])


def draw(kind: str, n_rows: int = 20_000) -> np.ndarray:
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
    trials = look(draw(kind))
    assert [one.kind for one in trials] == ["stored", "isotropic", "radial"]
    assert tuple(one.outcome for one in trials) == outcomes
    assert tuple(str(one) for one in transforms_to_try(trials)) == tried
    assert not any(one.tried for one in trials)
    for one in trials:
        assert one.evidence is not None
        assert one.evidence.outcome is one.outcome
        assert one.problem == ""


def test_look__few_rows_rule_out_what_is_far_off_and_nothing_else() -> None:
    rows = draw("gaussian", 100)
    assert NO not in {one.outcome for one in look(rows)}
    far = rows.copy()
    far[:, 0] = np.exp(4 * far[:, 0])
    assert [one.outcome for one in look(far)[:2]] == [NO, NO]


def test_look__a_position_that_is_not_there_names_the_features() -> None:
    rows = draw("gaussian", 2_000)
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
        trials = look(draw("gaussian", n_rows))
        assert [one.features for one in trials] == [(), (), ()]
        for one in trials[1:]:
            assert one.outcome is SILENT
            assert f"{n_rows} rows is too small to tell how {DIM} features are" in one.problem
        assert transforms_to_try(trials) == (Transform.STORED,)


@pytest.mark.parametrize(
    ("outcomes", "tried"),
    [
        ((PASSED, PASSED, PASSED), (0, 1, 2)),
        ((NO, DOUBT, SILENT), (1, 2)),
        ((DOUBT, NO, PASSED), (0, 2)),
        ((NO, NO, DOUBT), (2,)),
        ((NO, NO, NO), (1,)),
    ],
)
def test_positions_to_try__are_those_that_are_not_ruled_out_or_one(
    outcomes: tuple[Outcome, ...], tried: tuple[int, ...]
) -> None:
    kinds = tuple(Transform)
    assert kinds == (Transform.STORED, Transform.ISOTROPIC, Transform.RADIAL)
    trials = tuple(TransformTrial(*pair) for pair in zip(kinds, outcomes, strict=True))
    assert transforms_to_try(trials) == tuple(kinds[i] for i in tried)
