"""Sets of rows in conflict are never more than the errors of the best halfspace."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from streamhalf.certificate.packing import Packing, are_conflicts, exact_weights, feasible_basis
from streamhalf.kernels.plane import Plane
from tests.certificate.brute_force import smallest_error, smallest_error_in_space, smallest_error_of_any, tiny_problem

EFFORT = 10**6


def count(X: object, y: object, *, central: bool = False, normal: object = None) -> int:
    """Sets among rows, about some plane."""
    rows = np.array(X, dtype=np.float64)
    plane = Plane(np.eye(rows.shape[1])[0] if normal is None else np.array(normal))
    return Packing(rows, np.array(y, dtype=np.int8), plane, effort=EFFORT, central=central).n_sets


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_packing__is_never_more_than_the_best_halfspace_errs_on(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = tiny_problem(rng)
    n, dim = problem.X.shape
    plane = Plane(problem.v, problem.threshold)
    found = Packing(problem.X, problem.y, plane, effort=EFFORT)
    least = smallest_error_in_space if dim == 3 else smallest_error_of_any
    assert found.points.n_settled <= found.n_sets <= round(n * least(problem))
    if dim < 3:
        central = Packing(problem.X, problem.y, plane, effort=EFFORT, central=True)
        assert central.n_sets <= round(n * smallest_error(problem, rng))


def test_packing__counts_labels_that_contradict_each_other_at_one_point() -> None:
    X = [[1.0, 2.0]] * 5 + [[-0.0, 3.0]] * 2 + [[0.0, 3.0]] * 3
    assert count(X, [1, 1, 1, -1, -1, 1, 1, -1, -1, -1]) == 4


def test_packing__finds_nothing_where_labels_can_be_separated() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    assert count(X, np.where(X @ [1.0, 2.0, -1.0] > 0.2, 1, -1)) == 0


@pytest.mark.parametrize(("away", "expected"), [(0.0, 1), (1.0, 0)])
def test_packing__tells_rows_on_a_line_from_rows_next_to_it(away: float, expected: int) -> None:
    # the middle one of three on a line has the other label; off it by one unit in the last place
    middle = np.nextafter(1.0, 2.0) if away else 1.0
    assert count([[0.0, 0.0], [1.0, middle], [2.0, 2.0]], [-1, 1, -1]) == expected


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_packing__does_not_depend_on_units(unit: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 2))
    y = np.where(X[:, 0] >= 0, 1, -1) * np.where(rng.random(400) < 0.05, -1, 1)
    X[:, 1] *= unit
    wrong = int(np.count_nonzero(y * X[:, 0] < 0))
    assert 0.9 * wrong < count(X, y) <= wrong


def test_packing__is_nearly_tight_where_few_labels_are_wrong() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_t(1.5, (4_000, 5))
    y = np.where(X[:, 0] >= 0, 1, -1) * np.where(rng.random(4_000) < 0.01, -1, 1)
    wrong = int(np.count_nonzero(y * X[:, 0] < 0))
    found = Packing(X, y.astype(np.int8), Plane(np.eye(5)[0]), effort=10**8)
    assert 0.85 * wrong < found.n_sets <= wrong
    again = Packing(X, y.astype(np.int8), Plane(np.eye(5)[0]), effort=10**8)
    assert (again.n_sets, again.operations) == (found.n_sets, found.operations)


def test_packing__through_the_origin_a_negative_row_there_is_always_wrong() -> None:
    assert count([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [-1, -1, 1], central=True) == 2
    assert count([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [-1, -1, 1]) == 1


def test_packing__through_the_origin_positive_rows_alone_are_no_conflict() -> None:
    # w = (0, 1) has both on its boundary, where sgn is +1
    assert count([[1.0, 0.0], [-1.0, 0.0]], [1, 1], central=True) == 0
    assert count([[1.0, 0.0], [-1.0, 0.0]], [-1, -1], central=True, normal=[1.0, 0.5]) == 1


def test_packing__ends_with_its_effort() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((3_000, 8))
    y = np.where(rng.random(3_000) < 0.5, 1, -1).astype(np.int8)
    little = Packing(X, y, Plane(np.eye(8)[0]), effort=3 * 10**6)
    more = Packing(X, y, Plane(np.eye(8)[0]), effort=3 * 10**7)
    assert 0 < little.n_sets < more.n_sets <= 3_000 // 2
    assert little.operations < 2 * 10**7


@pytest.mark.parametrize("rows", [0, 1])
def test_packing__of_hardly_any_rows_is_nothing(rows: int) -> None:
    assert count(np.ones((rows, 2)), np.ones(rows)) == 0


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


def solve_exactly(rows: np.ndarray, row: np.ndarray) -> list[Fraction]:
    """Weights of the rows that make minus the other row, by elimination with fractions."""
    size = len(row)
    lines = [[*(Fraction(float(rows[j, i])) for j in range(size)), Fraction(-float(row[i]))] for i in range(size)]
    for i in range(size):
        top = next(k for k in range(i, size) if lines[k][i] != 0)
        lines[i], lines[top] = lines[top], lines[i]
        lines[i] = [value / lines[i][i] for value in lines[i]]
        for k in range(size):
            if k != i:
                lines[k] = [a - lines[k][i] * b for a, b in zip(lines[k], lines[i], strict=True)]
    return [line[-1] for line in lines]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from([0, 8, 14]))
def test_are_conflicts__says_yes_only_where_exact_weights_are_positive(seed: int, size: int, digits: int) -> None:
    rng = np.random.default_rng(seed)
    others = rng.standard_normal((1, size, size))
    weights = rng.random((1, size)) + 0.01
    weights[0, 0] *= 10.0**-digits  # next to what cannot be told from 0
    row = -np.einsum("bi,bij->bj", weights, others)
    if are_conflicts(row, others, weights)[0]:
        assert min(solve_exactly(others[0], row[0])) > 0
    else:
        assert digits > 0


@pytest.mark.parametrize("weight", [0.0, -1e-3, -1.0])
def test_are_conflicts__refuses_weights_that_are_not_positive(weight: float) -> None:
    rng = np.random.default_rng(2)
    others = rng.standard_normal((20, 4, 4))
    weights = rng.random((20, 4)) + 0.1
    true = weights.copy()
    true[:, 1] = weight
    row = -np.einsum("bi,bij->bj", true, others)
    assert not are_conflicts(row, others, weights).any()


def test_are_conflicts__refuses_a_matrix_without_an_inverse_and_proves_its_neighbour() -> None:
    others = np.array([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]])
    row = np.array([[-3.0, -6.0], [-3.0, -6.0]])
    weights = np.array([[1.0, 1.0], [3.0, 6.0]])
    assert are_conflicts(row, others, weights).tolist() == [False, True]


def test_are_conflicts__refuses_what_is_no_number() -> None:
    assert not are_conflicts(-np.ones((1, 1)), np.ones((1, 1, 1)), np.array([[np.nan]]))[0]
    assert not are_conflicts(-np.ones((1, 1)), np.ones((1, 1, 1)), np.array([[1e200]]))[0]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_exact_weights__makes_0_of_the_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 5))
    rows = rng.integers(-2, 3, (int(rng.integers(1, size + 2)), size)) / 4.0
    weights = exact_weights(rows)
    if weights is not None:
        assert min(weights) >= 0 < max(weights)
        assert not (np.array(weights) @ rows).any()
    elif len(rows) - np.linalg.matrix_rank(rows) == 1:
        kernel = np.linalg.svd(rows.T)[2][-1]
        assert kernel.min() < -1e-9 < 1e-9 < kernel.max()


def test_exact_weights__gives_up_where_integers_would_be_long() -> None:
    rows = np.array([[2.0**-100, 1.0], [1.0, -1.0], [-1.0, 0.0]])
    assert exact_weights(rows) is None
    assert exact_weights(rows, 4096) == (2**100, 2**100, 2**100 + 1)
