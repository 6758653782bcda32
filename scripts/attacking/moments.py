"""The largest-moment test in the coordinates of d features, for laws in a plane among them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from scripts.attacking.plane import Array, Grid, Step, accepted
from scripts.attacking.program import CLOSE, Law, Program

_WORST = 20


def solve_within(
    program: Program, tolerances: Sequence[float], *, plane: Array, limit: float, masses_off: float | None = None
) -> Law:
    """The worst law whose moments in the coordinates are within the limit too.

    Moments are required as they are found beyond it, the worst of each scale first. (Odd degrees
    vanish under a symmetric law.)
    """
    grid = program.grid
    masses = [accepted(grid, step) for step in program.steps]
    tested = [(m, list_coefficients(plane, m)) for m in (2, 4)]
    means = {(m, k): plane_means(grid, step, m) for m, _ in tested for k, step in enumerate(program.steps)}
    while True:
        law = program.solve(tolerances, masses_off=masses_off)
        rows: list[Array] = []
        for (m, moments), (k, mass) in itertools.product(tested, enumerate(masses)):
            found = moments @ (means[m, k] @ law.masses) / (mass @ law.masses)
            rows += [
                np.sign(found[i]) * (moments[i] @ means[m, k]) - limit * mass
                for i in np.argsort(-np.abs(found))[:_WORST]
                if abs(found[i]) > limit + CLOSE
            ]
        if not rows:
            return law
        program.require(rows)


def flat_plane(dim: int) -> Array:
    """Two orthonormal vectors (2, d) whose entries are as alike in size as can be."""
    signs = np.resize([1.0, -1.0], dim)
    plane, _ = np.linalg.qr(np.stack([np.ones(dim), signs], axis=1))
    return plane.T


def plane_means(grid: Grid, step: Step, m: int) -> Array:
    """Accepted he_k(z1) he_{m-k}(z2) of every point, k = 0 ... m."""
    chance, z1, z2 = step.seen(grid)
    return np.array([grid.average(chance * hermite(k, z1) * hermite(m - k, z2)) for k in range(m + 1)])


def list_coefficients(plane: Array, m: int) -> Array:
    """For every product of m features, its Hermite moment by the moments of the plane.

    The Hermite tensor of a law in a plane is the sum over k of sqrt(m over k) times the mean of
    he_k(z1) he_{m-k}(z2) times the symmetric part of v^k u^(m-k). (Odd degrees vanish under a
    symmetric law.)
    """
    binomials = np.array([math.comb(m, k) for k in range(m + 1)])
    found = []
    for index in itertools.combinations_with_replacement(range(plane.shape[1]), m):
        sums = np.ones(1)  # the product of (v_j s + u_j), by powers of s
        for j in index:
            sums = np.convolve(sums, plane[::-1, j])
        repeats = math.prod(math.factorial(index.count(j)) for j in set(index))
        found.append(sums / np.sqrt(binomials) * math.sqrt(math.factorial(m) / repeats))
    return np.array(found)


def hermite(m: int, x: Array) -> Array:
    """Normalised Hermite polynomial."""
    values: Array = np.polynomial.hermite_e.hermeval(x, [0.0] * m + [1.0])
    return values / math.sqrt(math.factorial(m))
