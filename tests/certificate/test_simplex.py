"""Many programs at once agree with a solver that takes one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from streamhalf.certificate.simplex import feasible_bases


@pytest.mark.parametrize(("size", "width"), [(1, 3), (3, 5), (6, 20), (10, 90)])
def test_feasible_bases__finds_what_there_is(size: int, width: int) -> None:
    rng = np.random.default_rng(size)
    columns = rng.standard_normal((40, size, width))
    columns[:, 0] = np.abs(columns[:, 0])
    targets = rng.standard_normal((40, size))
    targets[:, 0] = rng.uniform(0, 2, 40)
    found = feasible_bases(columns, targets, np.ones((40, width)), spare=5)
    possible = [
        linprog(np.zeros(width), A_eq=columns[i], b_eq=targets[i]).status == 0 for i in range(40)
    ]
    assert found.found.tolist() == possible
    assert any(possible)
    for i in np.flatnonzero(found.found):
        assert (found.columns[i] >= 0).all()
        assert (found.weights[i] >= 0).all()
        assert columns[i][:, found.columns[i]] @ found.weights[i] == pytest.approx(
            targets[i], abs=1e-6
        )


def test_feasible_bases__saves_costs() -> None:
    rng = np.random.default_rng(8)
    columns = rng.standard_normal((1, 3, 30))
    costs = rng.uniform(1, 9, (1, 30))
    targets = rng.standard_normal((1, 3))
    best = linprog(costs[0], A_eq=columns[0], b_eq=targets[0]).fun
    found = feasible_bases(columns, targets, costs, spare=100)
    assert costs[0][found.columns[0]] @ found.weights[0] == pytest.approx(best, rel=1e-6)


def test_feasible_bases__leaves_out_columns_that_have_no_part() -> None:
    columns = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    found = feasible_bases(columns, np.array([[1.0, 0.0]]), np.ones((1, 2)), spare=0)
    assert found.found.tolist() == [True]
    assert sorted(found.columns[0]) == [-1, 0]
