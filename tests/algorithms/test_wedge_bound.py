from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.algorithms.wedge_bound import WedgeBound, join_outcomes, wedge_beta
from streamhalf.data.block import Block, RowRange
from streamhalf.kernels.plane import Plane
from streamhalf.records import Outcome
from streamhalf.reductions import SlabCovariance
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.panel import Panel
from streamhalf.testers.slab_covariance import SlabCovarianceTester
from streamhalf.testers.slab_mass import SlabMassTester

EPS = 0.1


def block_of(X: np.ndarray, y: np.ndarray | None = None) -> Block:
    labels = np.ones(len(X), dtype=np.int8) if y is None else y.astype(np.int8)
    return Block(X, labels, np.arange(len(X)))


def units(n: int, dim: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((n, dim))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def make_wedge(
    candidates: np.ndarray, n_rows: int, eps: float = EPS, *, first: int = 0
) -> WedgeBound:
    planes = tuple(Plane(candidate) for candidate in candidates)
    shared = {"eps": eps, "tau": 0.001, "candidates": planes, "first": first}
    mass = SlabMassTester(**shared, total_rows=n_rows)
    dim = candidates.shape[1]
    covariance = SlabCovarianceTester(**shared, dim=dim, n_slabs=40, n_rows=n_rows, seed=1)
    return WedgeBound(Panel((mass, covariance)), eps)


def run_wedge(wedge: WedgeBound, block: Block):
    needs = wedge.needs()
    return wedge.conclude(needs.finalize(needs.map(block)))


LAWS = ("gaussian", "cauchy", "lattice", "near", "line", "shifted", "two-point")


def draw_law(law: str, n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Rows that are nothing like N(0, I), to which the bound applies all the same."""
    X = rng.standard_normal((n, dim))
    if law == "cauchy":
        return rng.standard_cauchy((n, dim))
    if law == "lattice":  # many rows on the boundary itself
        return rng.integers(-2, 3, (n, dim)).astype(np.float64)
    if law == "near":
        X[:, 0] *= 0.05
    if law == "line":  # the worst direction gets nearly all rows
        X[:, 1:] = 3 * np.sign(X[:, :1]) + 0.1 * X[:, 1:]
    if law == "shifted":
        X += 1.0
    if law == "two-point":
        return np.where(rng.random((n, 1)) < 0.5, 1.0, -1.0) * np.array([0.08] + [1.0] * (dim - 1))
    return X


def cap(v: np.ndarray, eta: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors with |w - v| <= eta: a dense search, the rim above all."""
    largest = 2 * math.asin(eta / 2)
    if len(v) == 2:
        angles = np.linspace(-largest, largest, 2 * n)
        return np.outer(np.cos(angles), v) + np.outer(np.sin(angles), [-v[1], v[0]])
    side = np.linalg.svd(v[None, :])[2][1:]
    phi = np.linspace(0, 2 * math.pi, n, endpoint=False)
    u = np.outer(np.cos(phi), side[0]) + np.outer(np.sin(phi), side[1])
    angles = largest * np.concatenate([[1, 1], rng.random(2)])
    return np.concatenate([math.cos(a) * v + math.sin(a) * u for a in angles])


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=8, deadline=None)
@given(eta=st.sampled_from([0.02, 0.1, 0.25, 0.6]), seed=st.integers(0, 10**6))
def test_wedge_beta__is_never_below_the_true_disagreement(
    dim: int, law: str, eta: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X = draw_law(law, 400, dim, rng)
    v = np.eye(dim)[0] if seed % 2 else units(1, dim, seed)[0]
    width = rng.choice([0.02, 0.1, 0.5])
    inner = width * np.arange(1, rng.integers(2, 30))
    reduction = SlabCovariance((Plane(v),), np.concatenate([-inner[::-1], [0.0], inner]))
    beta = wedge_beta(reduction.finalize(reduction.map(block_of(X))), 0, eta)
    sign = v @ X.T >= 0
    disagreement = np.mean((cap(v, eta, 180, rng) @ X.T >= 0) != sign, axis=1)
    assert disagreement.max() <= beta + 1e-12 <= 1 + 1e-12


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_wedge_beta__is_attained_by_the_extreme_law_of_chebyshev(side: float) -> None:
    # all rows at the inner edge of one slab; a fifth of them just beyond what w can reach, the
    # rest placed so that the mean vanishes: no smaller bound holds for such moments
    eta, edge = 0.1, 0.25
    reach = edge / math.tan(2 * math.asin(eta / 2)) * (1 + 1e-9)
    beside = np.array([reach] * 20 + [-reach / 4] * 80)
    margin = edge if side > 0 else -edge * (1 + 1e-12)  # a slab holds its lower edge only
    X = np.column_stack([np.full(100, margin), side * beside])
    reduction = SlabCovariance((Plane(np.eye(2)[0]),), np.array([-0.25, 0.0, 0.25]))
    beta = wedge_beta(reduction.finalize(reduction.map(block_of(X))), 0, eta)
    sign = X[:, 0] >= 0
    rim = cap(np.eye(2)[0], eta, 50, np.random.default_rng(0))
    disagreement = np.mean((rim @ X.T >= 0) != sign, axis=1)
    assert disagreement.max() == 0.2
    assert beta + 1e-8 >= 0.2
    assert beta == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize("eps", [0.05, 0.1, 0.2])
def test_wedge_beta__is_a_small_multiple_of_eta_on_gaussian_rows(eps: float) -> None:
    # the true supremum is eta / pi; thin slabs give 1.1 to 1.4 eta, slabs of width eps a bit more
    X = np.random.default_rng(1).standard_normal((200_000, 3))
    outcome = run_wedge(make_wedge(np.eye(3)[:1], 200_000, eps), block_of(X))
    assert eps / math.pi < outcome.betas[0] < 2.5 * eps


def test_wedge_beta__without_features_beside_the_candidate_is_the_mass_at_the_boundary() -> None:
    X = np.array([[-0.3], [0.0], [0.2], [5.0]])
    reduction = SlabCovariance((Plane(np.ones(1)),), np.array([-0.25, 0.0, 0.25]))
    assert wedge_beta(reduction.finalize(reduction.map(block_of(X))), 0, 0.1) == 0.5


def make_gaussian(n_rows: int, dim: int, seed: int = 2) -> Block:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim))
    return block_of(X, np.where(X[:, 0] + 0.5 * rng.standard_normal(n_rows) >= 0, 1, -1))


