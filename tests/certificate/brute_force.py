"""Small wild data sets, and the true quantities that the certificate bounds, by enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.slab_moments import SlabMoments, SlabStatistics, across_edges, certificate_edges

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Rows, labels and the plane that is certified."""

    X: Array
    y: NDArray[np.int8]
    v: Array
    threshold: float = 0.0

    def statistics(
        self, *, degree: int, ratio: float, pieces: int = 1, by_label: bool = False, across: Array | None = None
    ) -> SlabStatistics:
        """Reduce the rows in so many pieces, in boxes if there is a second direction."""
        plane = Plane(self.v, self.threshold)
        error = plane.errors(self.X, self.y) / len(self.y)
        reduction = SlabMoments(
            plane,
            certificate_edges(error, ratio=ratio),
            degree,
            by_label,
            across=None if across is None else (across, across_edges(6)),
        )
        partial = reduction.empty(self.X.shape[1])
        for rows in np.array_split(np.arange(len(self.y)), pieces):
            block = Block(self.X[rows], self.y[rows], rows.astype(np.int64))
            partial = reduction.combine(partial, reduction.map(block))
        return reduction.finalize(partial)


def predict(X: Array, W: Array) -> NDArray[np.int8]:
    """sgn(w·x) for all rows and all columns of W, sgn(0) = +1."""
    return np.where(X.astype(np.float64) @ W >= 0, 1, -1).astype(np.int8)


def critical_directions(X: Array, rng: np.random.Generator) -> Array:
    """Directions (d, m) among which some halfspace is best: all of them for d <= 2."""
    distinct = np.unique(X.astype(np.float64), axis=0)
    dim = X.shape[1]
    if dim == 1:
        return np.array([[1.0, -1.0]])
    if dim == 2:
        normals = np.concatenate([distinct[:, ::-1] * [-1, 1], distinct[:, ::-1] * [1, -1]])
        normals = normals[np.linalg.norm(normals, axis=1) > 0]
        angles = np.sort(np.arctan2(normals[:, 1], normals[:, 0]))
        closed = np.append(angles, angles[:1] + 2 * math.pi)
        between = (closed[1:] + closed[:-1]) / 2
        swept = np.stack([np.cos(between), np.sin(between)])
        return np.concatenate([normals.T, swept, [[1.0], [0.0]]], axis=1)
    chosen = distinct[rng.permutation(len(distinct))[:14]]
    pairs = [np.cross(a, b) for a, b in itertools.combinations(chosen, 2)]
    spread = rng.standard_normal((600, 3))
    stack = np.concatenate([np.array(pairs).reshape(-1, 3), spread])
    stack = stack[np.linalg.norm(stack, axis=1) > 0]
    jittered = stack[: len(pairs)] + 1e-6 * rng.standard_normal(stack[: len(pairs)].shape)
    both = np.concatenate([stack, jittered])
    return np.concatenate([both, -both]).T


def smallest_error(problem: Problem, rng: np.random.Generator) -> float:
    """Least error of any halfspace found; the least of all for d <= 2.

    In three dimensions the best one found is improved by trying its neighbours.
    """
    W = np.column_stack([critical_directions(problem.X, rng), problem.v, -problem.v])
    best, least = problem.v, 1.0
    for width in (1.0, 0.1, 0.02, 0.004) if len(problem.v) == 3 else (1.0,):
        if width < 1:
            W = best[:, None] + width * rng.standard_normal((3, 100))
        errors = (predict(problem.X, W) != problem.y[:, None]).mean(axis=0)
        if errors.min() < least:
            best, least = W[:, np.argmin(errors)], float(errors.min())
            best = best / np.linalg.norm(best)
    return least


def smallest_error_of_any(problem: Problem) -> float:
    """Least error of any halfspace whatever its threshold, for one or two features.

    Moved until it meets a row, a halfspace that has none on its boundary calls all others what it
    called them before, and that row, with its copies, what they are best called.
    """
    points, place = np.unique(problem.X.astype(np.float64), axis=0, return_inverse=True)
    positive = np.bincount(place.ravel(), problem.y > 0, len(points))
    negative = np.bincount(place.ravel(), problem.y < 0, len(points))
    least = min(positive.sum(), negative.sum())
    for i, point in enumerate(points):
        others = np.arange(len(points)) != i
        gains = _gains(points[others] - point, (positive - negative)[others])
        wrong = positive[others].sum() - gains
        least = min(least, wrong + min(positive[i], negative[i]))
    return float(least / len(problem.y))


