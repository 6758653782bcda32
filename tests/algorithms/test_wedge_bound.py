from __future__ import annotations

import math

import numpy as np
import pytest

from streamhalf.algorithms.wedge_bound import WedgeOutcome
from streamhalf.data.block import Block, RowRange
from streamhalf.kernels.plane import Plane
from streamhalf.results import Outcome
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant
from streamhalf.testers.base import TesterSet
from streamhalf.testers.slabs import SlabCovarianceTester, SlabMassTester
from streamhalf.testers.wedge import WedgeTester

EPS = 0.1
NAMES = ["slab mass", "slab covariance", "wedge"]


def block_of(X: np.ndarray, y: np.ndarray | None = None) -> Block:
    labels = np.ones(len(X), dtype=np.int8) if y is None else y.astype(np.int8)
    return Block(X, labels, np.arange(len(X)))


def units(n: int, dim: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((n, dim))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def make_wedge(candidates: np.ndarray, n_rows: int, eps: float = EPS, *, first: int = 0) -> TesterSet:
    planes = tuple(Plane(candidate) for candidate in candidates)
    shared = {"eps": eps, "tau": 0.001, "candidates": planes, "first": first}
    mass = SlabMassTester(**shared)
    dim = candidates.shape[1]
    covariance = SlabCovarianceTester(**shared, dim=dim, n_slabs=40, n_rows=n_rows, seed=1)
    wedge = WedgeTester(**shared, dim=dim, n_rows=n_rows, seed=1)
    return TesterSet((mass, covariance, wedge))


def run_wedge(testers: TesterSet, block: Block) -> WedgeOutcome:
    needs = testers.needs()
    return WedgeOutcome.of(testers, needs.finalize(needs.map(block)))


def make_gaussian(n_rows: int, dim: int, seed: int = 2) -> Block:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim))
    return block_of(X, np.where(X[:, 0] + 0.5 * rng.standard_normal(n_rows) >= 0, 1, -1))


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
    found = WedgeOutcome.joined(tuple(parts))
    np.testing.assert_array_equal(found.slab_counts, expected.slab_counts)
    assert found.test_results == WedgeOutcome.joined((expected,)).test_results
    said = [(one.candidate, one.tester) for one in found.test_results]
    assert said == [(i, name) for i in range(5) for name in NAMES]
    assert found.betas == expected.betas


@pytest.mark.parametrize("eps", [0.05, 0.1, 0.2])
def test_betas__are_a_small_multiple_of_eps_on_gaussian_rows(eps: float) -> None:
    # the true supremum is eps / pi
    X = np.random.default_rng(1).standard_normal((200_000, 3))
    outcome = run_wedge(make_wedge(np.eye(3)[:1], 200_000, eps), block_of(X))
    assert eps / math.pi < outcome.betas[0] < 1.4 * eps


def test_wedge__rejects_the_candidate_with_the_hole_only() -> None:
    spec = SyntheticSpec(rows=60_000, dim=3, marginal="hole", noise="none", seed=3, planted="axis")
    rows = generate(spec, plant(spec), RowRange(0, spec.rows))
    outcome = run_wedge(make_wedge(np.eye(3)[:2], 60_000), block_of(rows.X, rows.y))
    assert outcome.test_results[0].outcome is Outcome.REJECTED
    assert (outcome.test_results[0].candidate, outcome.test_results[0].scale) == (0, EPS)
    other = [one.outcome for one in outcome.test_results if one.candidate == 1]
    assert other == [Outcome.PASSED] * 3
