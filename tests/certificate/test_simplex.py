"""Small programs have the solutions that a general solver finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from streamhalf.certificate.simplex import feasible_basis


def solve(columns: np.ndarray, target: np.ndarray, costs: np.ndarray, spare: int):
    basis, weights = np.empty(len(target), dtype=np.int64), np.empty(len(target))
    rows = np.ascontiguousarray(columns.T)
    met, _ = feasible_basis(rows, target, costs, spare, basis, weights)
    return met, basis, weights


@pytest.mark.parametrize(("size", "width"), [(1, 3), (3, 5), (6, 20), (10, 90)])
def test_feasible_basis__finds_what_there_is(size: int, width: int) -> None:
    rng = np.random.default_rng(size)
    outcomes = set()
    for _ in range(25):
        columns, target = rng.standard_normal((size, width)), rng.standard_normal(size)
        columns[0], target[0] = np.abs(columns[0]), rng.uniform(0, 2)
        met, basis, weights = solve(columns, target, np.ones(width), 5)
        possible = linprog(np.zeros(width), A_eq=columns, b_eq=target).status == 0
        outcomes.add(possible)
        assert met == possible
        if met:
            assert (basis >= 0).all()
            assert (weights >= 0).all()
            assert columns[:, basis] @ weights == pytest.approx(target, abs=1e-6)
    assert True in outcomes


def test_feasible_basis__saves_costs() -> None:
    rng = np.random.default_rng(8)
    columns, costs = rng.standard_normal((3, 30)), rng.uniform(1, 9, 30)
    target = rng.standard_normal(3)
    best = linprog(costs, A_eq=columns, b_eq=target).fun
    _, basis, weights = solve(columns, target, costs, 100)
    assert costs[basis] @ weights == pytest.approx(best, rel=1e-6)


def test_feasible_basis__leaves_out_columns_that_have_no_part() -> None:
    columns = np.array([[1.0, 0.0], [0.0, 0.0]])
    met, basis, _ = solve(columns, np.array([1.0, 0.0]), np.ones(2), 0)
    assert met
    assert sorted(basis) == [-1, 0]
