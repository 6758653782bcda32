"""Some rows, drawn one by one, as they are: for what must be computed from them in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import uniforms_at

_NO_ROW = 2.0
"""The number of a place that no row has taken: above all uniform numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class RowSamplePartial:
    """Rows seen (int64), uniform numbers (k,) in rising order and features (k, d), float64.

    Places that are not taken come last, and hold zeros.
    """

    n_rows: int
    uniforms: NDArray[np.float64]
    X: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RowSampleResult:
    """The rows drawn (m, d), and how many there were to draw from."""

    n_rows: int
    X: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RowSample:
    """The features of the `size` rows with the smallest uniform numbers, or of all if fewer."""

    size: int
    seed: int

    name = "row-sample"

    def empty(self, dim: int) -> RowSamplePartial:
        """No rows."""
        return RowSamplePartial(0, np.full(self.size, _NO_ROW), np.zeros((self.size, dim)))

    def map(self, block: Block) -> RowSamplePartial:
        """The rows with the smallest numbers of one block."""
        partial = self.empty(block.dim)
        uniforms = uniforms_at(self.seed, Stream.ROW_SAMPLE, block.rows)
        chosen = np.argsort(uniforms, kind="stable")[: self.size]
        partial.uniforms[: len(chosen)] = uniforms[chosen]
        partial.X[: len(chosen)] = block.X[chosen]
        return RowSamplePartial(block.n_rows, partial.uniforms, partial.X)

    def combine(self, left: RowSamplePartial, right: RowSamplePartial) -> RowSamplePartial:
        """The smallest numbers of both."""
        uniforms = np.concatenate([left.uniforms, right.uniforms])
        chosen = np.argsort(uniforms, kind="stable")[: self.size]
        X = np.zeros_like(left.X)
        from_left = chosen < self.size
        X[from_left] = left.X[chosen[from_left]]
        X[~from_left] = right.X[chosen[~from_left] - self.size]
        return RowSamplePartial(left.n_rows + right.n_rows, uniforms[chosen], X)

    def finalize(self, partial: RowSamplePartial) -> RowSampleResult:
        """The places that are taken."""
        taken = int(np.searchsorted(partial.uniforms, _NO_ROW))
        return RowSampleResult(partial.n_rows, partial.X[:taken])

    def rows_used(self, partial: Any) -> int:
        """Rows that were drawn from."""
        return int(partial.n_rows)

    def partial_nbytes(self, dim: int) -> int:
        """One number and all features of each place."""
        return 8 * self.size * (dim + 1)
