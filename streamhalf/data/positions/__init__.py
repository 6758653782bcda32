"""Positions of rows, one row map per file; `ROW_MAPS` is the family's only registry."""

from streamhalf.data.positions.base import RowMap
from streamhalf.data.positions.identity import Identity
from streamhalf.data.positions.isotropic import Isotropic
from streamhalf.data.positions.radial import Radial
from streamhalf.errors import DataError
from streamhalf.records import PositionRecord

ROW_MAPS: tuple[type[RowMap], ...] = (Identity, Isotropic, Radial)


def row_map(record: PositionRecord) -> RowMap:
    """The map that a record describes."""
    for kind in ROW_MAPS:
        if kind.kind == record.kind:
            return kind.from_record(record)
    known = ", ".join(kind.kind for kind in ROW_MAPS)
    raise DataError(f"position: {record.kind!r} is unknown; expected one of {known}")


__all__ = ["ROW_MAPS", "Identity", "Isotropic", "Radial", "RowMap", "row_map"]
