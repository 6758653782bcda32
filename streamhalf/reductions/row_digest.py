"""A digest of all rows, values, labels and order, that any chunking reproduces exactly."""

from __future__ import annotations

from dataclasses import dataclass

from streamhalf.data.block import Block
from streamhalf.kernels.digest import sum_row_hashes
from streamhalf.reductions.base import Summed


@dataclass(frozen=True, slots=True)
class RowDigestPartial:
    """Rows, and the sum of their hashes modulo 2^64."""

    n_rows: int
    total: int

    @property
    def text(self) -> str:
        """The sum in hexadecimal."""
        return f"{self.total:016x}"


@dataclass(frozen=True, slots=True)
class RowDigest(Summed):
    """A changed value, label or order of rows changes it, but for a chance of 2^-64."""

    name = "digest"

    def empty(self, dim: int) -> RowDigestPartial:
        """No rows."""
        return RowDigestPartial(0, 0)

    def map(self, block: Block) -> RowDigestPartial:
        """Hash one block."""
        return RowDigestPartial(block.n_rows, sum_row_hashes(block.X, block.y, block.rows))

    def combine(self, left: RowDigestPartial, right: RowDigestPartial) -> RowDigestPartial:
        """Add modulo 2^64."""
        return RowDigestPartial(left.n_rows + right.n_rows, (left.total + right.total) % 2**64)
