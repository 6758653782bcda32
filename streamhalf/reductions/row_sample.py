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

    Labels (k,) int8 and numbers (k,) int64 of the rows. Places that are not taken come last, and
    hold zeros.
    """

    n_rows: int
    uniforms: NDArray[np.float64]
    X: NDArray[np.float64]
    y: NDArray[np.int8]
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RowSampleResult:
    """The rows drawn, in rising order, and how many there were to draw from."""

    n_rows: int
    block: Block


@dataclass(frozen=True, slots=True)
class RowSample:
    """The `size` rows with the smallest uniform numbers, or all if fewer."""

    size: int
    seed: int

    name = "row-sample"

    def empty(self, dim: int) -> RowSamplePartial:
        """No rows."""
        return RowSamplePartial(
            0,
            np.full(self.size, _NO_ROW),
            np.zeros((self.size, dim)),
            np.zeros(self.size, dtype=np.int8),
            np.zeros(self.size, dtype=np.int64),
        )

    def map(self, block: Block) -> RowSamplePartial:
        """The rows with the smallest numbers of one block."""
        uniforms = uniforms_at(self.seed, Stream.ROW_SAMPLE, block.rows)
        found = RowSamplePartial(
            block.n_rows, uniforms, block.X.astype(np.float64), block.y, block.rows
        )
        return self.combine(self.empty(block.dim), found)

    def combine(self, left: RowSamplePartial, right: RowSamplePartial) -> RowSamplePartial:
        """The smallest numbers of both."""
        uniforms = np.concatenate([left.uniforms, right.uniforms])
        chosen = np.argsort(uniforms, kind="stable")[: self.size]
        from_left = chosen < len(left.uniforms)
        first, second = chosen[from_left], chosen[~from_left] - len(left.uniforms)

        def merge(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
            merged = np.empty((self.size, *one.shape[1:]), dtype=one.dtype)
            merged[from_left], merged[~from_left] = one[first], other[second]
            return merged

        return RowSamplePartial(
            left.n_rows + right.n_rows,
            uniforms[chosen],
            merge(left.X, right.X),
            merge(left.y, right.y),
            merge(left.rows, right.rows),
        )

    def finalize(self, partial: RowSamplePartial) -> RowSampleResult:
        """The places that are taken."""
        taken = partial.uniforms < _NO_ROW
        order = np.argsort(partial.rows[taken])
        kept = np.flatnonzero(taken)[order]
        block = Block(partial.X[kept], partial.y[kept], partial.rows[kept])
        return RowSampleResult(partial.n_rows, block)

    def rows_used(self, partial: Any) -> int:
        """Rows that were drawn from."""
        return int(partial.n_rows)

    def partial_nbytes(self, dim: int) -> int:
        """Two numbers, a label and all features of each place."""
        return self.size * (8 * (dim + 2) + 1)
