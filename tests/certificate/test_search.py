"""The search over angles: it covers them all, and every bound it passes on holds."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from streamhalf.certificate.search import Interval, Search, SearchConfig, thresholds
from streamhalf.certificate.slab_forms import slab_forms
from streamhalf.kernels.slab_moments import complement_basis
from tests.certificate.brute_force import Problem, predict

CONFIG = SearchConfig(first_intervals=6, max_intervals=20, refits=3, eigen_steps=2, patience=20)


def plane_problem(seed=0, *, n=3_000):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = predict(X, np.array([[1.0], [0.1]]))[:, 0]
    y[rng.random(n) < 0.1] *= -1
    return Problem(X, y, np.array([1.0, 0.0]))


def search_of(problem, *degrees, config=CONFIG):
    statistics = problem.statistics(degree=max(degrees), ratio=1.3)
    forms = tuple(slab_forms(statistics, degree) for degree in degrees)
    return Search(forms, statistics.error, config), statistics.error


def least_error(problem, low, high):
    """Least error of a halfspace at an angle in [low, high] from v, by a dense sweep."""
    theta = np.linspace(low, high, 400)
    side = complement_basis(problem.v)[:, 0]
    W = [np.outer(problem.v, np.cos(theta)) + np.outer(u, np.sin(theta)) for u in (side, -side)]
    errors = predict(problem.X, np.concatenate(W, axis=1)) != problem.y[:, None]
    return float(errors.mean(axis=0).min())


@pytest.mark.parametrize("seed", [0, 1])
def test_run__covers_all_angles_with_bounds_that_hold(seed):
    problem = plane_problem(seed)
    search, error = search_of(problem, 4, 2)
    found = sorted(search.run(error), key=lambda item: item.low)
    assert found[0].low == 0
    assert found[-1].high == math.pi
    assert all(left.high == right.low for left, right in itertools.pairwise(found))
    assert len(found) <= CONFIG.max_intervals + 1
    for item in found:
        assert item.bound <= least_error(problem, item.low, item.high) + 1e-12
    assert min(item.bound for item in found) > 0.3 * error


def test_run__ends_when_the_bound_is_enough():
    problem = plane_problem()
    search, error = search_of(problem, 4)
    whole = search.run(error)
    early = replace(search, config=replace(CONFIG, enough=0.3 * error)).run(error)
    assert min(item.bound for item in early) >= 0.3 * error
    assert len(early) < len(whole)


def test_improve__refits_first_then_cuts_and_never_lowers_a_bound():
    search, _ = search_of(plane_problem(), 4, 2)
    first = search.measure(0.1, 0.6, tuple(form.start() for form in search.forms))
    (refitted,) = search.improve(first, room=True)
    assert refitted.refitted == (first.best,)
    assert refitted.bound >= first.bound
    halves = search.improve(refitted, room=True)
    assert [(item.low, item.high) for item in halves] == [
        (0.1, pytest.approx(math.sqrt(0.06))),
        (pytest.approx(math.sqrt(0.06)), 0.6),
    ]
    assert min(item.bound for item in halves) >= refitted.bound
    # without room the other form is refitted, and then nothing is left
    (both,) = search.improve(refitted, room=False)
    assert sorted(both.refitted) == [0, 1]
    assert search.improve(both, room=False) == ()


def test_borrow__takes_what_serves_a_neighbour_and_gives_up_after_its_loans():
    search, _ = search_of(plane_problem(), 4)
    start = (search.forms[0].start(),)
    item = search.measure(0.2, 0.25, start)
    neighbour = search.refit(search.measure(0.25, 0.3, start), 0)
    found = search.borrow(item, [neighbour])
    assert [one.borrowed for one in found] == [1]
    assert found[0].bound > item.bound
    assert search.borrow(replace(item, borrowed=CONFIG.loans), [neighbour]) == ()


def test_touches__is_for_intervals_that_share_an_end():
    left, right = Interval(0.0, 0.5, ()), Interval(0.5, 1.0, ())
    assert left.touches(right)
    assert right.touches(left)
    assert not left.touches(Interval(0.6, 1.0, ()))


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.4), (1.4, 1.8), (2.0, 3.0)])
def test_thresholds__are_the_smallest_over_slab_and_angles(low, high):
    search, _ = search_of(plane_problem(), 2)
    forms = search.forms[0]
    tau = thresholds(forms, low, high)
    z = np.linspace(forms.low, forms.high, 50)
    cot = 1 / np.tan(np.linspace(low, high, 50))
    grid = -(z[:, None, :] * cot[None, :, None]).reshape(-1, len(tau))
    assert (tau <= grid.min(axis=0)).all()
    np.testing.assert_allclose(tau, grid.min(axis=0), rtol=1e-12)


def test_thresholds__at_the_ends_of_all_angles():
    search, _ = search_of(plane_problem(), 2)
    forms = search.forms[0]
    near, far = thresholds(forms, 0.0, 0.3), thresholds(forms, 3.0, math.pi)
    assert (near[forms.low > 0] == -math.inf).all()
    assert (near[forms.high < 0] > 0).all()
    assert (far[forms.high < 0] == -math.inf).all()
    assert (far[forms.low > 0] > 0).all()
    # z = 0 at a right angle from nowhere: w·r = 0 is no error that could be counted
    flat = replace(forms, low=np.zeros_like(forms.low), high=np.zeros_like(forms.high))
    assert (thresholds(flat, 0.0, 0.3) == -math.inf).all()
    assert (thresholds(flat, 0.3, 0.5) == 0).all()
