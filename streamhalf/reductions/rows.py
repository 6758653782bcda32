"""All rows in a digest that any chunking reproduces, and some rows as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.digest import KEPT, RowSketch, digest_rows, limit_for
from streamhalf.kernels.streams import uniforms_at
from streamhalf.reductions.base import Reduction


@dataclass(frozen=True, slots=True, eq=False)
class RowDigestPartial:
    """Rows, those labelled +1, the sum of hashes modulo 2^64, and a sketch that shows repeated rows."""

    n_rows: int
    n_positive: int
    total: int
    sketch: RowSketch


@dataclass(frozen=True, slots=True)
class RowDigestResult:
    """Rows, those labelled +1, the sum of hashes modulo 2^64, and how rows repeat.

    `repeated` is the share of rows that are met more than once, `times` how often a row is met on
    average; both estimates, from a sample of 1,024 different rows.
    """

    n_rows: int
    n_positive: int
    total: int
    repeated: float
    times: float

    @property
    def text(self) -> str:
        """The sum in hexadecimal."""
        return f"{self.total:016x}"


@dataclass(frozen=True, slots=True)
class RowDigest(Reduction[RowDigestPartial, RowDigestResult]):
    """A changed value, label or order of rows changes it, but for a chance of 2^-64.

    `total_rows` is the size of the data set, about; it saves time in looking for repeated rows.
    """

    total_rows: int = 0

    name = "digest"

    def empty(self, dim: int) -> RowDigestPartial:
        return RowDigestPartial(0, 0, 0, RowSketch.of(np.empty(0, dtype=np.uint64)))

    def map(self, block: Block) -> RowDigestPartial:
        found = digest_rows(block.X, block.y, block.rows, limit=limit_for(self.total_rows))
        return RowDigestPartial(block.n_rows, int(np.count_nonzero(block.y > 0)), *found)

    def combine(self, *parts: RowDigestPartial) -> RowDigestPartial:
        found = Reduction.combine(self, *parts)
        return replace(found, total=found.total % 2**64)

    def finalize(self, partial: RowDigestPartial) -> RowDigestResult:
        repeats = partial.sketch.repeats(partial.n_rows, limit_for(self.total_rows))
        return RowDigestResult(partial.n_rows, partial.n_positive, partial.total, *repeats)

    def partial_nbytes(self, dim: int) -> int:
        """Two numbers for each hash of the sketch."""
        return 16 * KEPT


@dataclass(frozen=True, slots=True, eq=False)
class RowSamplePartial:
    """Rows seen (int64), and of those drawn uniform numbers (k,) and features (k, d), float64.

    Labels (k,) int8 and numbers (k,) int64 of the rows, which rise. Places that are not taken come
    last, and hold zeros.
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
class RowSample(Reduction[RowSamplePartial, RowSampleResult]):
    """The `size` rows with the smallest uniform numbers of the stream, or all if fewer."""

    size: int
    seed: int
    stream: int

    name = "row-sample"

    def empty(self, dim: int) -> RowSamplePartial:
        return self._hold(0, np.empty(0), np.empty((0, dim)), np.empty(0, np.int8), np.empty(0, np.int64))

    def map(self, block: Block) -> RowSamplePartial:
        uniforms = uniforms_at(self.seed, self.stream, block.rows)
        return self._hold(block.n_rows, uniforms, block.X, block.y, block.rows)

    def combine(self, *parts: RowSamplePartial) -> RowSamplePartial:
        taken = [min(part.n_rows, self.size) for part in parts]
        joined = (
            np.concatenate([getattr(part, name)[:n] for part, n in zip(parts, taken, strict=True)])
            for name in ("uniforms", "X", "y", "rows")
        )
        return self._hold(sum(part.n_rows for part in parts), *joined)

    def _hold(
        self,
        n_rows: int,
        uniforms: NDArray[np.float64],
        X: NDArray[np.floating[Any]],
        y: NDArray[np.int8],
        rows: NDArray[np.int64],
    ) -> RowSamplePartial:
        """The partial of rows in rising order, the smallest numbers if they are too many."""
        chosen: slice | NDArray[np.int64] = slice(None)
        if len(rows) > self.size:
            chosen = np.sort(np.argpartition(uniforms, self.size)[: self.size])

        def held(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
            # the system gives memory to places only when they are taken
            places = np.zeros((self.size, *array.shape[1:]), dtype=dtype)
            taken = array[chosen]
            places[: len(taken)] = taken
            return places

        return RowSamplePartial(
            n_rows, held(uniforms, np.float64), held(X, np.float64), held(y, np.int8), held(rows, np.int64)
        )

    def finalize(self, partial: RowSamplePartial) -> RowSampleResult:
        taken = slice(0, min(partial.n_rows, self.size))
        return RowSampleResult(partial.n_rows, Block(partial.X[taken], partial.y[taken], partial.rows[taken]))

    def partial_nbytes(self, dim: int) -> int:
        """Two numbers, a label and all features of each place."""
        return self.size * (8 * (dim + 2) + 1)
