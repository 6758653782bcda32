from __future__ import annotations

import numpy as np

from streamhalf.data.positions import ROW_MAPS, Identity, Isotropic, row_map
from streamhalf.kernels.plane import Plane
from streamhalf.records import Position, PositionRecord
from streamhalf.testing.drawing import make_block


def test_identity__changes_nothing() -> None:
    block, plane = make_block(20, 3, seed=1), Plane(np.array([1.0, 2.0, 3.0]), 0.5)
    assert Identity().apply(block) is block
    assert Identity().pull_back(plane) is plane
    assert Identity().push(plane) is plane


def test_identity__is_what_a_record_without_numbers_stands_for() -> None:
    assert Identity().record == PositionRecord(Position.STORED, (), ())
    assert row_map(Identity().record) == Identity()


def test_registry__has_a_map_for_every_position() -> None:
    assert (Identity, Isotropic) == ROW_MAPS
    records = (PositionRecord(), Isotropic(np.zeros(1), np.eye(1)).record)
    assert [type(row_map(record)) for record in records] == list(ROW_MAPS)
    assert {record.kind for record in records} == set(Position)
