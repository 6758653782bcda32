"""The lower bound against enumeration on wild data, and how tight it is on normal data."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.certificate.search import SearchConfig, find_again, least_error, lower_bound, usual_search
from streamhalf.errors import UsageError
from tests.certificate.brute_force import (
    Problem,
    boxed_problem,
    friendly_problem,
    predict,
    random_problem,
    smallest_error,
    smallest_error_found,
    smallest_error_of_any,
)

QUICK = SearchConfig(refits=2, effort=3e8)
LONGER = SearchConfig(effort=3e9)
QUICK_ANY = SearchConfig(refits=2, effort=2e8)


@given(
    seed=st.integers(0, 2**32 - 1),
    degree=st.sampled_from([2, 4, 6, 8]),
    ratio=st.sampled_from([1.15, 1.6, 4.0]),
    draw=st.sampled_from([random_problem, friendly_problem]),
)
@settings(max_examples=30, deadline=None)
def test_lower_bound__never_exceeds_the_best_halfspace(seed, degree, ratio, draw):
    rng = np.random.default_rng(seed)
    problem = draw(rng, largest=300)
    value = lower_bound(problem.statistics(degree=degree, ratio=ratio), search=QUICK).value
    assert value <= smallest_error(problem, rng) + 1e-12


@given(
    seed=st.integers(0, 2**32 - 1),
    degree=st.sampled_from([2, 4, 6, 8]),
    ratio=st.sampled_from([1.3, 1.6, 4.0]),
    draw=st.sampled_from([random_problem, friendly_problem]),
)
@settings(max_examples=12, deadline=None)
def test_lower_bound__over_thresholds_never_exceeds_the_best_halfspace(seed, degree, ratio, draw):
    rng = np.random.default_rng(seed)
    problem = draw(rng, largest=150, thresholds=True)
    statistics = problem.statistics(degree=degree, ratio=ratio, by_label=True)
    assert lower_bound(statistics, search=QUICK_ANY).value <= smallest_error_of_any(problem) + 1e-12
    central = lower_bound(statistics.central(), search=QUICK).value
    assert central <= smallest_error(problem, rng) + 1e-12


@given(seed=st.integers(0, 2**32 - 1), degree=st.sampled_from([2, 4, 6]), ratio=st.sampled_from([1.3, 2.0]))
@settings(max_examples=12, deadline=None)
def test_lower_bound__along_two_directions_never_exceeds_the_best_halfspace(seed, degree, ratio):
    rng = np.random.default_rng(seed)
    problem = boxed_problem(rng, largest=300)
    across = rng.standard_normal(3)
    slabs = problem.statistics(degree=degree, ratio=ratio, by_label=True)
    boxes = problem.statistics(degree=min(4, degree), ratio=ratio, by_label=True, across=across)
    value = lower_bound(slabs, boxes, search=QUICK_ANY).value
    assert value <= smallest_error_found(problem, rng) + 1e-12
    central = lower_bound(slabs.central(), boxes.central(), search=QUICK).value
    assert central <= smallest_error_found(problem, rng, central=True) + 1e-12


@pytest.mark.parametrize("by_label", [False, True])
def test_lower_bound__gains_by_a_second_direction_where_noise_was_chosen_along_it(by_label):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50_000, 4))
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    y[y * X[:, 1] > 1.645] *= -1
    problem = Problem(X, y, np.eye(4)[0])
    slabs = problem.statistics(degree=4, ratio=1.1, by_label=by_label)
    boxes = problem.statistics(degree=4, ratio=1.1, by_label=by_label, across=np.eye(4)[1])
    alone, both = (lower_bound(*some, search=LONGER) for some in ((slabs,), (slabs, boxes)))
    assert alone.value < both.value / 1.15 <= slabs.error
    # the last stage knows what those before it found, angle by angle
    assert both.profile()[-1].angle_high == math.pi
    assert min(one.bound for one in both.profile()) == both.value
    known = both.floor()
    assert all(known(one.cell) <= one.bound for one in both.cells)


@pytest.mark.parametrize("factor", [1e-14, 1e-6, 1e7])
@pytest.mark.parametrize("degree", [4, 8])
def test_lower_bound__float32_rows_of_any_size_are_not_certified_too_well(degree, factor):
    # some halfspace makes no error at all; products of four entries of 1e-14 are 0 in float32
    X = np.random.default_rng(0).standard_normal((1_500, 2))
    y = predict(X, np.array([[1.0], [0.5]]))[:, 0]
    problem = Problem((factor * X).astype(np.float32), y, np.array([1.0, 0.0]))
    statistics = problem.statistics(degree=degree, ratio=1.3)
    assert statistics.error > 0.1
    assert lower_bound(statistics, search=QUICK).value == 0


def planted(n_rows, dim, *, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim))
    v = np.eye(dim)[0]
    y = predict(X, v[:, None])[:, 0]
    y[rng.random(n_rows) < noise] *= -1
    return Problem(X, y, v)


def test_lower_bound__is_tight_under_random_noise():
    statistics = planted(200_000, 4, noise=0.05).statistics(degree=4, ratio=1.1)
    found = lower_bound(statistics)
    assert found.value <= statistics.error
    assert statistics.error <= 1.06 * found.value


@pytest.mark.parametrize(("degree", "ratio"), [(4, 1.4), (6, 1.2), (8, 1.1)])
def test_lower_bound__a_slab_of_a_row_or_two_does_not_spoil_it(degree, ratio):
    # 260 slabs, the innermost with a row each: minorants fitted to these would be steep
    statistics = planted(20_000, 3, noise=0.1, seed=1).statistics(degree=degree, ratio=1.06)
    assert np.count_nonzero(statistics.counts == 1) > 5
    assert statistics.error <= ratio * lower_bound(statistics).value


def test_find_again__finds_what_another_rounding_found():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50_000, 3))
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    y[y * X[:, 1] > 1.645] *= -1
    statistics = Problem(X, y, np.eye(3)[0]).statistics(degree=4, ratio=1.15)
    noise = 1 + 1e-7 * rng.standard_normal(statistics.sums.shape)
    rounded = replace(statistics, sums=statistics.sums * noise)
    claimed = lower_bound(statistics).value
    found = find_again(rounded, claimed=claimed)
    ends = [piece.angle_high for piece in found.profile()]
    assert ends == sorted(ends)
    assert [piece.angle_low for piece in found.profile()] == [0.0, *ends[:-1]]
    assert ends[-1] == math.pi
    assert min(piece.bound for piece in found.profile()) == found.value
    assert found.value >= (1 - 4e-3) * claimed


def test_lower_bound__refits_gain_where_error_rows_are_not_normal():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100_000, 4))
    y = np.where(X[:, 0] >= 0, 1, -1).astype(np.int8)
    y[y * X[:, 1] > 1.645] *= -1
    statistics = Problem(X, y, np.eye(4)[0]).statistics(degree=4, ratio=1.15)
    plain = lower_bound(statistics, search=SearchConfig(effort=1e9, refits=0))
    fitted = lower_bound(statistics, search=SearchConfig(effort=1e9))
    assert fitted.value > 1.5 * plain.value
    assert statistics.error < 4 * fitted.value


def test_usual_search__grows_gently_with_the_features_and_with_the_effort():
    few, many = (planted(500, dim, noise=0.2).statistics(degree=4, ratio=2.0) for dim in (3, 20))
    assert usual_search((few,)).effort < usual_search((many,)).effort
    assert usual_search((many,)).effort < 2 * usual_search((few,)).effort
    assert usual_search((few,), 3.0).effort == pytest.approx(3 * usual_search((few,)).effort)


def test_lower_bound__several_statistics_are_no_worse_than_each():
    problem = planted(20_000, 3, noise=0.1)
    fine = problem.statistics(degree=2, ratio=1.06)
    coarse = problem.statistics(degree=4, ratio=1.5)
    both = lower_bound(fine, coarse, search=LONGER).value
    assert both >= max(lower_bound(fine, search=LONGER).value, 0)
    assert both >= 0.98 * lower_bound(coarse, search=LONGER).value


def test_lower_bound__pieces_of_rows_give_the_same_bound():
    # but for the turns that a search takes under another rounding
    problem = planted(3_000, 3, noise=0.2)
    one = lower_bound(problem.statistics(degree=4, ratio=1.3), search=LONGER)
    many = lower_bound(problem.statistics(degree=4, ratio=1.3, pieces=7), search=LONGER)
    assert many.value == pytest.approx(one.value, rel=1e-3)


def test_lower_bound__one_feature_is_counted_exactly():
    X = np.array([[1.0], [2.0], [-1.0], [0.0], [0.0]])
    y = np.array([1, -1, -1, 1, -1], dtype=np.int8)
    found = lower_bound(Problem(X, y, np.array([1.0])).statistics(degree=4, ratio=1.3))
    assert found.value == 2 / 5
    assert found.worst.family == "counted"


def test_lower_bound__rows_of_zeros_give_their_share_of_labels():
    X = np.zeros((10, 2))
    y = np.array([-1] * 4 + [1] * 6, dtype=np.int8)
    statistics = Problem(X, y, np.array([1.0, 0.0])).statistics(degree=4, ratio=1.3)
    assert statistics.error == 0.4
    assert lower_bound(statistics, search=QUICK).value <= 0.4


def test_lower_bound__rows_on_the_boundary_are_no_errors_of_the_opposite_direction():
    # w = -v errs on none of these: v·x = 0 and y = +1
    X = np.array([[0.0, 1.0], [0.0, -1.0]] * 50)
    y = np.ones(100, dtype=np.int8)
    statistics = Problem(X, y, np.array([1.0, 0.0])).statistics(degree=4, ratio=1.3)
    assert lower_bound(statistics, search=QUICK).value == 0


def test_lower_bound__a_wild_scale_or_overflow_keeps_it_valid():
    problem = planted(500, 2, noise=0.2)
    for scale in (1e-90, 1e-60, 1e-12, 1e9, 1e60, 1e90):
        moved = Problem(problem.X * scale, problem.y, problem.v)
        with np.errstate(over="ignore"):
            statistics = moved.statistics(degree=4, ratio=1.3)
        value = lower_bound(statistics, search=QUICK).value
        assert 0 <= value <= smallest_error(moved, np.random.default_rng(0))


def with_threshold(n_rows, dim, *, threshold, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim))
    y = np.where(X[:, 0] >= threshold, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < noise] *= -1
    return Problem(X, y, np.eye(dim)[0], threshold)


def test_lower_bound__over_thresholds_is_tight_under_random_noise():
    problem = with_threshold(200_000, 4, threshold=1.2816, noise=0.02)
    statistics = problem.statistics(degree=4, ratio=1.1, by_label=True)
    found = lower_bound(statistics)
    assert found.value <= statistics.error
    assert statistics.error <= 1.03 * found.value
    # without a threshold halfspaces are far worse
    central = lower_bound(statistics.central(), search=QUICK).value
    assert central > 5 * statistics.error


def test_lower_bound__over_thresholds_is_for_the_weakest_halfspace_whatever_the_plane():
    problem = with_threshold(20_000, 3, threshold=0.5, noise=0.05)
    best = problem.statistics(degree=4, ratio=1.2, by_label=True).error
    for moved in (0.3, -0.5):
        elsewhere = replace(problem, threshold=moved).statistics(degree=4, ratio=1.2, by_label=True)
        assert elsewhere.error > 1.5 * best
        assert lower_bound(elsewhere, search=QUICK_ANY).value <= best


@pytest.mark.parametrize("label", [1, -1])
def test_lower_bound__one_class_is_bounded_by_nothing(label):
    X = np.random.default_rng(2).standard_normal((200, 3))
    y = np.full(200, label, dtype=np.int8)
    statistics = Problem(X, y, np.eye(3)[0], 0.4).statistics(degree=4, ratio=1.3, by_label=True)
    assert statistics.error > 0.2
    assert least_error(statistics) == lower_bound(statistics).value == 0


def test_least_error__is_that_of_the_best_threshold_at_an_edge_or_of_a_constant_guess():
    problem = with_threshold(20_000, 2, threshold=0.0, noise=0.0)
    statistics = replace(problem, threshold=-0.25).statistics(degree=2, ratio=1.1, by_label=True)
    assert least_error(statistics) <= 0.01 < statistics.error
    y = np.where(np.arange(20_000) % 10 == 0, 1, -1).astype(np.int8)
    guess = replace(problem, y=y).statistics(degree=2, ratio=1.1, by_label=True)
    assert guess.error > 0.4
    assert 0.09 < least_error(guess) <= 0.1
    # those through the origin hold no constant guess
    assert least_error(guess.central()) > 0.4


def test_lower_bound__on_a_line_counts_all_thresholds_and_both_sides():
    x = np.arange(10.0)[:, None]
    y = np.array([-1, -1, 1, -1, 1, 1, 1, -1, 1, 1], dtype=np.int8)
    for side in (1, -1):
        problem = Problem(side * x, y, np.array([1.0]), side * 1.5)
        found = lower_bound(problem.statistics(degree=2, ratio=1.01, by_label=True))
        assert found.value == smallest_error_of_any(problem) == 0.2
        assert found.worst.family == "counted"


def test_profile__over_thresholds_never_exceeds_a_constant_guess():
    problem = with_threshold(20_000, 3, threshold=1.2816, noise=0.01)
    statistics = problem.statistics(degree=4, ratio=1.3, by_label=True)
    found = lower_bound(statistics, search=QUICK_ANY)
    profile = found.profile()
    assert profile[0].angle_low == 0
    assert profile[-1].angle_high == math.pi
    for left, right in itertools.pairwise(profile):
        assert left.angle_high == right.angle_low
    assert min(one.bound for one in profile) == found.value > 0
    # at every angle some threshold lies beyond all rows
    assert max(one.bound for one in profile) <= np.mean(problem.y > 0)
    low, high = found.thresholds()
    assert low <= high


def test_lower_bound__statistics_of_different_rows_are_refused():
    first = planted(100, 2, noise=0.3).statistics(degree=2, ratio=1.3)
    second = planted(101, 2, noise=0.3).statistics(degree=2, ratio=1.3)
    with pytest.raises(UsageError, match="same rows"):
        lower_bound(first, second)
    with pytest.raises(UsageError, match="at least one"):
        lower_bound()