def test_errors__are_exact() -> None:
    block = make_gaussian(5_000, 4)
    block.X[:7, :] = 0  # sgn(0) = +1
    candidates = units(6, 4)
    outcome = run_wedge(make_wedge(candidates, 5_000), block)
    predicted = np.where(candidates @ block.X.T >= 0, 1, -1)
    np.testing.assert_array_equal(outcome.errors, np.count_nonzero(predicted != block.y, axis=1))
    assert outcome.n_rows == 5_000
    np.testing.assert_array_equal(outcome.slab_counts.sum(axis=1), 5_000)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 3), (4, 1)])
def test_batches__equal_all_candidates_at_once(sizes: tuple[int, ...]) -> None:
    block = make_gaussian(30_000, 3)
    candidates = units(5, 3)
    expected = run_wedge(make_wedge(candidates, 30_000), block)
    parts, first = [], 0
    for size in sizes:
        batch = make_wedge(candidates[first : first + size], 30_000, first=first)
        parts.append(run_wedge(batch, block))
        first += size
    found = join_outcomes(tuple(parts))
    np.testing.assert_array_equal(found.errors, expected.errors)
    np.testing.assert_array_equal(found.slab_counts, expected.slab_counts)
    assert found.judgements == join_outcomes((expected,)).judgements
    said = [(one.candidate, one.tester) for one in found.judgements]
    assert said == [(i, name) for i in range(5) for name in ("slab mass", "slab covariance")]
    assert found.betas == expected.betas
    assert found.n_rows == expected.n_rows


def test_wedge__judgements_name_their_candidate() -> None:
    outcome = run_wedge(make_wedge(units(3, 3), 60_000), make_gaussian(60_000, 3))
    for i in range(3):
        found = [one for one in outcome.judgements if one.candidate == i]
        assert [one.tester for one in found] == ["slab mass", "slab covariance"]
        assert {one.outcome for one in found} == {Outcome.PASSED}
    assert len(outcome.judgements) == 6


def test_wedge__rejects_the_candidate_with_the_hole_only() -> None:
    spec = SyntheticSpec(rows=60_000, dim=3, marginal="hole", noise="none", seed=3, planted="axis")
    rows = generate(spec, plant(spec), RowRange(0, spec.rows))
    outcome = run_wedge(make_wedge(np.eye(3)[:2], 60_000), block_of(rows.X, rows.y))
    assert outcome.judgements[0].outcome is Outcome.REJECTED
    assert (outcome.judgements[0].candidate, outcome.judgements[0].scale) == (0, EPS)
    other = [one.outcome for one in outcome.judgements if one.candidate == 1]
    assert other == [Outcome.PASSED, Outcome.PASSED]
