"""Logistic regression: by Newton steps on rows in memory, and the sums of a pass along a line."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from streamhalf.data.block import Block
from streamhalf.kernels.margins import margins
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.base import Reduction

_SUB_BATCH_NBYTES = 4 << 20
# Times half the squared length of the weights, as scikit-learn does by default, and of the intercept, which would run
# away where all labels are the same
PENALTY, INTERCEPT_PENALTY = 1.0, 1e-3
_SETTLED, _MOST_STEPS, _MOST_HALVINGS = 1e-6, 50, 30
_FEATURE, _MOST_FEATURE = 2.0**12, 2.0**23
# Parts of a standard deviation, of a residual and of a loss that whole numbers count, and the largest such numbers:
# sums of 2^13 products are exact in float64, those of 2^24 in int64
_RESIDUAL, _LOSS, _MOST_LOSS = 2.0**16, 2.0**20, 2.0**38
_EXACT_ROWS = 1 << 13


def logistic_plane(block: Block) -> Plane:
    """The boundary of a logistic regression on rows in memory; a constant feature gets no weight."""
    mean, spread = block.X.mean(axis=0), block.X.std(axis=0)
    scale = np.where(spread > 1e-10 * np.abs(mean), spread, np.inf)
    return plane_of(newton_weights(block, mean, scale, np.zeros(block.dim + 1)), mean, scale)


def newton_weights(
    block: Block, centre: NDArray[np.float64], scale: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Newton steps from these weights of (x - centre) / scale and 1, halved where they go too far."""
    penalty = penalties(block.dim)

    def look(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        loss, gradient, hessian = _newton_sums(block, centre, scale, at)
        return loss + float(penalty @ at**2) / 2, gradient, hessian

    loss, gradient, hessian = look(weights)
    for _ in range(_MOST_STEPS):
        found = weights - np.linalg.solve(hessian + np.diag(penalty), gradient + penalty * weights)
        for _ in range(_MOST_HALVINGS):
            ahead = look(found)
            if ahead[0] <= loss or not math.isfinite(loss):
                break
            found = (found + weights) / 2
        before, weights, (loss, gradient, hessian) = loss, found, ahead
        if before - loss <= _SETTLED * max(1.0, before):
            break
    return weights


def _newton_sums(
    block: Block, centre: NDArray[np.float64], scale: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """The sum of ln(1 + exp(-y m)), its gradient (d + 1,) and its Hessian, the intercept last."""
    size = block.dim + 1
    loss, gradient, hessian = 0.0, np.zeros(size), np.zeros((size, size))
    step = max(256, _SUB_BATCH_NBYTES // (8 * block.dim))
    for start in range(0, block.n_rows, step):
        window = slice(start, start + step)
        X = (block.X[window].astype(np.float64) - centre) / scale
        Z = np.column_stack([X, np.ones(len(X))])
        y = block.y[window].astype(np.float64)
        agreement = y * (Z @ weights)
        against = expit(-agreement)
        loss += float(np.logaddexp(0.0, -agreement).sum())
        gradient += -(y * against) @ Z
        hessian += (Z * (against * (1 - against))[:, None]).T @ Z
    return loss, gradient, hessian


@dataclass(frozen=True, slots=True, eq=False)
class LogisticLineSums:
    """Rows, losses (k,) and gradients (k, d + 1): whole numbers in a partial, in their own units in the result."""

    n_rows: int
    losses: NDArray[np.int64] | NDArray[np.float64]
    gradients: NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LogisticLine(Reduction[LogisticLineSums, LogisticLineSums]):
    """Losses and gradients at `weights` + t `move`, (d + 1,) each, for every t of `steps`.

    Features are (x - centre) / scale, rounded as residuals and losses are, so that sums are exact:
    the same bits whatever the chunking.
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    weights: NDArray[np.float64]
    move: NDArray[np.float64]
    steps: tuple[float, ...]

    name = "logistic-line"

    def empty(self, dim: int) -> LogisticLineSums:
        size = len(self.steps)
        return LogisticLineSums(0, np.zeros(size, np.int64), np.zeros((size, dim + 1), np.int64))

    def map(self, block: Block) -> LogisticLineSums:
        sums = self.empty(block.dim)
        size = min(_EXACT_ROWS, max(256, _SUB_BATCH_NBYTES // (8 * block.dim)))
        for start in range(0, block.n_rows, size):
            window = slice(start, start + size)
            Z = block.X[window].astype(np.float64)
            Z -= self.centre
            Z *= _FEATURE / self.scale
            np.rint(Z.clip(-_MOST_FEATURE, _MOST_FEATURE, out=Z), out=Z)
            y = block.y[window].astype(np.float64)
            here, ahead = (y * (margins(Z, one[:-1] / _FEATURE) + one[-1]) for one in (self.weights, self.move))
            agreement = here + np.outer(self.steps, ahead)
            residuals = -y * np.rint(_RESIDUAL * expit(-agreement))
            losses = np.minimum(np.rint(_LOSS * np.logaddexp(0.0, -agreement)), _MOST_LOSS)
            slopes = np.column_stack([residuals @ Z, _FEATURE * residuals.sum(axis=1)])
            found = LogisticLineSums(len(Z), losses.astype(np.int64).sum(axis=1), slopes.astype(np.int64))
            sums = self.combine(sums, found)
        return sums

    def finalize(self, partial: LogisticLineSums) -> LogisticLineSums:
        return LogisticLineSums(partial.n_rows, partial.losses / _LOSS, partial.gradients / (_RESIDUAL * _FEATURE))


def penalties(dim: int, times: float = 1.0) -> NDArray[np.float64]:
    """Return the factor of half the square of each weight; `times` is that of the features."""
    return np.append(np.full(dim, times * PENALTY), INTERCEPT_PENALTY)


def plane_of(weights: NDArray[np.float64], centre: NDArray[np.float64], scale: NDArray[np.float64]) -> Plane:
    """The boundary among the rows as they came, of weights of (x - centre) / scale."""
    normal = weights[:-1] / scale
    return Plane(normal, float(normal @ centre) - float(weights[-1]))
