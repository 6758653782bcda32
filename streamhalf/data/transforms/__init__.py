"""Row transforms; `ROW_MAPS` is the registry."""

from streamhalf.data.transforms.base import Identity, RowTransform
from streamhalf.data.transforms.isotropic import Isotropic
from streamhalf.data.transforms.radial import Radial
from streamhalf.errors import DataError
from streamhalf.results import TransformRecord

ROW_MAPS: tuple[type[RowTransform], ...] = (Identity, Isotropic, Radial)


def make_transform(record: TransformRecord) -> RowTransform:
    """The map that a record describes."""
    for kind in ROW_MAPS:
        if kind.kind == record.kind:
            return kind.from_record(record)
    known = ", ".join(kind.kind for kind in ROW_MAPS)
    raise DataError(f"transform: {record.kind!r} is unknown; expected one of {known}")


__all__ = ["ROW_MAPS", "Identity", "Isotropic", "Radial", "RowTransform", "row_transform"]
