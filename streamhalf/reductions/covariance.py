"""Mean and covariance of raw features, stable however far the mean lies from zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.reductions.base import Dims, Summed

_SUB_BATCH_NBYTES = 4 << 20


@dataclass(frozen=True, slots=True, eq=False)
class CovariancePartial:
    """Rows (int64), mean (d,) and summed centred products (d, d), all float64."""

    n_rows: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    dims: ClassVar[Dims] = {
        "mean": ("feature",),
        "covariance": ("feature", "other_feature"),
    }

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Mean of (x - mean)(x - mean)^T."""
        return self.scatter / max(self.n_rows, 1)


@dataclass(frozen=True, slots=True)
class Covariance(Summed):
    """Mean and covariance by pairwise updates (Chan, Golub and LeVeque)."""

    name = "covariance"
    reads_labels = False

    def empty(self, dim: int) -> CovariancePartial:
        """No rows."""
        return CovariancePartial(0, np.zeros(dim), np.zeros((dim, dim)))

    def map(self, block: Block) -> CovariancePartial:
        """Centre each sub-batch on its own mean before multiplying."""
        partial = self.empty(block.dim)
        step = max(256, _SUB_BATCH_NBYTES // (8 * block.dim))
        for start in range(0, block.n_rows, step):
            piece = block.X[start : start + step].astype(np.float64)
            mean = piece.mean(axis=0)
            piece -= mean
            partial = self.combine(partial, CovariancePartial(len(piece), mean, piece.T @ piece))
        return partial

    def combine(self, left: CovariancePartial, right: CovariancePartial) -> CovariancePartial:
        """Merge means and scatters; the shift between the means adds a rank-one term."""
        n_rows = left.n_rows + right.n_rows
        if n_rows == 0:
            return left
        shift = right.mean - left.mean
        share = right.n_rows / n_rows
        mean = left.mean + share * shift
        scatter = left.scatter + right.scatter + left.n_rows * share * np.outer(shift, shift)
        return CovariancePartial(n_rows, mean, scatter)
