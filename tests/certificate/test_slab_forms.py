"""Slab statistics as polynomials: what they say of the rows, and what rounding is granted."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.certificate.cells import Cell
from streamhalf.certificate.slab_forms import slab_forms
from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.slabs import complement_basis
from streamhalf.reductions.slab_moments import SlabMoments
from tests.certificate.brute_force import Problem, friendly_problem

TILTED = np.array([0.6, 0.8]) / np.linalg.norm([0.6, 0.8])


def statistics_of(X, v, edges=(0.0,), *, degree=4):
    reduction = SlabMoments(Plane(v), np.array(edges), degree, by_label=False)
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X)))
    return reduction.finalize(reduction.map(block))


def friendly_forms(seed, degree):
    problem = friendly_problem(np.random.default_rng(seed), largest=600)
    statistics = problem.statistics(degree=degree, ratio=1.6)
    return problem, statistics, slab_forms(statistics, degree)


def slab_rows(problem, statistics):
    """z and s of the rows of every non-empty slab, one after the other, rows by rising z."""
    r = problem.X.astype(np.float64) * problem.y[:, None]
    order = np.argsort(r @ problem.v, kind="stable")
    r = r[order]
    cuts = np.cumsum(statistics.counts[statistics.counts > 0])[:-1]
    return np.split(r @ problem.v, cuts), np.split(r @ complement_basis(problem.v), cuts)


@pytest.mark.parametrize(("seed", "degree"), [(0, 2), (1, 4), (2, 6), (3, 8)])
def test_slab_forms__moments_and_pools_equal_sums_over_rows(seed, degree):
    rng = np.random.default_rng(seed)
    problem, statistics, forms = friendly_forms(seed, degree)
    margins, sides = slab_rows(problem, statistics)
    scale = margins[-1].max() / forms.z_high[-1]
    u = rng.standard_normal(forms.table.dim)
    u /= np.linalg.norm(u)
    powers = np.arange(degree + 1)
    expected = np.array([((s @ u / scale)[:, None] ** powers).mean(axis=0) for s in sides])
    np.testing.assert_allclose(forms.laws(forms.table.point(u)[None])[0], expected, rtol=1e-8, atol=1e-8)
    coefficients = rng.standard_normal((len(sides), degree + 1))
    pooled = forms.pooled(coefficients[None])[0] @ forms.table.point(u)
    assert pooled == pytest.approx(forms.mass @ (coefficients * expected).sum(axis=1), rel=1e-8)
    np.testing.assert_allclose(forms.z_low * scale, [z.min() for z in margins], atol=1e-11)
    np.testing.assert_allclose(forms.z_high * scale, [z.max() for z in margins], atol=1e-11)


def rows_of(kind, rng):
    """(z, s) of float32 rows that are hard to sum."""
    n = 6_000
    z, s = np.ones(n), rng.standard_normal(n)
    if kind == "long":
        s[:] = 1.1
    elif kind == "cancelling":
        s = np.where(np.arange(n) % 2, 1e3, -1e3) + 1e-3 * s
    elif kind == "wide":
        s *= 10.0 ** rng.uniform(-6, 6, n)
    elif kind == "far":
        z *= 1e6
    elif kind == "tiny":
        z, s = 1e-12 * z, 1e-12 * s
    return z, s


def exact_side(X, v):
    """The part of each row orthogonal to v, to 60 digits."""
    first, second = (Decimal(float(value)) for value in v)
    length = (first * first + second * second).sqrt()
    return [(Decimal(b) * first - Decimal(a) * second) / length for a, b in X.tolist()]


def hard_rows(kind):
    z, s = rows_of(kind, np.random.default_rng(1))
    side = complement_basis(TILTED)[:, 0]
    return (np.outer(z, TILTED) + np.outer(s, side)).astype(np.float32)


@pytest.mark.parametrize("degree", [4, 8])
@pytest.mark.parametrize("kind", ["long", "cancelling", "wide", "far", "tiny"])
def test_allowance__covers_the_rounding_of_float32_rows(kind, degree):
    X = hard_rows(kind)
    statistics = statistics_of(X, TILTED, degree=degree)
    forms = slab_forms(statistics, degree)
    point = forms.table.point(np.sign(complement_basis(TILTED)[1]))
    assert forms.mass.tolist() == [1.0]
    with localcontext(prec=60):
        sides = exact_side(X, TILTED)
        scale = Decimal(math.sqrt(statistics.sums[1, 2] / len(X)))
        for m in range(1, degree + 1):
            exact = sum(side**m for side in sides) / len(X)
            size = sum(abs(side) ** m for side in sides) / len(X)
            unit = np.eye(degree + 1)[None, m : m + 1]
            found = Decimal(float((forms.pooled(unit) @ point).item()))
            allowed = float(forms.allowance(unit).item())
            assert abs(float(found - exact / scale**m)) <= allowed <= 1e-7 * float(size / scale**m)


@given(seed=st.integers(0, 2**32 - 1), degree=st.sampled_from([2, 4, 6, 8]))
@settings(max_examples=25, deadline=None)
def test_measure__never_exceeds_the_mass_below_the_thresholds(seed, degree):
    rng = np.random.default_rng(seed)
    problem, statistics, forms = friendly_forms(seed, degree)
    margins, sides = slab_rows(problem, statistics)
    scale = margins[-1].max() / forms.z_high[-1]
    thresholds = forms.thresholds([Cell(0.3, 0.5)])
    (fit,) = forms.measure(thresholds, [forms.start()], steps=2)
    (improved,) = forms.refit(thresholds, [fit], rounds=3, steps=2)
    assert improved.value >= fit.value
    u = rng.standard_normal((forms.table.dim, 200))
    u /= np.linalg.norm(u, axis=0)
    below = sum(np.count_nonzero(s @ u / scale < t + 1e-9, axis=0) for s, t in zip(sides, thresholds[0], strict=True))
    assert improved.value <= below.min() / statistics.n_rows


def test_allowance__grows_with_the_rows_and_with_the_margin():
    rng = np.random.default_rng(0)
    s = rng.standard_normal(1_000)

    def slack(z, copies):
        X = np.tile(np.column_stack([np.full(1_000, z), s]), (copies, 1))
        return slab_forms(statistics_of(X, np.array([1.0, 0.0])), 4).slack[0]

    assert (slack(1.0, 50)[1:] > 2 * slack(1.0, 1)[1:]).all()
    # a row far along v is turned with an error in proportion to its length
    assert (slack(1e6, 1)[1:] > 100 * slack(1.0, 1)[1:]).all()
    assert slack(1e6, 1)[0] == slack(1.0, 1)[0]


def test_slab_forms__slabs_that_overflow_take_no_part():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat([0.5, 1.5, 2.5], 50), rng.standard_normal((150, 2))])
    X[:50] *= [1.0, 1e120, 1.0]
    statistics = statistics_of(X, np.eye(3)[0], (0.0, 1.0, 2.0))
    assert not np.isfinite(statistics.sums).all()
    forms = slab_forms(statistics, 4)
    np.testing.assert_allclose(forms.z_low, [1.5, 2.5] / (statistics.high[3] / forms.z_high[1]))
    assert np.isfinite(forms.slack).all()
    assert len(slab_forms(statistics, 2).mass) == 2


def test_slab_forms__rows_that_are_nearly_all_margin_cost_their_slab_only():
    X = np.random.default_rng(0).standard_normal((100, 2))
    X[:10, 0] = 1e40
    statistics = statistics_of(X, np.array([1.0, 0.0]), (0.0, 10.0))
    forms = slab_forms(statistics, 4)
    assert forms.mass.sum() == pytest.approx(0.9)
    assert forms.slack.max() < 1e-9


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_slab_forms__nothing_is_claimed_of_rows_outside_the_range_of_float64(factor):
    problem = friendly_problem(np.random.default_rng(1))
    far = Problem(problem.X.astype(np.float64) * factor, problem.y, problem.v)
    forms = slab_forms(far.statistics(degree=4, ratio=1.6), 4)
    assert len(forms.mass) == 0
    (found,) = forms.measure(np.zeros((1, 0)), [forms.start()], steps=2)
    assert found.value == 0
