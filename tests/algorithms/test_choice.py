"""Which halfspace of several wins, and by how much it must."""

from __future__ import annotations

import numpy as np
import pytest

from streamhalf.algorithms.baselines import FEW_TO_CHOOSE, Baseline, choose, cross_fit, learn_baselines
from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.errors import PlaneErrors, PlaneErrorsResult
from streamhalf.results import Method
from tests.algorithms.runs import draw


def counted(*wrong: set[int]) -> PlaneErrorsResult:
    """Planes that get these of 1,000 rows wrong."""
    errors = np.array([[len(one)] for one in wrong])
    shared = np.array([[len(one & other) for other in wrong] for one in wrong])
    return PlaneErrorsResult(np.array([1_000]), errors, shared, 0, np.zeros(len(wrong), np.int64))


def rows(start: int, stop: int) -> set[int]:
    return set(range(start, stop))


@pytest.mark.parametrize(("ahead", "chosen"), [(0, 0), (10, 0), (11, 1), (40, 1)])
def test_choose__a_gain_within_a_standard_error_goes_to_the_favourite(ahead: int, chosen: int) -> None:
    # they disagree on 100 rows, and the first errs on `ahead` more of them
    more = 50 + ahead // 2
    found = counted(rows(0, more + ahead % 2), rows(200, 300 - more))
    assert found.disagreements(0, 1) == pytest.approx(100, abs=1)
    assert choose(found, [0]) == chosen
    assert choose(found, [1]) == 1


def test_choose__the_best_of_the_favourites_speaks_for_them() -> None:
    found = counted(rows(0, 60), rows(0, 50), rows(100, 145), rows(100, 160))
    assert choose(found, [0, 1]) == 1
    assert choose(found, [0]) == 2
    assert choose(found, []) == 2


def block_of(n_rows: int, **parameters: float) -> Block:
    X, y = draw(n_rows, dim=3, **parameters)
    return Block(X, y, np.arange(n_rows))


def test_cross_fit__few_rows_keep_the_regression() -> None:
    # on 100 rows nine methods do about as well: some would be ahead by chance on the rows they
    # learnt from
    block = block_of(100)
    members = learn_baselines(block, seed=1)
    assert len(members) > 5
    assert cross_fit(block, members, seed=1) is members[0]


def test_cross_fit__a_recipe_that_is_better_wins() -> None:
    # far rows with wrong labels pull a regression, and localised updates do not see them
    rng = np.random.default_rng(4)
    X = rng.standard_normal((4_000, 2))
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    far = np.argsort(-np.abs(X[:, 0]) - 2 * X[:, 1] * np.sign(X[:, 0]))[:400]
    y[far] *= -1
    block = Block(X, y, np.arange(4_000))
    members = learn_baselines(block, seed=1)
    found = cross_fit(block, members, seed=1)
    assert found.method is not Method.REGRESSION
    assert found.plane.errors(X, y) < members[0].plane.errors(X, y) - 30


def test_cross_fit__recipes_that_a_fold_lacks_are_left_out() -> None:
    # one that no fold finds again, and errs on nothing where it was learnt
    block = block_of(200, rate=0.0)
    regression = learn_baselines(block, seed=1)[0]
    alien = Baseline(Method.PATH, Plane(np.array([1.0, 1.0, 0.0])))
    assert alien.plane.errors(block.X, block.y) == 0
    assert cross_fit(block, (regression, alien), seed=1) is regression


def test_cross_fit__counts_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    block = block_of(500)
    seen: list[int] = []
    honest = PlaneErrors.map

    def spy(self: PlaneErrors, part: Block) -> PlaneErrorsResult:
        seen.extend(part.rows.tolist())
        return honest(self, part)

    monkeypatch.setattr(PlaneErrors, "map", spy)
    cross_fit(block, learn_baselines(block, seed=1), seed=1)
    assert sorted(seen) == list(range(500))
    assert FEW_TO_CHOOSE > 500
