"""Rows as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.results import Transform, TransformRecord


@dataclass(frozen=True, slots=True)
class Identity:
    """Changes nothing."""

    kind: ClassVar[str] = Transform.STORED.value

    @classmethod
    def from_record(cls, record: TransformRecord) -> Self:
        """No numbers are needed."""
        return cls()

    def apply(self, block: Block) -> Block:
        """The block itself."""
        return block

    def to_stored(self, plane: Plane) -> Plane:
        """The plane itself."""
        return plane

    def to_transformed(self, plane: Plane) -> Plane:
        """The plane itself."""
        return plane

    @property
    def rounding(self) -> float:
        """Nothing is computed."""
        return 0.0

    @property
    def record(self) -> TransformRecord:
        """No numbers are needed."""
        return TransformRecord(self.kind)
