"""Positions of rows, one row map per file; `ROW_MAPS` is the family's only registry."""

from streamhalf.data.positions.base import RowMap
from streamhalf.data.positions.identity import Identity
from streamhalf.data.positions.isotropic import Isotropic
from streamhalf.records import Position, PositionRecord

ROW_MAPS: tuple[type[RowMap], ...] = (Identity, Isotropic)


def row_map(record: PositionRecord) -> RowMap:
    """The map that a record describes."""
    return Identity() if record.kind is Position.STORED else Isotropic.from_record(record)


__all__ = ["ROW_MAPS", "Identity", "Isotropic", "RowMap", "row_map"]
