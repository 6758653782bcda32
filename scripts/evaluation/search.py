"""The least error of any halfspace on given rows: exact in the plane, searched beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.floating[Any]]
Labels = NDArray[np.int8]
Vector = NDArray[np.float64]

_HALF_TURN = 2**41
"""Angles are whole numbers of ticks: rounding must not part directions that rows share."""

_QUARTERS = (-_HALF_TURN // 2, _HALF_TURN // 2)


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """A halfspace and its share of errors."""

    vector: Vector
    error: float


def error_of(X: Features, y: Labels, w: Vector) -> float:
    """Share of rows with sgn(w·x) != y, sgn(0) = +1."""
    return float(np.mean((X @ w.astype(X.dtype) >= 0) != (y > 0)))


def best_threshold(margin: Vector, y: Labels) -> float:
    """The t of the least error of sgn(margin - t): at one of the values, or above them all."""
    order = np.argsort(margin)
    ordered = margin[order]
    # moving t past a row makes a negative one right and a positive one wrong
    gains = np.concatenate([[0], np.cumsum(np.where(y[order] > 0, 1, -1))])
    is_first = np.concatenate([[True], ordered[1:] > ordered[:-1], [True]])
    best = int(np.argmin(np.where(is_first, gains, len(y))))
    return float(ordered[best]) if best < len(y) else float(np.nextafter(ordered[-1], np.inf))


def best_in_plane(X: Features, y: Labels) -> Best:
    """The best of all halfspaces through the origin of the plane, by one sort.

    A row is on the positive side of the normals on a closed half circle, so the error changes only
    where such arcs open or close: it is taken at every such angle and right after it.
    """
    nonzero = np.any(X != 0, axis=1)
    fixed = int(np.count_nonzero(y[~nonzero] < 0))
    angle = np.arctan2(X[nonzero, 1].astype(np.float64), X[nonzero, 0].astype(np.float64))
    gain = np.where(y[nonzero] < 0, 1, -1)
    ticks = np.rint(angle * (_HALF_TURN / np.pi)).astype(np.int64)
    opens, closes = ((ticks + turn) % (2 * _HALF_TURN) for turn in _QUARTERS)
    places, index = np.unique(np.concatenate([opens, closes]), return_inverse=True)
    if len(places) == 0:
        return Best(np.array([1.0, 0.0]), fixed / len(y))
    opened = np.bincount(index[: len(opens)], gain, len(places))
    closed = np.bincount(index[len(opens) :], gain, len(places))
    wrapped = float(gain[closes < opens].sum())
    start = fixed + int(np.count_nonzero(y[nonzero] > 0)) + wrapped
    steps = np.stack([opened, -closed], axis=1).ravel()
    at, after = (start + np.cumsum(steps)).reshape(-1, 2).T
    following = np.append(places[1:], places[0] + 2 * _HALF_TURN)
    if after.min() <= at.min():  # between two angles no row is on the boundary
        i = int(np.argmin(after))
        least, tick = after[i], (places[i] + following[i]) / 2
    else:
        i = int(np.argmin(at))
        least, tick = at[i], places[i]
    theta = tick * (np.pi / _HALF_TURN)
    return Best(np.array([np.cos(theta), np.sin(theta)]), float(least) / len(y))


def best_halfspace(X: Features, y: Labels, starts: Sequence[Vector], rng: np.random.Generator) -> Best:
    """The best halfspace found: exact for two features, else dense directions, then plane sweeps.

    A sweep is the exact search among all halfspaces in the plane of the best normal and another
    direction; sweeps go on until a round of them gains nothing.
    """
    if X.shape[1] == 2:
        return best_in_plane(X, y)
    directions = rng.standard_normal((4_000 if X.shape[1] == 3 else 400, X.shape[1]))
    sample = slice(0, 10_000)
    signs = X[sample].astype(np.float64) @ directions.T >= 0
    rough = np.mean(signs != (y[sample, None] > 0), axis=0)
    leading = directions[np.argsort(rough)[:3]]
    units = [one / np.linalg.norm(one) for one in (*starts, *leading)]
    best = min((Best(one, error_of(X, y, one)) for one in units), key=lambda one: one.error)
    for _ in range(4):
        found = _sweep(X, y, best, rng)
        if found.error >= best.error:
            break
        best = found
    return best


def _sweep(X: Features, y: Labels, best: Best, rng: np.random.Generator) -> Best:
    """One exact sweep in the plane of the best normal and each of d random directions."""
    for raw in rng.standard_normal((X.shape[1], X.shape[1])):
        u = raw - (raw @ best.vector) * best.vector
        plane = np.stack([best.vector, u / np.linalg.norm(u)], axis=1)
        turned = best_in_plane(X.astype(np.float64) @ plane, y)
        vector = plane @ turned.vector
        found = Best(vector / np.linalg.norm(vector), error_of(X, y, vector))
        best = min(best, found, key=lambda one: one.error)
    return best
