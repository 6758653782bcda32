from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.positions import ROW_MAPS, Identity, Isotropic, row_map
from streamhalf.errors import DataError
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


def test_registry__makes_every_map_from_its_record() -> None:
    for example in (Identity(), Isotropic(np.zeros(1), np.eye(1))):
        assert type(example) in ROW_MAPS
        assert type(row_map(example.record)) is type(example)
    assert len({kind.kind for kind in ROW_MAPS}) == len(ROW_MAPS)


def test_row_map__of_no_known_kind_is_named() -> None:
    with pytest.raises(DataError, match="position: 'askew' is unknown; expected one of stored"):
        row_map(PositionRecord("askew"))
