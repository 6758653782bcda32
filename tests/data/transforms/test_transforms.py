from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from streamhalf.data.transforms import TRANSFORMS, Identity, Isotropic, Radial, RowTransform, make_transform
from streamhalf.errors import DataError
from streamhalf.results import Transform, TransformRecord, replace
from streamhalf.testing import check_transform


def random_matrix(dim: int) -> np.ndarray:
    return np.random.default_rng(dim).standard_normal((dim, dim)) + 2 * np.eye(dim)


EXAMPLES: dict[str, Callable[[int], RowTransform]] = {
    "stored": lambda dim: Identity(),
    "isotropic": lambda dim: Isotropic(np.linspace(-1.0, 2.0, dim), random_matrix(dim)),
    "radial": lambda dim: Radial(np.linspace(-1.0, 2.0, dim), random_matrix(dim), seed=3, at_centre=0.25),
    "radial about the origin": lambda dim: Radial(np.zeros(dim), np.eye(dim), 1),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_transform__obeys_the_laws(example: Callable[[int], RowTransform]) -> None:
    check_transform(example, through_origin=isinstance(example(1), Radial))


def test_radial__keeps_no_halfspaces_beside_the_centre() -> None:
    with pytest.raises((AssertionError, ValueError), match=r"changed sides|threshold"):
        check_transform(EXAMPLES["radial"])


def test_registry__makes_every_transform_from_its_record() -> None:
    found = [make_transform(example(2).record) for example in EXAMPLES.values()]
    assert {type(one) for one in found} == set(TRANSFORMS)
    assert [one.record for one in found] == [example(2).record for example in EXAMPLES.values()]
    assert Identity().record == TransformRecord(Transform.STORED, (), ())


def test_row_map__of_no_known_kind_is_named() -> None:
    with pytest.raises(DataError, match="transform: 'askew' is unknown; expected one of stored"):
        make_transform(TransformRecord("askew"))


@pytest.mark.parametrize("kind", ["isotropic", "radial"])
def test_from_record__refuses_what_no_run_has_written(kind: str) -> None:
    record = EXAMPLES[kind](4).record
    for changes in ({"centre": record.centre[:2]}, {"matrix": record.matrix[:3]}, {"matrix": ()}):
        with pytest.raises(DataError, match=r"transform: matrix .* does not fit \d features"):
            make_transform(replace(record, **changes))
    if kind == "radial":
        with pytest.raises(DataError, match="transform: a radial one has a seed"):
            make_transform(replace(record, seed=None))
