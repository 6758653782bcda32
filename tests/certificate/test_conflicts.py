"""Proofs of sets: exact weights exist where they say so."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.certificate.packing import are_conflicts, exact_weights


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
