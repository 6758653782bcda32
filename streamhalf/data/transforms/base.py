"""A row map: a lazy change of the rows that moves no row to the other side of any halfspace."""

from __future__ import annotations

import math
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.plane import Plane
from streamhalf.results import TransformRecord


class RowTransform(Protocol):
    """Rows as they are stored in, rows in another transform out.

    `streamhalf.testing.check_transform` states what every map obeys: a whole block goes in and comes
    out, with its row numbers (so a map may draw from them), whatever the chunking; a plane that
    comes back through `to_stored` gets the same rows wrong.
    """

    kind: ClassVar[str]
    """What records call it."""

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
