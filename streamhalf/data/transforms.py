"""Row transforms: lazy changes of rows that keep every row on its side of any halfspace.

`TRANSFORMS` is the registry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.errors import DataError, TransformError
from streamhalf.kernels.margins import margins, row_lengths, transform_rows
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.streams import Stream, chi_radii, turns_at, uniforms_at
from streamhalf.results import Transform, TransformRecord

_NOTICEABLE = 0.05  # Share of the largest weight in a direction from which a feature has a part in it
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
    def from_record(cls, record: TransformRecord) -> Self: ...

    def apply(self, block: Block) -> Block: ...

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
    def record(self) -> TransformRecord: ...


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
    rounding: ClassVar[float] = 0.0

    @classmethod
    def from_record(cls, record: TransformRecord) -> Self:
        return cls()

    def apply(self, block: Block) -> Block:
        return block

    def to_stored(self, plane: Plane) -> Plane:
        return plane

    def to_transformed(self, plane: Plane) -> Plane:
        return plane

    @property
    def record(self) -> TransformRecord:
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


_LEAST_RELATIVE_VARIANCE = 1e-10  # Below this share of the largest (scaled) variance a direction counts as constant
# Below this share of its mean a feature's spread is rounding, not data: a mean of 2**18 rows, summed one after the
# other, is right to 2**18 units in the last place
_LEAST_RELATIVE_SPREAD = 1e-10


def find_varying(mean: NDArray[np.float64], spread: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which features are not constant, by their means and standard deviations."""
    return np.asarray(spread > _LEAST_RELATIVE_SPREAD * np.abs(mean))


@dataclass(frozen=True, slots=True, eq=False)
class _Affine:
    centre: NDArray[np.float64]
    matrix: NDArray[np.float64]

    kind: ClassVar[str]

    @property
    def rounding(self) -> float:
        return rounding_of(self.matrix)

    @property
    def record(self) -> TransformRecord:
        return TransformRecord(self.kind, tuple(self.centre.tolist()), tuple(map(tuple, self.matrix.tolist())))


def _centre_and_matrix(record: TransformRecord) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    centre, matrix = np.array(record.centre), np.array(record.matrix)
    if matrix.shape != (len(centre), len(centre)) or not np.isfinite(matrix).all():
        raise DataError(f"transform: matrix {matrix.shape} does not fit {len(centre)} features")
    return centre, matrix


@dataclass(frozen=True, slots=True, eq=False)
class Isotropic(_Affine):
    """Centre, the mean (d,), and W (d, d), both float64: W covariance W^T is the identity.

    W is the inverse root of the correlation matrix times the inverse scales of the features, so
    it is not symmetric unless they are all alike.
    """

    kind: ClassVar[str] = Transform.ISOTROPIC.value

    @classmethod
    def from_rows(cls, X: NDArray[np.float64], *, strict: bool = True) -> Isotropic:
        """The map for the mean and the covariance of rows in memory."""
        dim = X.shape[1]
        covariance = np.cov(X, rowvar=False, bias=True).reshape(dim, dim)
        return cls.from_moments(X.mean(axis=0), covariance, n_rows=len(X), strict=strict)

    @classmethod
    def from_moments(
        cls,
        mean: NDArray[np.float64],
        covariance: NDArray[np.float64],
        *,
        n_rows: int,
        strict: bool = True,
        columns: tuple[str, ...] = (),
    ) -> Isotropic:
        """The map for the mean and the covariance of `n_rows` rows.

        Constant and linearly dependent features are refused by name (`columns`, if they have any),
        as are no more rows than features; unless `strict`, they are mapped to 0.
        """
        spread = np.sqrt(np.diag(covariance))
        varies = find_varying(mean, spread)
        if strict and not varies.all():
            first = int(np.flatnonzero(~varies)[0])
            raise TransformError(
                f"whitening: feature {name_features((first,), columns)} is constant (standard "
                f"deviation {spread[first]:.2g} around {mean[first]:.6g}); remove it",
                tuple(int(j) for j in np.flatnonzero(~varies)),
                constant=True,
            )
        if strict:
            require_more_rows("whitening", n_rows, len(mean))
        scale = np.where(varies, spread, np.inf)
        values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        least = _LEAST_RELATIVE_VARIANCE * max(float(values[-1]), np.finfo(np.float64).tiny)
        kept = values > least
        if strict and not kept.all():
            features = involved(vectors[:, 0])
            raise TransformError(
                f"whitening: features are linearly dependent (smallest eigenvalue of the "
                f"correlation matrix {values[0]:.2g}, limit {least:.2g}); look at features "
                f"{name_features(features, columns)} and remove one of them",
                features,
            )
        inverse_root = (vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
        inverse_root[~varies] = 0.0  # exactly: eigenvectors of different LAPACKs round differently
        return cls(mean, inverse_root / scale)

    @classmethod
    def from_record(cls, record: TransformRecord) -> Self:
        return cls(*_centre_and_matrix(record))

    def apply(self, block: Block) -> Block:
        """Whiten rows; centring happens in float64, because a mean may dwarf the spread."""
        X = transform_rows(block.X, self.centre, self.matrix, block.X.dtype)
        return Block(X, block.y, block.rows)

    def to_stored(self, plane: Plane) -> Plane:
        normal = self.matrix.T @ plane.normal
        return Plane(normal, plane.threshold + float(normal @ self.centre))

    def to_transformed(self, plane: Plane) -> Plane:
        """W^-T w, with the threshold moved back; rows may lie in a subspace that W keeps."""
        normal = np.linalg.pinv(self.matrix).T @ plane.normal
        return Plane(normal, plane.threshold - float(plane.normal @ self.centre))


_SUB_BATCH = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Radial(_Affine):
    """Centre c (d,) and W (d, d), both float64: (x, y) goes to (s a W (x - c), s y).

    a > 0 gives the row the length of an N(0, I) one, s is a fair sign; both are drawn from `seed`
    and the number of the row. If x is elliptical about c with shape (W^T W)^-1, the new row is
    N(0, I), whatever the distribution of |x|. Halfspaces through c, and only those, keep their errors.

    A row at the centre stays at 0 with its label. `at_centre` is their share, for the record.
    """

    seed: int
    at_centre: float = 0.0

    kind: ClassVar[str] = Transform.RADIAL.value

    @classmethod
    def from_record(cls, record: TransformRecord) -> Self:
        if record.seed is None:
            raise DataError("transform: a radial one has a seed, and this has none; write it anew")
        return cls(*_centre_and_matrix(record), record.seed, record.at_centre)

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
            raise DataError("transform: singular matrix; the result file is invalid") from error
        return Plane(normal)

    @property
    def record(self) -> TransformRecord:
        return structs.replace(self.affine().record, kind=self.kind, seed=self.seed, at_centre=self.at_centre)


TRANSFORMS: tuple[type[RowTransform], ...] = (Identity, Isotropic, Radial)


def make_transform(record: TransformRecord) -> RowTransform:
    """Return the transform that a record describes."""
    known = {kind.kind: kind for kind in TRANSFORMS}
    if record.kind not in known:
        raise DataError(f"transform: {record.kind!r} is unknown; expected one of {', '.join(known)}")
    return known[record.kind].from_record(record)
