"""Data sets of the evaluation: the generator's laws, and labels for any direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scripts.evaluation.search import Features, Labels, Vector, best_halfspace, best_in_plane
from streamhalf.api import fit
from streamhalf.data.block import RowRange
from streamhalf.kernels.margins import margins
from streamhalf.kernels.plane import Plane
from streamhalf.results import FitResult, Transform
from streamhalf.synthetic.distributions import SCORES, CleanRows, Noise, choose_cut
from streamhalf.synthetic.spec import SyntheticSpec, generate, plant


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows, labels and the halfspace they were drawn from."""

    X: Features
    y: Labels
    planted: Vector
    threshold: float = 0.0

    @property
    def plane(self) -> Plane:
        """The boundary of that halfspace."""
        return Plane(self.planted, self.threshold)


def draw(spec: SyntheticSpec) -> Problem:
    """All rows of a synthetic data set."""
    planted = plant(spec)
    rows = generate(spec, planted, RowRange(0, spec.rows))
    return Problem(rows.X, rows.y, planted.v, planted.threshold)


def learn(problem: Problem, *, certificate_degree: int | str = 0, **parameters: Any) -> FitResult:
    """The tester-learner on rows in memory; most certificates are evaluated elsewhere."""
    rows = (problem.X, problem.y)
    return fit(rows, scheduler="serial", certificate_degree=certificate_degree, **parameters)


def least_error(problem: Problem, result: FitResult, planes: Sequence[Plane], rng: np.random.Generator) -> float:
    """The least error found in the class that the promise of a run speaks of.

    In the radial transform that is the halfspaces through its centre, in the others all: those of
    rows with a constant feature beside the others.
    """
    X, y = problem.X, problem.y
    if result.transform.kind == Transform.RADIAL:
        X = (X - np.array(result.transform.centre)).astype(X.dtype)
        return best_halfspace(X, y, [plane.normal for plane in planes], rng).error
    starts = [np.append(plane.normal, -plane.threshold) for plane in planes]
    if X.shape[1] == 2:  # the best one without a threshold is found exactly
        starts.append(np.append(best_in_plane(X, y).vector, 0.0))
    lifted = np.column_stack([X, np.ones(len(X), dtype=X.dtype)])
    return best_halfspace(lifted, y, starts, rng).error


def orthogonal_to(v: Vector, rng: np.random.Generator) -> Vector:
    """A random unit vector orthogonal to v."""
    raw = rng.standard_normal(len(v))
    raw -= (raw @ v) * v
    return raw / np.linalg.norm(raw)


def with_noise(X: Features, v: Vector, noise: Noise, rate: float, rng: np.random.Generator) -> Labels:
    """Labels sgn(v·x), a share `rate` of them flipped as the generator does it.

    Where fewer rows can be flipped (a wedge that holds too few), all of those are.
    """
    u = orthogonal_to(v, rng)
    rows = CleanRows(X=X, margin=margins(X, v), u=u, uniforms=rng.random(len(X)))
    scores = SCORES[noise](rows)
    n_flips = min(round(rate * len(X)), int(np.count_nonzero(np.isfinite(scores))))
    flips = choose_cut(scores, rows.uniforms, n_flips).flips(scores, rows.uniforms)
    return np.where(flips, -rows.labels, rows.labels).astype(np.int8)
