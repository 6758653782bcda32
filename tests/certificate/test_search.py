"""The search over angles: it covers them all, and every bound it passes on holds."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from streamhalf.certificate.cells import Cell, cells_along
from streamhalf.certificate.search import Search, SearchConfig
from streamhalf.certificate.slab_forms import slab_forms
from streamhalf.kernels.slab_moments import complement_basis
from tests.certificate.brute_force import Problem, predict

CONFIG = SearchConfig(first_cells=6, max_cells=20, refits=3, eigen_steps=2, patience=20)


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


def everything(error, count=6):
    return dict.fromkeys(cells_along(error / 20, count), -math.inf)


@pytest.mark.parametrize("seed", [0, 1])
def test_run__covers_all_angles_with_bounds_that_hold(seed):
    problem = plane_problem(seed)
    search, error = search_of(problem, 4, 2)
    found = sorted(search.run(everything(error)), key=lambda item: item.cell.angles())
    spans = [item.cell.angles() for item in found]
    assert (spans[0][0], spans[-1][1]) == (0, math.pi)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(spans))
    assert len(found) <= CONFIG.max_cells + 1
    for item, span in zip(found, spans, strict=True):
        assert item.bound <= least_error(problem, *span) + 1e-12
    assert min(item.bound for item in found) > 0.3 * error


def test_run__ends_when_the_bound_is_enough():
    problem = plane_problem()
    search, error = search_of(problem, 4)
    whole = search.run(everything(error))
    enough = replace(search, config=replace(CONFIG, enough=0.3 * error))
    early = enough.run(everything(error))
    assert min(item.bound for item in early) >= 0.3 * error
    assert len(early) < len(whole)


def test_run__what_is_known_of_a_cell_is_not_lost():
    search, error = search_of(plane_problem(), 4)
    known = search.run({Cell(0.1, 0.6): 0.9 * error})
    assert min(item.bound for item in known) >= 0.9 * error


def test_improve__never_lowers_a_bound_and_ends_when_nothing_is_left():
    search, _ = search_of(plane_problem(), 4, 2)
    first = search.measure(Cell(0.1, 0.6), tuple(form.start() for form in search.forms))
    (refitted,) = search.improve(first, room=False)
    assert refitted.refitted == (first.best,)
    assert refitted.bound >= first.bound
    halves = search.improve(refitted, room=True)
    assert [item.cell for item in halves] == list(first.cell.halves()[0])
    assert min(item.bound for item in halves) >= refitted.bound
    # without room the other form is refitted, and then nothing is left
    (both,) = search.improve(refitted, room=False)
    assert sorted(both.refitted) == [0, 1]
    assert search.improve(both, room=False) == ()


def test_borrow__takes_what_serves_a_neighbour_and_gives_up_after_its_loans():
    search, _ = search_of(plane_problem(), 4)
    start = (search.forms[0].start(),)
    item = search.measure(Cell(0.2, 0.25), start)
    neighbour = search.refit(search.measure(Cell(0.25, 0.3), start), 0)
    found = search.borrow(item, [neighbour])
    assert [one.borrowed for one in found] == [1]
    assert found[0].bound > item.bound
    assert search.borrow(replace(item, borrowed=CONFIG.loans), [neighbour]) == ()


def test_improve__a_cell_that_is_worth_more_is_cut_before_it_is_refitted():
    search, _ = search_of(plane_problem(), 4)
    wide = search.measure(Cell(0.02, 1.5), (search.forms[0].start(),))
    halves = search.improve(wide, room=True)
    assert [one.cell for one in halves] == list(wide.cell.halves()[0])
