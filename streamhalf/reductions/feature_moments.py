"""Mean and variance of every feature, stable however far the mean lies from zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.reductions.base import Dims, Summed

_SUB_BATCH_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMomentsPartial:
    """Rows (int64), mean (d,) and summed squares about it (d,), both float64."""

    n_rows: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    dims: ClassVar[Dims] = {
        "mean": ("feature",),
        "deviation": ("feature",),
    }

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation of every feature."""
        return np.sqrt(self.scatter / max(self.n_rows, 1))


@dataclass(frozen=True, slots=True)
class FeatureMoments(Summed):
    """Mean and variance by pairwise updates, over the rows whose number `every` divides."""

    every: int = 1

    name = "feature-moments"
    reads_labels = False

    def empty(self, dim: int) -> FeatureMomentsPartial:
        """No rows."""
        return FeatureMomentsPartial(0, np.zeros(dim), np.zeros(dim))

    def map(self, block: Block) -> FeatureMomentsPartial:
        """Centre each sub-batch on its own mean before squaring."""
        X, partial = self._chosen(block), self.empty(block.dim)
        step = max(256, _SUB_BATCH_NBYTES // (8 * block.dim))
        for start in range(0, len(X), step):
            piece = X[start : start + step].astype(np.float64)
            ones = np.ones(len(piece))
            mean = ones @ piece / len(piece)
            piece -= mean
            piece *= piece
            partial = self.combine(
                partial, FeatureMomentsPartial(len(piece), mean, np.asarray(ones @ piece))
            )
        return partial

    def _chosen(self, block: Block) -> NDArray[np.floating[Any]]:
        if block.n_rows == 0 or self.every == 1:
            return block.X
        if block.rows[-1] - block.rows[0] + 1 == block.n_rows:  # neighbours, all of them
            first = -int(block.rows[0]) % self.every
            return block.cut(slice(first, None, self.every)).X
        return block.select(block.rows % self.every == 0).X

    def combine(
        self, left: FeatureMomentsPartial, right: FeatureMomentsPartial
    ) -> FeatureMomentsPartial:
        """Merge means and squares; the shift between the means adds to them."""
        n_rows = left.n_rows + right.n_rows
        if n_rows == 0:
            return left
        shift, share = right.mean - left.mean, right.n_rows / n_rows
        scatter = left.scatter + right.scatter + left.n_rows * share * shift**2
        return FeatureMomentsPartial(n_rows, left.mean + share * shift, scatter)
