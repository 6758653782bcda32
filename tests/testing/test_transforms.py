"""The check of row maps: it passes what is right, and finds every way to be wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.results import TransformRecord
from streamhalf.testing import check_transform


@dataclass(frozen=True, eq=False)
class Scaled:
    """x -> s (x - c), feature by feature."""

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]

    def apply(self, block: Block) -> Block:
        X = (block.X.astype(np.float64) - self.centre) * self.scale
        return Block(X.astype(block.X.dtype), block.y, block.rows)

    def to_stored(self, plane: Any) -> Any:
        normal = plane.normal * self.scale
        return SimpleNamespace(normal=normal, threshold=plane.threshold + normal @ self.centre)

    def to_transformed(self, plane: Any) -> Any:
        normal, moved = plane.normal / self.scale, plane.normal @ self.centre
        return SimpleNamespace(normal=normal, threshold=plane.threshold - moved)

    @classmethod
    def from_record(cls, record: TransformRecord) -> Any:
        return cls(np.array(record.centre), np.array(record.matrix[0]))

    @property
    def record(self) -> TransformRecord:
        return TransformRecord("scaled", tuple(self.centre.tolist()), (tuple(self.scale.tolist()),))


class Reflected(Scaled):
    """Also turns every second row, with its label, to the opposite point."""

    def apply(self, block: Block) -> Block:
        turn = np.where(block.rows % 2 == 0, np.int8(1), np.int8(-1))
        return Block(block.X * turn[:, None], block.y * turn, block.rows)

    def to_stored(self, plane: Any) -> Any:
        return plane

    to_transformed = to_stored


class Forgetful(Scaled):
    @classmethod
    def from_record(cls, record: TransformRecord) -> Any:
        return cls(np.zeros(len(record.centre)), np.ones(len(record.centre)))


class Widening(Scaled):
    def apply(self, block: Block) -> Block:
        return replace(super().apply(block), X=block.X.astype(np.float64))


class Mutating(Scaled):
    def apply(self, block: Block) -> Block:
        block.X[:] += 1
        return super().apply(block)


class ByChunk(Scaled):
    def apply(self, block: Block) -> Block:
        mean = block.X.mean(axis=0) if block.n_rows else 0.0
        return replace(super().apply(block), X=block.X - mean)


class Dropping(Scaled):
    def apply(self, block: Block) -> Block:
        return super().apply(block).select(block.rows % 2 == 0)


class Doubting(Scaled):
    def apply(self, block: Block) -> Block:
        return replace(block, y=np.zeros_like(block.y))


class Relabelling(Scaled):
    def apply(self, block: Block) -> Block:
        return replace(super().apply(block), y=-block.y)


class WrongWayBack(Scaled):
    def to_stored(self, plane: Any) -> Any:
        return plane


class WrongWayThere(Scaled):
    def to_transformed(self, plane: Any) -> Any:
        return plane


class Unpicklable(Scaled):
    def __reduce__(self) -> Any:
        raise TypeError("never")


class Flat(Scaled):
    def apply(self, block: Block) -> Block:
        return replace(block, X=np.zeros_like(block.X))


def example(kind: type[Scaled], dim: int) -> Scaled:
    return kind(np.arange(1.0, dim + 1), np.linspace(0.5, 3.0, dim))


def test_check_row_map__passes_what_is_right() -> None:
    check_transform(lambda dim: example(Scaled, dim))
    check_transform(lambda dim: Reflected(np.zeros(dim), np.ones(dim)), through_origin=True)
    check_transform(lambda dim: example(Scaled, dim), through_origin=True)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Mutating, "read-only"),
        (Forgetful, "made from its record"),
        (Widening, "another precision"),
        (ByChunk, "X: chunked|changed sides"),
        (Dropping, "row numbers"),
        (Doubting, "a label is not ±1"),
        (Relabelling, "a row changed sides"),
        (WrongWayBack, "a row changed sides"),
        (WrongWayThere, "a row changed sides"),
        (Unpicklable, "never"),
        (Reflected, "a row changed sides"),
    ],
)
def test_check_row_map__finds_what_is_wrong(kind: type[Scaled], words: str) -> None:
    with pytest.raises((AssertionError, TypeError, ValueError), match=words):
        check_transform(lambda dim: example(kind, dim))


def test_check_row_map__is_never_vacuous() -> None:
    flat = Flat(np.zeros(2), np.ones(2))
    with pytest.raises(AssertionError, match="no side was looked at"):
        check_transform(flat, dims=(2,), through_origin=True)