def _gains(steps: Array, gain: Array) -> float:
    """Largest gain of the points on one side of a line through the origin, near no other point."""
    if steps.shape[1] == 1:
        right = gain[steps[:, 0] > 0].sum()
        return float(max(right, gain.sum() - right))
    angle = np.arctan2(steps[:, 1], steps[:, 0]) % (2 * math.pi)
    order = np.argsort(angle)
    angle, total = angle[order], np.concatenate([[0.0], np.cumsum(gain[order])])
    ends = np.sort(np.concatenate([angle, (angle + math.pi) % (2 * math.pi)]))
    if not len(ends):
        return 0.0
    closed = np.append(ends, ends[0] + 2 * math.pi)
    # what lies nearer together may lie on one line: rounding must make no halfspaces
    wide = np.diff(closed) > 1e-9
    begin = ((closed[1:] + closed[:-1])[wide] / 2) % (2 * math.pi)
    end = begin + math.pi
    upto = total[np.searchsorted(angle, np.minimum(end, 2 * math.pi))]
    around = total[np.searchsorted(angle, np.maximum(end - 2 * math.pi, 0.0))]
    inside = upto - total[np.searchsorted(angle, begin)] + around
    return float(inside.max())  # below 0 where points of the other label lie all around


def boxed_problem(rng: np.random.Generator, *, largest: int = 600) -> Problem:
    """Three features, wild or near to normal, with a threshold, and chosen noise."""
    n = int(rng.choice([20, 60, largest, largest]))
    X = random_rows(rng, n, 3) if rng.random() < 0.3 else rng.standard_normal((n, 3))
    w = rng.standard_normal(3)
    w /= np.linalg.norm(w)
    margin = X @ w
    t = float(np.quantile(margin, rng.choice([0.3, 0.5]))) if rng.random() < 0.5 else 0.0
    y = np.where(margin >= t, 1, -1).astype(np.int8)
    u = np.cross(w, rng.standard_normal(3))
    rate = float(rng.choice([0.03, 0.1, 0.2]))
    score = {0: rng.random(n), 1: y * (X @ u), 2: -np.abs(margin - t)}[int(rng.integers(3))]
    y[score > np.quantile(score, 1 - rate)] *= -1
    v = w + rng.choice([0.0, 0.05, 0.3]) * rng.standard_normal(3)
    return Problem(X, y, v / np.linalg.norm(v), t)


def smallest_error_found(problem: Problem, rng: np.random.Generator, *, central: bool = False) -> float:
    """Least error of halfspaces that were looked at: none is below the best, most are next to it.

    Those about the given one, of a threshold or none, and those through rows, a little to either
    side, again and again about the best so far.
    """
    rows = np.column_stack([problem.X.astype(np.float64), np.full(len(problem.y), not central)])
    start = np.append(problem.v, 0.0 if central else -problem.threshold)
    found = start[:, None] + 0.3 * rng.standard_normal((4, 300)) * rng.random(300)
    met = rows[rng.integers(0, len(rows), (200, 2 if central else 3))]
    through = np.array([np.linalg.svd(one)[2][-1] for one in met[:, :, : 3 if central else 4]])
    if central:
        through = np.column_stack([through, np.zeros(len(through))])
    least, best = 1.0, start
    for width in (0.0, 0.03, 0.01, 3e-3):
        tried = np.column_stack([start, found, through.T, -through.T])
        tried = tried + 1e-7 * rng.standard_normal(tried.shape)
        if width:
            tried = best[:, None] + width * rng.standard_normal((4, 300))
        errors = (predict(rows, tried) != problem.y[:, None]).mean(axis=0)
        if errors.min() < least:
            least, best = float(errors.min()), tried[:, np.argmin(errors)]
            best = best / np.linalg.norm(best)
    return least


def smallest_error_in_space(problem: Problem) -> float:
    """Least error of any halfspace whatever its threshold, of a handful of rows of small integers.

    The fewest rows without which the others are strictly separable: halfspaces with a row on their
    boundary call no more rows right than those that were moved away from it a little.
    """
    rows = np.column_stack([problem.X, np.ones(len(problem.y))]) * problem.y[:, None]
    everyone = range(len(rows))
    for n_wrong in everyone:
        for wrong in itertools.combinations(everyone, n_wrong):
            kept = np.delete(rows, wrong, axis=0)
            free = linprog(np.zeros(rows.shape[1]), -kept, -np.ones(len(kept)), bounds=(None, None))
            if free.status == 0:
                return n_wrong / len(rows)
    return 0.0


def tiny_problem(rng: np.random.Generator) -> Problem:
    """A handful of rows of up to three features, most on a lattice, with ties and copies."""
    dim = int(rng.choice([1, 2, 2, 3]))
    n = int(rng.integers(1, 8 if dim == 3 else 25))
    X = rng.integers(-2, 3, (n, dim)).astype(np.float64)
    if dim < 3 and rng.random() < 0.4:
        X = random_rows(rng, n, dim)
    y = np.where(rng.random(n) < rng.choice([0.2, 0.5]), 1, -1).astype(np.int8)
    if rng.random() < 0.5:
        y = np.where(X @ rng.standard_normal(dim) >= 0, 1, -1).astype(np.int8)
        y[rng.random(n) < 0.2] *= -1
    v = rng.standard_normal(dim)
    return Problem(X, y, v / np.linalg.norm(v), float(rng.choice([0.0, 0.3])))


