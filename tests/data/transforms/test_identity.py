from __future__ import annotations

import numpy as np
import pytest

from streamhalf.data.transforms import TRANSFORMS, Identity, Isotropic, make_transform
from streamhalf.errors import DataError
from streamhalf.kernels.plane import Plane
from streamhalf.results import Transform, TransformRecord
from streamhalf.testing import make_block


def test_identity__changes_nothing() -> None:
    block, plane = make_block(20, 3, seed=1), Plane(np.array([1.0, 2.0, 3.0]), 0.5)
    assert Identity().apply(block) is block
    assert Identity().to_stored(plane) is plane
    assert Identity().to_transformed(plane) is plane


def test_identity__is_what_a_record_without_numbers_stands_for() -> None:
    assert Identity().record == TransformRecord(Transform.STORED, (), ())
    assert make_transform(Identity().record) == Identity()


def test_registry__makes_every_map_from_its_record() -> None:
    for example in (Identity(), Isotropic(np.zeros(1), np.eye(1))):
        assert type(example) in TRANSFORMS
        assert type(make_transform(example.record)) is type(example)
    assert len({kind.kind for kind in TRANSFORMS}) == len(TRANSFORMS)


def test_row_map__of_no_known_kind_is_named() -> None:
    with pytest.raises(DataError, match="transform: 'askew' is unknown; expected one of stored"):
        make_transform(TransformRecord("askew"))
