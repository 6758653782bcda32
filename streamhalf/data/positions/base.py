"""A row map: a lazy change of the rows that moves no row to the other side of any halfspace."""

from __future__ import annotations

from typing import ClassVar, Protocol, Self

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.records import PositionRecord


class RowMap(Protocol):
    """Rows as they are stored in, rows in another position out.

    `streamhalf.testing.check_row_map` states what every map obeys: a whole block goes in and comes
    out, with its row numbers (so a map may draw from them), whatever the chunking; a plane that
    comes back through `pull_back` gets the same rows wrong.
    """

    kind: ClassVar[str]
    """What records call it."""

    @classmethod
    def from_record(cls, record: PositionRecord) -> Self:
        """The map that a record of this kind describes."""
        ...

    def apply(self, block: Block) -> Block:
        """The rows in this position, mutating nothing."""
        ...

    def pull_back(self, plane: Plane) -> Plane:
        """The plane among stored rows whose image in this position is `plane`."""
        ...

    def push(self, plane: Plane) -> Plane:
        """The image in this position of a plane among stored rows."""
        ...

    @property
    def record(self) -> PositionRecord:
        """The map as plain numbers, from which `from_record` makes it again."""
        ...
