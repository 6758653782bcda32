"""Mean, variance and covariance of features, stable however far the mean lies from zero.

Pairwise updates of sums about the mean (Chan, Golub and LeVeque).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.reductions.base import Dims, Reduction

_SUB_BATCH_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class CentredSums:
    """Rows (int64), mean (d,), and centred products (d, d) or squares (d,) summed, all float64."""

    n_rows: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    @property
    def dims(self) -> Dims:
        if self.scatter.ndim == 1:
            return {"mean": ("feature",), "deviation": ("feature",)}
        return {"mean": ("feature",), "covariance": ("feature", "other_feature")}

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Mean of (x - mean)(x - mean)^T."""
        return self.scatter / max(self.n_rows, 1)

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation of every feature, from squares."""
        return np.sqrt(self.scatter / max(self.n_rows, 1))


@dataclass(frozen=True, slots=True)
class Covariance(Reduction[CentredSums, CentredSums]):
    """Mean and covariance."""

    name = "covariance"
    reads_labels = False

    def empty(self, dim: int) -> CentredSums:
        return CentredSums(0, np.zeros(dim), np.zeros((dim, dim)))

    def scatter(self, centred: NDArray[np.float64]) -> NDArray[np.float64]:
        """Products of rows about their mean."""
        return centred.T @ centred

    def map(self, block: Block) -> CentredSums:
        """Centre each sub-batch on its own mean before multiplying."""
        sums = self.empty(block.dim)
        step = max(256, _SUB_BATCH_NBYTES // (8 * block.dim))
        for start in range(0, block.n_rows, step):
            piece = block.X[start : start + step].astype(np.float64)
            mean = np.ones(len(piece)) @ piece / len(piece)
            piece -= mean
            sums = self._merge(sums, CentredSums(len(piece), mean, self.scatter(piece)))
        return sums

    def combine(self, *parts: CentredSums) -> CentredSums:
        return functools.reduce(self._merge, parts)

    def _merge(self, left: CentredSums, right: CentredSums) -> CentredSums:
        """The shift between the means adds to the scatter."""
        n_rows = left.n_rows + right.n_rows
        if n_rows == 0:
            return left
        share, shift = right.n_rows / n_rows, right.mean - left.mean
        scatter = left.scatter + right.scatter + left.n_rows * share * self.scatter(shift[None])
        return CentredSums(n_rows, left.mean + share * shift, scatter)


@dataclass(frozen=True, slots=True)
class FeatureMoments(Covariance):
    """Mean and variance of every feature."""

    name = "feature-moments"

    def empty(self, dim: int) -> CentredSums:
        return CentredSums(0, np.zeros(dim), np.zeros(dim))

    def scatter(self, centred: NDArray[np.float64]) -> NDArray[np.float64]:
        """Squares of rows about their mean."""
        return np.asarray(np.ones(len(centred)) @ (centred * centred))
