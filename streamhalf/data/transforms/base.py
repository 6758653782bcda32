"""Row transforms: lazy changes of rows that keep every row on its side of any halfspace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.errors import TransformError
from streamhalf.kernels.plane import Plane
from streamhalf.results import Transform, TransformRecord

_NOTICEABLE = 0.05
"""Share of the largest weight in a direction from which a feature has a part in it."""

_MOST_NAMED = 8


class RowTransform(Protocol):
    """Rows as they are stored in, rows in another transform out.

    `streamhalf.testing.check_transform` states what every transform obeys: a whole block goes in
    and comes out with its row numbers, whatever the chunking; a plane that comes back through
    `to_stored` gets the same rows wrong.
    """

    kind: ClassVar[str]
    """Its name in records."""

    @classmethod
    def from_record(cls, record: TransformRecord) -> Self:
        """The map that a record of this kind describes."""
        ...

    def apply(self, block: Block) -> Block:
        """The rows in this transform, mutating nothing."""
        ...

    def to_stored(self, plane: Plane) -> Plane:
        """The plane among stored rows whose image in this transform is `plane`."""
        ...

    def to_transformed(self, plane: Plane) -> Plane:
        """The image in this transform of a plane among stored rows."""
        ...

    @property
    def rounding(self) -> float:
        """How far float64 rows of this transform may be from exact ones, over their length.

        Exact but for a positive factor, where the map draws lengths.
        """
        ...

    @property
    def record(self) -> TransformRecord:
        """The map as plain numbers, from which `from_record` makes it again."""
        ...


def rounding_of(matrix: NDArray[np.float64]) -> float:
    """How far W (x - c) in float64 may be from the exact one, over its length; inf if unknown.

    Sums of d products of rounded differences are off by at most (d + 1) u |W| |x - c| to first
    order, u = 2^-53 (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1); two
    more roundings leave room for a drawn length. With the columns of V those of W at length 1,
    |W| |x - c| is at most |V| |V^-1| |W (x - c)| in norms of Frobenius. Of V^-1 an approximation Y
    is known, and |V^-1| is at most |Y| / (1 - |I - Y V|).
    """
    dim, lengths = len(matrix), np.linalg.norm(matrix, axis=0)
    if not (np.isfinite(lengths).all() and lengths.all()):
        return math.inf
    unit = matrix / lengths
    try:
        inverse = np.linalg.inv(unit)
    except np.linalg.LinAlgError:
        return math.inf
    size = float(np.linalg.norm(inverse)) * math.sqrt(dim)
    u = 2.0**-53
    off = float(np.linalg.norm(np.eye(dim) - inverse @ unit)) + 2 * (dim + 2) * u * size
    # twice, for products of errors and what these few lines round
    return 2 * (dim + 3) * u * size / (1 - off) if off < 0.5 else math.inf


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


def involved(direction: NDArray[np.float64]) -> tuple[int, ...]:
    """The features with a noticeable weight in a direction, numbered from 0."""
    weights = np.abs(direction)
    return tuple(int(j) for j in np.flatnonzero(weights > _NOTICEABLE * weights.max()))


def name_features(features: tuple[int, ...], columns: tuple[str, ...] = ()) -> str:
    """Features for a user, who counts from 1, with their names where they have any."""
    more = f" and {len(features) - _MOST_NAMED} more" if len(features) > _MOST_NAMED else ""
    named = (f"{j + 1} {columns[j]!r}" if columns else str(j + 1) for j in features[:_MOST_NAMED])
    return ", ".join(named) + more


def require_more_rows(transform: str, n_rows: int, dim: int) -> None:
    """Refuse no more rows than features: any features look linearly dependent on so few."""
    if n_rows <= dim:
        raise TransformError(
            f"{transform}: {n_rows:,} rows cannot tell how {dim:,} features are correlated; gather "
            f"more rows than features, or take the transform 'stored'"
        )
