"""Why Algorithm 2 exists: what the moment tests let through, and the slab tests do not.

The moments of all rows miss a hole or a spike at the boundary; those of localised rows see it (tests/test_fit.py).
The atoms of the evaluation are made so that these match too, at every scale the run comes to: then
nothing but the slabs stands between the run and an answer that is wrong.
"""

from __future__ import annotations

import numpy as np
import pytest

from scripts.evaluation.atoms import draw_problem
from scripts.evaluation.drawing import Problem, learn
from scripts.evaluation.search import best_in_plane, error_of
from streamhalf.api import plan
from streamhalf.results import FitResult, Method, Outcome, Verdict, overall_outcome

EPS = 0.05
SLAB_TESTERS = ("slab mass", "slab covariance", "wedge")
BEYOND_MOMENTS = (*SLAB_TESTERS, "acceptance")


def draw_atoms() -> Problem:
    return draw_problem(plan(dim=2, eps=EPS).rows_needed, np.random.default_rng(1))


@pytest.fixture(scope="module")
def atoms() -> Problem:
    return draw_atoms()


@pytest.fixture(scope="module")
def result(atoms: Problem) -> FitResult:
    return learn(atoms, eps=EPS, seed=1, feature_transform="stored", through="centre")


def test_atoms__without_the_slabs_the_run_would_be_accepted(result: FitResult) -> None:
    # so for 5 of the seeds 1 to 8; of the others a moment scatters beyond its limit
    kept = tuple(one for one in result.testers if one.tester not in BEYOND_MOMENTS)
    assert {one.pass_name for one in kept} == {"initial", "update-1", "final"}
    assert overall_outcome(kept) is Outcome.PASSED


def test_atoms__the_path_is_wrong_and_its_rejection_lets_another_halfspace_win(
    atoms: Problem, result: FitResult
) -> None:
    assert result.halfspace is not None
    opt = best_in_plane(atoms.X, atoms.y).error
    assert opt < 0.09
    path = [one.error for one in result.candidates if one.method is Method.PATH]
    # at the eps that was asked for; noise stopped the updates early, so the run itself reports more
    assert min(path) > 4 * opt + EPS
    assert min(path) > 0.35
    assert result.candidates[result.chosen].method is not Method.PATH
    assert error_of(atoms.X, atoms.y, np.array(result.halfspace.normal)) < 1.1 * opt


def test_atoms__only_the_slabs_reject(result: FitResult) -> None:
    rejecting = {one.tester for one in result.testers if one.outcome is Outcome.REJECTED}
    assert result.verdict is Verdict.REJECTED
    assert "slab mass" in rejecting
    assert rejecting <= set(SLAB_TESTERS)
