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
    """Rows seen (int64), and the uniform numbers (k,) and rows of those drawn, which rise; features in float64.

    Places that are not taken come last, and hold zeros.
    """

    n_rows: int
    uniforms: NDArray[np.float64]
    block: Block


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
        none = Block(np.empty((0, dim)), np.empty(0, dtype=np.int8), np.empty(0, dtype=np.int64))
        return self._hold(0, np.empty(0), none)

    def map(self, block: Block) -> RowSamplePartial:
        return self._hold(block.n_rows, uniforms_at(self.seed, self.stream, block.rows), block)

    def combine(self, *parts: RowSamplePartial) -> RowSamplePartial:
        taken = [slice(0, min(part.n_rows, self.size)) for part in parts]
        uniforms = np.concatenate([part.uniforms[own] for part, own in zip(parts, taken, strict=True)])
        block = Block.concatenate([part.block.cut(own) for part, own in zip(parts, taken, strict=True)])
        return self._hold(sum(part.n_rows for part in parts), uniforms, block)

    def _hold(self, n_rows: int, uniforms: NDArray[np.float64], block: Block) -> RowSamplePartial:
        """The partial of rows in rising order, the smallest numbers if they are too many."""
        if block.n_rows > self.size:
            chosen = np.sort(np.argpartition(uniforms, self.size)[: self.size])
            uniforms, block = uniforms[chosen], block.take(chosen)

        def held(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
            # the system gives memory to places only when they are taken
            places = np.zeros((self.size, *array.shape[1:]), dtype=dtype)
            places[: len(array)] = array
            return places

        rows = Block(held(block.X, np.float64), held(block.y, np.int8), held(block.rows, np.int64))
        return RowSamplePartial(n_rows, held(uniforms, np.float64), rows)

    def finalize(self, partial: RowSamplePartial) -> RowSampleResult:
        return RowSampleResult(partial.n_rows, partial.block.cut(slice(0, min(partial.n_rows, self.size))))

    def partial_nbytes(self, dim: int) -> int:
        """Two numbers, a label and all features of each place."""
        return self.size * (8 * (dim + 2) + 1)
