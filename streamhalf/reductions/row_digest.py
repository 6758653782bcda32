"""A digest of all rows, values, labels and order, that any chunking reproduces exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamhalf.data.block import Block
from streamhalf.kernels.digest import digest_rows
from streamhalf.kernels.row_sketch import KEPT, RowSketch, limit_for
from streamhalf.reductions.base import Summed


@dataclass(frozen=True, slots=True, eq=False)
class RowDigestPartial:
    """Rows, the sum of their hashes modulo 2^64, and a sketch of them that shows repeated ones."""

    n_rows: int
    total: int
    sketch: RowSketch


@dataclass(frozen=True, slots=True)
class RowDigestResult:
    """Rows, the sum of their hashes modulo 2^64, and how they repeat.

    `repeated` is the share of rows that are met more than once, `times` how often a row is met on
    average; both estimates, from a sample of 1,024 different rows.
    """

    n_rows: int
    total: int
    repeated: float
    times: float

    @property
    def text(self) -> str:
        """The sum in hexadecimal."""
        return f"{self.total:016x}"


@dataclass(frozen=True, slots=True)
class RowDigest(Summed):
    """A changed value, label or order of rows changes it, but for a chance of 2^-64.

    `total_rows` is the size of the data set, about; it saves time in looking for repeated rows.
    """

    total_rows: int = 0

    name = "digest"

    def empty(self, dim: int) -> RowDigestPartial:
        """No rows."""
        return RowDigestPartial(0, 0, RowSketch.of(np.empty(0, dtype=np.uint64)))

    def map(self, block: Block) -> RowDigestPartial:
        """Hash one block."""
        limit = limit_for(self.total_rows)
        found = digest_rows(block.X, block.y, block.rows, limit=limit)
        return RowDigestPartial(block.n_rows, *found)

    def combine(self, left: RowDigestPartial, right: RowDigestPartial) -> RowDigestPartial:
        """Add modulo 2^64, and merge the sketches."""
        total = (left.total + right.total) % 2**64
        return RowDigestPartial(left.n_rows + right.n_rows, total, left.sketch.merge(right.sketch))

    def finalize(self, partial: RowDigestPartial) -> RowDigestResult:
        """Look at the sketch."""
        repeats = partial.sketch.repeats(partial.n_rows, limit_for(self.total_rows))
        return RowDigestResult(partial.n_rows, partial.total, *repeats)

    def partial_nbytes(self, dim: int) -> int:
        """Two numbers for each hash of the sketch."""
        return 16 * KEPT
