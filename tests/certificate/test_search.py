"""The search over angles: it covers them all, and every bound it passes on holds."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from streamhalf.certificate.cells import Cell, cells_along
from streamhalf.certificate.search import Meter, Search, SearchConfig
from streamhalf.certificate.slab_forms import Ladder, slab_forms, typical_unit
from streamhalf.kernels.slabs import complement_basis
from tests.certificate.brute_force import Problem, predict

CONFIG = SearchConfig(refits=3, effort=1e8)


def plane_problem(seed=0, *, n=3_000):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = predict(X, np.array([[1.0], [0.1]]))[:, 0]
    y[rng.random(n) < 0.1] *= -1
    return Problem(X, y, np.array([1.0, 0.0]))


def search_of(problem, *degrees, config=CONFIG):
    statistics = problem.statistics(degree=max(degrees), ratio=1.3)
    unit = typical_unit(statistics)
    ladders = tuple(Ladder.of(slab_forms(statistics, degree, unit)) for degree in degrees)
    return Search(ladders, statistics.error, config), statistics.error


def measured(search, cell):
    starts = tuple(one.at(cell).start() for one in search.ladders)
    return search.measure([cell], [starts])[0]


def least_error(problem, low, high):
    """Least error of a halfspace at an angle in [low, high] from v, by a dense sweep."""
    theta = np.linspace(low, high, 400)
    side = complement_basis(problem.v)[:, 0]
    W = [np.outer(problem.v, np.cos(theta)) + np.outer(u, np.sin(theta)) for u in (side, -side)]
    errors = predict(problem.X, np.concatenate(W, axis=1)) != problem.y[:, None]
    return float(errors.mean(axis=0).min())


def everything(error, count=6):
    return cells_along(error / 20, count)


@pytest.mark.parametrize("seed", [0, 1])
def test_run__covers_all_angles_with_bounds_that_hold(seed):
    problem = plane_problem(seed)
    search, error = search_of(problem, 4, 2)
    found = sorted(search.run(everything(error)), key=lambda item: item.cell.angles())
    spans = [item.cell.angles() for item in found]
    assert (spans[0][0], spans[-1][1]) == (0, math.pi)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(spans))
    assert sum(item.spent for item in found) <= 2 * CONFIG.effort
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


@pytest.mark.parametrize("cores", [1, 3])
def test_run__does_not_depend_on_the_number_of_threads(cores, monkeypatch):
    search, error = search_of(plane_problem(n=500), 6, 4, 2)
    monkeypatch.setattr("streamhalf.certificate.search.available_cpus", lambda: cores)
    found = search.run(everything(error))
    alone = search.refine(everything(error))
    assert [(one.cell, one.bound) for one in found] == [(one.cell, one.bound) for one in alone]


def test_meter__tells_of_each_twentieth_once():
    told = []
    meter = Meter(200.0, lambda done, total: told.append(done / total))
    for _ in range(300):
        meter.spend(1.0)
    np.testing.assert_allclose(told, np.arange(1, 21) / 20)


def test_improve__never_lowers_a_bound_and_ends_when_nothing_is_left():
    search, _ = search_of(plane_problem(), 4, 2)
    first = measured(search, Cell(0.1, 0.6))
    (refitted,) = search.refit([first], first.best)
    assert refitted.refitted == (first.best,)
    assert refitted.bound >= first.bound
    halves = search.improve([refitted])
    assert [item.cell for item in halves] == list(first.cell.halves()[0])
    assert min(item.bound for item in halves) >= refitted.bound
    # a narrow cell is refitted by both forms, and then nothing is left
    narrow = measured(search, Cell(0.1, 0.1001))
    (once,) = search.improve([narrow])
    (twice,) = search.improve([once])
    assert [len(item.refitted) for item in (narrow, once, twice)] == [0, 1, 2]
    exhausted = [search.is_exhausted(item) for item in (first, narrow, once, twice)]
    assert exhausted == [False, False, False, True]


def test_improve__a_batch_is_improved_as_its_cells_would_be_alone():
    search, _ = search_of(plane_problem(), 4, 2)
    batch = [measured(search, Cell(*ends)) for ends in ((0.02, 1.5), (0.1, 0.6), (0.2, 0.21))]
    alone = sorted(one.bound for item in batch for one in search.improve([item]))
    assert sorted(one.bound for one in search.improve(batch)) == pytest.approx(alone, rel=1e-9)


def test_improve__a_cell_that_is_worth_more_is_cut_before_it_is_refitted():
    search, _ = search_of(plane_problem(), 4)
    wide = measured(search, Cell(0.02, 1.5))
    assert [one.cell for one in search.improve([wide])] == list(wide.cell.halves()[0])


def test_at__wide_cells_take_coarse_slabs_that_hold_the_same_rows():
    statistics = plane_problem().statistics(degree=4, ratio=1.06)
    forms = Ladder.of(slab_forms(statistics, 4, typical_unit(statistics)))
    assert forms.at(Cell(0.2, 0.201)) is forms.forms[0]
    assert forms.at(Cell(0.0, 0.2)) is forms.forms[-1]
    finest, coarsest = forms.forms[0], forms.forms[-1]
    assert 3 * len(coarsest.mass) < 2 * len(finest.mass)
    np.testing.assert_allclose(coarsest.moments.sum(axis=0), finest.moments.sum(axis=0), atol=1e-12)
    assert coarsest.counts.sum() == finest.counts.sum() == statistics.n_rows
    ends = (coarsest.z_low.min(), coarsest.z_high.max())
    assert ends == (finest.z_low.min(), finest.z_high.max())
    assert not ((coarsest.z_low < -1e-9) & (coarsest.z_high > 1e-9)).any()
