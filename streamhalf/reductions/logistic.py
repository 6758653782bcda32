"""Gradient and Hessian of logistic regression at given weights: one Newton step."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.base import Summed

_SUB_BATCH_NBYTES = 4 << 20

PENALTY, INTERCEPT_PENALTY = 1.0, 1e-3
"""Times half the squared length of the weights, as scikit-learn does by default, and of the
intercept, which would run away where all labels are the same."""

_SETTLED, _MOST_STEPS, _MOST_HALVINGS = 1e-6, 50, 30


@dataclass(frozen=True, slots=True, eq=False)
class LogisticSums:
    """Rows; the sums of ln(1 + exp(-y m)), of its gradient (d + 1,) and its Hessian.

    The last coordinate is the intercept; all float64.
    """

    n_rows: int
    loss: float
    gradient: NDArray[np.float64]
    hessian: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Logistic(Summed):
    """Sums at `weights` (d + 1,) of the features (x - centre) / scale.

    A feature that stands still has an infinite scale, and so no weight.
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    weights: NDArray[np.float64]

    name = "logistic"

    @classmethod
    def start(cls, mean: NDArray[np.float64], spread: NDArray[np.float64]) -> Logistic:
        """Weights of 0, for features of this mean and standard deviation."""
        scale = np.where(spread > 1e-10 * np.abs(mean), spread, np.inf)
        return cls(mean, scale, np.zeros(len(mean) + 1))

    def empty(self, dim: int) -> LogisticSums:
        """No rows."""
        return LogisticSums(0, 0.0, np.zeros(dim + 1), np.zeros((dim + 1, dim + 1)))

    def map(self, block: Block) -> LogisticSums:
        """Sum one block, in pieces for the cache."""
        sums = self.empty(block.dim)
        step = max(256, _SUB_BATCH_NBYTES // (8 * block.dim))
        for start in range(0, block.n_rows, step):
            window = slice(start, start + step)
            X = (block.X[window].astype(np.float64) - self.centre) / self.scale
            Z = np.column_stack([X, np.ones(len(X))])
            y = block.y[window].astype(np.float64)
            margins = y * (Z @ self.weights)
            against = expit(-margins)
            curved = Z * (against * (1 - against))[:, None]
            loss = float(np.logaddexp(0.0, -margins).sum())
            piece = LogisticSums(len(Z), loss, -(y * against) @ Z, curved.T @ Z)
            sums = self.combine(sums, piece)
        return sums

    def objective(self, sums: LogisticSums) -> float:
        """Loss and penalty."""
        return sums.loss + float(self._penalties @ self.weights**2) / 2

    @property
    def _penalties(self) -> NDArray[np.float64]:
        return np.append(np.full(len(self.weights) - 1, PENALTY), INTERCEPT_PENALTY)

    def step(self, sums: LogisticSums) -> Logistic:
        """The weights that minimise the quadratic model."""
        gradient = sums.gradient + self._penalties * self.weights
        move = np.linalg.solve(sums.hessian + np.diag(self._penalties), gradient)
        return replace(self, weights=self.weights - move)

    def settle(self, block: Block) -> Logistic:
        """Newton steps on rows in memory, halved where they go too far."""
        at, sums = self, self.map(block)
        for _ in range(_MOST_STEPS):
            reached, found = at.objective(sums), at.step(sums)
            for _ in range(_MOST_HALVINGS):
                ahead = found.map(block)
                if found.objective(ahead) <= reached or not math.isfinite(reached):
                    break
                found = replace(found, weights=(found.weights + at.weights) / 2)
            gained = reached - found.objective(ahead)
            at, sums = found, ahead
            if gained <= _SETTLED * max(1.0, reached):
                break
        return at

    @property
    def plane(self) -> Plane:
        """The boundary among the rows as they came."""
        normal = self.weights[:-1] / self.scale
        return Plane(normal, float(normal @ self.centre) - float(self.weights[-1]))