def random_rows(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Rows of a kind drawn at random, most of them far from normal."""
    kind = rng.integers(11)
    X = rng.standard_normal((n, dim))
    if kind == 0:
        X = rng.standard_t(rng.choice([1.2, 2.0, 4.0]), (n, dim))
    elif kind == 1:
        X = rng.integers(-2, 3, (n, dim)).astype(np.float64)
    elif kind == 2:
        X = X[rng.integers(0, max(1, n // 8), n)]
    elif kind == 3:
        X[rng.random(n) < 0.4] = 0.0
    elif kind == 4:
        X = X @ rng.standard_normal((dim, dim)) * 10.0 ** rng.integers(-14, 15)
    elif kind == 5:
        X = np.outer(rng.standard_normal(n), rng.standard_normal(dim))
    elif kind == 6:
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    elif kind == 7:
        X[:, 0] *= rng.random(n) < 0.5
    elif kind == 8:
        X *= 10.0 ** rng.uniform(-6, 6, (n, 1))
    elif kind == 9:
        X[:, 1:] *= 10.0 ** -float(rng.integers(0, 7))
        X[rng.random(n) < 0.1] *= 1e3
    return np.asarray(X)


def random_problem(rng: np.random.Generator, *, largest: int = 800, thresholds: bool = False) -> Problem:
    """Wild rows, noisy labels and a direction from right to hopeless; thresholds for one or two features."""
    dim = int(rng.integers(1, 3 if thresholds else 4))
    n = int(rng.choice([1, 2, 3, 6, 20, 60, largest, largest]))
    X = random_rows(rng, n, dim)
    w = rng.standard_normal(dim) if rng.random() < 0.7 else np.eye(dim)[0]
    w /= np.linalg.norm(w)
    margin = X.astype(np.float64) @ w
    # at a row, between rows, or nowhere near
    t = float(rng.choice([np.quantile(margin, rng.random(), method="nearest"), margin.mean(), 0.0])) * thresholds
    y = np.where(margin >= t, 1, -1).astype(np.int8)
    y[rng.random(n) < rng.choice([0.0, 0.05, 0.1, 0.3, 0.5])] *= -1
    if rng.random() < 0.2:
        y[np.abs(margin - t) > np.quantile(np.abs(margin - t), 0.8)] *= -1
    if rng.random() < 0.1:
        y[:] = rng.choice([-1, 1])
    v = w + rng.choice([0.0, 0.05, 0.5, 50.0]) * rng.standard_normal(dim)
    v /= np.linalg.norm(v) * (-1 if rng.random() < 0.15 else 1)
    about = t + rng.choice([0.0, 0.0, 0.1, 3.0, -100.0]) * float(np.std(margin)) * thresholds
    return Problem(X.astype(np.float32) if rng.random() < 0.3 else X, y, v, about)


def friendly_problem(rng: np.random.Generator, *, largest: int = 1_500, thresholds: bool = False) -> Problem:
    """Rows on which the bound is seldom empty: near to normal, with little noise."""
    dim = int(rng.integers(1, 3) if thresholds else rng.integers(2, 4))
    n = int(rng.choice([largest // 2, largest]))
    X = rng.standard_normal((n, dim))
    kind = rng.integers(5)
    if kind == 1:
        X = rng.uniform(-1.7, 1.7, (n, dim))
    elif kind == 2:
        X = X @ (np.eye(dim) + 0.4 * rng.standard_normal((dim, dim)))
    elif kind == 3:
        X = rng.standard_t(8.0, (n, dim))
    elif kind == 4:
        X = np.round(X * 4) / 4
    w = rng.standard_normal(dim)
    w /= np.linalg.norm(w)
    margin = X @ w
    t = float(np.quantile(margin, rng.choice([0.2, 0.5, 0.7]))) if thresholds else 0.0
    y = np.where(margin >= t, 1, -1).astype(np.int8)
    score = {0: rng.random(n), 1: np.abs(margin - t), 2: -np.abs(margin - t), 3: X[:, 0] * y}[int(rng.integers(4))]
    y[score > np.quantile(score, 1 - float(rng.choice([0.02, 0.05, 0.1, 0.2])))] *= -1
    v = w + rng.choice([0.0, 0.02, 0.1, 0.3]) * rng.standard_normal(dim)
    about = t + float(rng.choice([0.0, 0.0, 0.02, -0.1])) * thresholds
    return Problem(X.astype(np.float32) if rng.random() < 0.3 else X, y, v / np.linalg.norm(v), about)
