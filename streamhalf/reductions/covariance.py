"""Mean, variance and covariance of features, stable however far the mean lies from zero.

Pairwise updates of sums about the mean (Chan, Golub and LeVeque).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.reductions.base import Dims, Summed

_SUB_BATCH_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class CovariancePartial:
    """Rows (int64), mean (d,) and summed centred products (d, d), all float64."""

    n_rows: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    dims: ClassVar[Dims] = {"mean": ("feature",), "covariance": ("feature", "other_feature")}

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Mean of (x - mean)(x - mean)^T."""
        return self.scatter / max(self.n_rows, 1)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMomentsPartial:
    """Rows (int64), mean (d,) and summed squares about it (d,), both float64."""

    n_rows: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    dims: ClassVar[Dims] = {"mean": ("feature",), "deviation": ("feature",)}

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation of every feature."""
        return np.sqrt(self.scatter / max(self.n_rows, 1))


P = TypeVar("P", CovariancePartial, FeatureMomentsPartial)


@dataclass(frozen=True, slots=True)
class Covariance(Summed):
    """Mean and covariance."""

    name = "covariance"
    reads_labels = False

    def empty(self, dim: int) -> CovariancePartial:
        """No rows."""
        return CovariancePartial(0, np.zeros(dim), np.zeros((dim, dim)))

    def map(self, block: Block) -> CovariancePartial:
        """Centre each sub-batch on its own mean before multiplying."""
        return _sum_pieces(self, self.empty(block.dim), block.X, lambda piece: piece.T @ piece)

    def combine(self, left: CovariancePartial, right: CovariancePartial) -> CovariancePartial:
        """Merge means and scatters; the shift between the means adds a rank-one term."""
        shift = right.mean - left.mean
        return _merge(left, right, np.outer(shift, shift))


@dataclass(frozen=True, slots=True)
class FeatureMoments(Summed):
    """Mean and variance of every feature, over the rows whose number `every` divides."""

    every: int = 1

    name = "feature-moments"
    reads_labels = False

    def empty(self, dim: int) -> FeatureMomentsPartial:
        """No rows."""
        return FeatureMomentsPartial(0, np.zeros(dim), np.zeros(dim))

    def map(self, block: Block) -> FeatureMomentsPartial:
        """Centre each sub-batch on its own mean before squaring."""
        X = block.X if self.every == 1 else block.select(block.rows % self.every == 0).X
        return _sum_pieces(self, self.empty(block.dim), X, lambda piece: np.ones(len(piece)) @ (piece * piece))

    def combine(self, left: FeatureMomentsPartial, right: FeatureMomentsPartial) -> FeatureMomentsPartial:
        """Merge means and squares; the shift between the means adds to them."""
        return _merge(left, right, (right.mean - left.mean) ** 2)


def _sum_pieces(
    reduction: Any,
    partial: P,
    X: NDArray[np.floating[Any]],
    scatter: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> P:
    step = max(256, _SUB_BATCH_NBYTES // (8 * X.shape[1]))
    for start in range(0, len(X), step):
        piece = X[start : start + step].astype(np.float64)
        mean = np.ones(len(piece)) @ piece / len(piece)
        piece -= mean
        found = type(partial)(len(piece), mean, np.asarray(scatter(piece)))
        partial = reduction.combine(partial, found)
    return partial


def _merge(left: P, right: P, spread: NDArray[np.float64]) -> P:
    """Merge two parts; `spread` is the product of the shift between their means with itself."""
    n_rows = left.n_rows + right.n_rows
    if n_rows == 0:
        return left
    share = right.n_rows / n_rows
    scatter = left.scatter + right.scatter + left.n_rows * share * spread
    return type(left)(n_rows, left.mean + share * (right.mean - left.mean), scatter)
