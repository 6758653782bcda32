"""Laws of features and labels that the generator does not have, held out for the evaluation.

Every law is scaled to mean 0 and covariance near I, so that it is no easy prey.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from scripts.evaluation.atoms import draw_atoms
from scripts.evaluation.drawing import orthogonal_to
from scripts.evaluation.search import Features, Labels, Vector

Rng = np.random.Generator
Matrix = NDArray[np.float64]


def _clusters(n: int, v: Vector, rng: Rng) -> Matrix:
    """Two Gaussian clusters on either side of the boundary."""
    centre = 0.7 * rng.choice([-1.0, 1.0], n)
    return _place(n, v, centre + np.sqrt(1 - 0.49) * rng.standard_normal(n), rng)


def _sphere(n: int, v: Vector, rng: Rng) -> Matrix:
    g = rng.standard_normal((n, len(v)))
    return np.sqrt(len(v)) * g / np.linalg.norm(g, axis=1, keepdims=True)


def _lattice(n: int, v: Vector, rng: Rng) -> Matrix:
    """The margin rounded to odd multiples of 1/4; its sign stays."""
    g = rng.standard_normal(n)
    rounded = 0.5 * (np.floor(g / 0.5) + 0.5)
    return _place(n, v, rounded / np.sqrt(1 + 0.25 / 12), rng)


def _fine_lattice(n: int, v: Vector, rng: Rng) -> Matrix:
    """Gaussian rows stored with a precision of 0.01: must be accepted."""
    return np.rint(rng.standard_normal((n, len(v))) / 0.01) * 0.01


def _mirrored_slab(n: int, v: Vector, rng: Rng) -> Matrix:
    """Rows with margin from 0.2 to 0.6 thrown to the other side."""
    g = rng.standard_normal(n)
    return _place(n, v, np.where((g > 0.2) & (g < 0.6), -g, g), rng)


def _gamma(n: int, v: Vector, rng: Rng) -> Matrix:
    return (rng.gamma(4.0, 1.0, (n, len(v))) - 4.0) / 2.0


def _product(n: int, v: Vector, rng: Rng) -> Matrix:
    return rng.standard_normal((n, len(v))) * rng.standard_normal((n, len(v)))


def _rotated_three_point(n: int, v: Vector, rng: Rng) -> Matrix:
    """The Gauss-Hermite law turned at random: moments to degree 5, no axis to be found along."""
    turn = np.linalg.qr(rng.standard_normal((len(v), len(v))))[0]
    faces = np.array([-np.sqrt(3), np.sqrt(3), 0, 0, 0, 0])
    return faces[rng.integers(0, 6, (n, len(v)))] @ turn


def _stretched_slab(n: int, v: Vector, rng: Rng) -> Matrix:
    """Wide across the boundary, narrow far from it: second moments 1.8 and 0.75."""
    g = rng.standard_normal(n)
    X = _place(n, v, g, rng)
    scale = np.where(np.abs(g) < 0.3, np.sqrt(1.8), np.sqrt(0.753))
    across = np.outer(g, v)
    return across + (X - across) * scale[:, None]


def _comb(n: int, v: Vector, rng: Rng) -> Matrix:
    """Every second slab of width 0.05 is empty, its rows pushed outwards into the next one."""
    g = rng.standard_normal(n)
    size = 0.05 * (2 * np.floor(np.abs(g) / 0.1) + 1) + 0.05 * rng.random(n)
    return _place(n, v, np.sign(g) * size, rng)


def _outliers(n: int, v: Vector, rng: Rng) -> Matrix:
    """A share 0.002 of the rows far out along a direction orthogonal to v, the rest Gaussian."""
    X = rng.standard_normal((n, len(v)))
    far = rng.random(n) < 0.002
    X[far] += 4.0 * rng.choice([-1.0, 1.0], (n, 1))[far] * orthogonal_to(v, rng)
    return X


def _stratified(n: int, v: Vector, rng: Rng) -> Matrix:
    """Margins are the quantiles of N(0, 1), one row each: less scatter than chance allows."""
    return _place(n, v, rng.permutation(ndtri((np.arange(n) + 0.5) / n)), rng)


def _place(n: int, v: Vector, margin: Matrix, rng: Rng) -> Matrix:
    """Gaussian rows moved along v to the wanted margins."""
    X = rng.standard_normal((n, len(v)))
    return X + np.outer(margin - X @ v, v)


HELD_OUT: dict[str, Callable[[int, Vector, Rng], Matrix]] = {
    "clusters": _clusters,
    "sphere": _sphere,
    "lattice margin": _lattice,
    "fine lattice": _fine_lattice,
    "mirrored slab": _mirrored_slab,
    "gamma": _gamma,
    "product of two": _product,
    "rotated three-point": _rotated_three_point,
    "stretched slab": _stretched_slab,
    "comb": _comb,
    "outliers": _outliers,
    "stratified": _stratified,
    "atoms": draw_atoms,
}
"""Features for n rows around a planted direction v."""


def _band(X: Features, v: Vector, rng: Rng) -> Labels:
    """Labels of another halfspace where |v·x| < 0.1."""
    margin = X @ v
    return _sign(np.where(np.abs(margin) < 0.1, X @ orthogonal_to(v, rng), margin))


def _rim(X: Features, v: Vector, rng: Rng) -> Labels:
    """Labels of a halfspace tilted by half a right angle on the 10% of rows of largest norm."""
    norm = np.linalg.norm(X, axis=1)
    tilted = (v + orthogonal_to(v, rng)) / np.sqrt(2)
    return _sign(np.where(norm > np.quantile(norm, 0.9), X @ tilted, X @ v))


def _both(X: Features, v: Vector, rng: Rng) -> Labels:
    """Positive where two halfspaces agree: no halfspace is right."""
    return _sign(np.minimum(X @ v, X @ orthogonal_to(v, rng) + 1.0))


def _backlash(X: Features, v: Vector, rng: Rng) -> Labels:
    """The wrong way round at 0.5 < |v·x| < 1, where the first update looks hardest."""
    margin = X @ v
    size = np.abs(margin)
    return _sign(np.where((size > 0.5) & (size < 1.0), -margin, margin))


def _sign(values: Features) -> Labels:
    return np.where(values >= 0, 1, -1).astype(np.int8)


SCHEMES: dict[str, Callable[[Features, Vector, Rng], Labels]] = {
    "band": _band,
    "rim": _rim,
    "both": _both,
    "backlash": _backlash,
}
"""Labels against the learner, without a rate."""
