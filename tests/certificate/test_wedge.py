"""The wedge bound against enumeration on wild data, and its constant on normal data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.certificate.wedge import wedge_bound
from streamhalf.errors import UsageError
from tests.certificate.brute_force import Problem, largest_disagreement, random_problem


@given(
    seed=st.integers(0, 2**32 - 1),
    degree=st.sampled_from([2, 4, 6]),
    gamma=st.floats(1e-4, 100),
)
@settings(max_examples=60, deadline=None)
def test_wedge_bound__never_falls_below_a_disagreement(seed, degree, gamma):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, largest=200)
    beta = wedge_bound(problem.statistics(degree=degree, ratio=1.3), gamma=gamma)
    assert beta >= largest_disagreement(problem, gamma, rng) - 1e-12


def normal_problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 4))
    y = np.where(rng.random(len(X)) < 0.5, 1, -1).astype(np.int8)
    return Problem(X, y, np.eye(4)[0])


def test_wedge_bound__constant_on_normal_rows():
    problem = normal_problem()
    cantelli = problem.statistics(degree=2, ratio=1.15)
    quartic = problem.statistics(degree=4, ratio=1.15)
    for gamma in (0.05, 0.3):
        truth = math.atan(gamma) / math.pi
        assert truth < wedge_bound(quartic, gamma=gamma) < 1.0 * gamma
        assert wedge_bound(quartic, gamma=gamma) <= wedge_bound(cantelli, gamma=gamma) < 1.4 * gamma


def test_wedge_bound__grows_with_the_angle():
    statistics = normal_problem().statistics(degree=4, ratio=1.3)
    found = [wedge_bound(statistics, gamma=gamma) for gamma in (0.0, 0.01, 0.1, 1.0)]
    assert found[0] == 0
    assert (np.diff(found) > 0).all()


def test_wedge_bound__rows_on_the_boundary_count_whatever_their_label():
    X = np.array([[0.0, 1.0]] * 30 + [[1.0, 0.0]] * 10)
    y = np.array([-1] * 30 + [1] * 10, dtype=np.int8)
    problem = Problem(X, y, np.array([1.0, 0.0]))
    beta = wedge_bound(problem.statistics(degree=4, ratio=1.3), gamma=0.1)
    assert beta >= 0.75


def test_wedge_bound__one_feature_has_no_neighbours():
    problem = Problem(np.ones((3, 1)), np.ones(3, dtype=np.int8), np.array([1.0]))
    assert wedge_bound(problem.statistics(degree=2, ratio=1.3), gamma=1.0) == 0


def test_wedge_bound__wrong_gamma_is_named():
    with pytest.raises(UsageError, match="gamma"):
        wedge_bound(normal_problem().statistics(degree=2, ratio=1.5), gamma=-1.0)
