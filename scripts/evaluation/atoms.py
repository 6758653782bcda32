"""A law in the plane that fools every moment test of a run, and labels that lead it astray.

Twenty-six weighted points, the solution of a linear program: maximise the error of the first
coordinate's halfspace minus five times that of the halfspace 0.9 rad away, where the Hermite
moments up to degree 4, of all rows and of the rows accepted at delta = 1/2, stay within 0.04 of
those of N(0, I), the acceptance rate is right, the Chow vector lies along the first coordinate, and
the localised one against it ("noise dominates"). The masses of slabs are not constrained.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scripts.evaluation.drawing import Problem, orthogonal_to
from scripts.evaluation.search import Vector

BEST_ANGLE = 0.9
ATOMS = (
    # x1, x2, label, share of the rows
    (-1.85, -2.4, 1, 0.0062),
    (-0.55, -2.0, 1, 0.0127),
    (-0.55, -1.6, 1, 0.0219),
    (-0.45, 0.4, 1, 0.0325),
    (-0.25, 0.2, 1, 0.1359),
    (-0.15, 1.6, 1, 0.0540),
    (0.75, -3.2, 1, 0.0055),
    (0.75, 1.2, 1, 0.0122),
    (0.85, 0.8, 1, 0.0570),
    (1.05, -0.8, 1, 0.1187),
    (1.55, -1.2, 1, 0.0076),
    (2.15, 0.4, 1, 0.0197),
    (2.15, 0.6, 1, 0.0111),
    (2.25, 0.6, 1, 0.0189),
    (3.5, -2.4, 1, 0.0020),
    (-3.5, 2.4, -1, 0.0013),
    (-2.15, -0.4, -1, 0.0462),
    (-1.55, 1.2, -1, 0.0398),
    (-1.05, 0.8, -1, 0.0923),
    (-0.85, -0.8, -1, 0.0789),
    (-0.75, 3.2, -1, 0.0020),
    (0.15, -1.6, -1, 0.0447),
    (0.25, -0.2, -1, 0.1483),
    (0.55, 1.6, -1, 0.0034),
    (0.55, 2.0, -1, 0.0209),
    (1.85, 2.4, -1, 0.0064),
)


def draw_problem(n: int, rng: np.random.Generator) -> Problem:
    """Rows of the plane with the labels that belong to the points."""
    points, chosen = np.array(ATOMS), _choose(n, rng)
    best = np.array([np.cos(BEST_ANGLE), np.sin(BEST_ANGLE)])
    return Problem(points[chosen, :2].astype(np.float32), points[chosen, 2].astype(np.int8), best)


def draw_atoms(n: int, v: Vector, rng: np.random.Generator) -> NDArray[np.float64]:
    """The points in the plane of v and a random direction, Gaussian orthogonally to it."""
    plane = np.stack([v, orthogonal_to(v, rng)])
    X = rng.standard_normal((n, len(v)))
    return X + (np.array(ATOMS)[_choose(n, rng), :2] - X @ plane.T) @ plane


def _choose(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    weights = np.array([atom[3] for atom in ATOMS])
    return rng.choice(len(ATOMS), n, p=weights / weights.sum())
