"""Rows whose directions are spread evenly about a centre, at distances and signs drawn anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.transforms.base import rounding_of
from streamhalf.data.transforms.isotropic import Isotropic
from streamhalf.errors import DataError
from streamhalf.kernels.margins import margins, transform_rows
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.radii import chi_radii, row_lengths, turns_at
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.results import Transform, TransformRecord

_SUB_BATCH = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Radial:
    """Centre c (d,) and W (d, d), both float64: (x, y) goes to (s a W (x - c), s y).

    a > 0 gives the row the length of an N(0, I) one, s is a fair sign; both are drawn from `seed`
    and the number of the row. If x is elliptical about c with shape (W^T W)^-1, the new row is
    N(0, I), whatever the distribution of |x|. Halfspaces through c, and only those, keep their errors.

    A row at the centre stays at 0 with its label. `at_centre` is their share, for the record.
    """

    centre: NDArray[np.float64]
    matrix: NDArray[np.float64]
    seed: int
    at_centre: float = 0.0

    kind: ClassVar[str] = Transform.RADIAL.value

    @classmethod
    def from_record(cls, record: TransformRecord) -> Self:
        """The map from plain numbers."""
        centre, matrix = np.array(record.centre), np.array(record.matrix)
        if matrix.shape != (len(centre), len(centre)) or not np.isfinite(matrix).all():
            raise DataError(f"transform: matrix {matrix.shape} does not fit {len(centre)} features")
        if record.seed is None:
            raise DataError("transform: a radial one has a seed, and this has none; write it anew")
        return cls(centre, matrix, record.seed, record.at_centre)

    def apply(self, block: Block) -> Block:
        """Turn, then draw length and sign, all in float64, because a centre may dwarf the rest."""
        X, y = np.empty_like(block.X), np.empty_like(block.y)
        for start in range(0, block.n_rows, _SUB_BATCH):
            window = slice(start, start + _SUB_BATCH)
            piece = transform_rows(block.X[window], self.centre, self.matrix)
            rows = block.rows[window]
            lengths = row_lengths(piece)
            away = lengths > 0
            turns = turns_at(self.seed, rows) & away
            radii = chi_radii(uniforms_at(self.seed, Stream.RADII, rows), block.dim)
            factors = np.where(away, radii, 0.0) / np.where(away, lengths, 1.0)
            np.negative(factors, out=factors, where=turns)
            np.multiply(piece, factors[:, None], out=piece)
            X[window], y[window] = piece, np.where(turns, -block.y[window], block.y[window])
        return Block(X, y, block.rows)

    def affine(self) -> Isotropic:
        """The same with lengths and signs as they are: every halfspace keeps its errors."""
        return Isotropic(self.centre, self.matrix)

    def to_stored(self, plane: Plane) -> Plane:
        """W^T w through the centre; other planes have no counterpart among stored rows."""
        if plane.threshold != 0:
            raise ValueError(
                f"plane: threshold {plane.threshold:g} in radial transform; only planes through "
                "the centre (threshold 0) come back"
            )
        normal = self.matrix.T @ plane.normal
        # summed as margins are, so that a row at the centre is on the plane exactly
        return Plane(normal, float(margins(self.centre[None], normal)[0]))

    def to_transformed(self, plane: Plane) -> Plane:
        """W^-T w: the image of the plane, or of its parallel through the centre."""
        try:
            normal = np.asarray(np.linalg.solve(self.matrix.T, plane.normal), dtype=np.float64)
        except np.linalg.LinAlgError as error:
            raise DataError("transform: the matrix has no inverse, so it is of no run") from error
        return Plane(normal)

    @property
    def rounding(self) -> float:
        """That of W (x - c): any length above 0 will do."""
        return rounding_of(self.matrix)

    @property
    def record(self) -> TransformRecord:
        """Centre, matrix and seed as plain numbers."""
        rows = tuple(tuple(row) for row in self.matrix.tolist())
        centre = tuple(self.centre.tolist())
        return TransformRecord(self.kind, centre, rows, self.seed, self.at_centre)
