"""Centred rows whose spread is the same in every direction: x -> W (x - mean)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.transforms.base import involved, name_features, require_more_rows, rounding_of
from streamhalf.errors import DataError, TransformError
from streamhalf.kernels.margins import transform_rows
from streamhalf.kernels.plane import Plane
from streamhalf.results import Transform, TransformRecord

_LEAST_RELATIVE_VARIANCE = 1e-10
"""Below this share of the largest (scaled) variance a direction counts as constant."""

_LEAST_RELATIVE_SPREAD = 1e-10
"""Below this share of its mean a feature's spread is rounding, not data: a mean of 2**18 rows,
summed one after the other, is right to 2**18 units in the last place."""


def find_varying(mean: NDArray[np.float64], spread: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which features are not constant, by their means and standard deviations."""
    return np.asarray(spread > _LEAST_RELATIVE_SPREAD * np.abs(mean))


@dataclass(frozen=True, slots=True, eq=False)
class Isotropic:
    """Mean (d,) and W (d, d), both float64: W covariance W^T is the identity.

    W is the inverse root of the correlation matrix times the inverse scales of the features, so
    it is not symmetric unless they are all alike.
    """

    mean: NDArray[np.float64]
    matrix: NDArray[np.float64]

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
        """The map from plain numbers."""
        mean, matrix = np.array(record.centre), np.array(record.matrix)
        if matrix.shape != (len(mean), len(mean)) or not np.isfinite(matrix).all():
            raise DataError(f"transform: matrix {matrix.shape} does not fit {len(mean)} features")
        return cls(mean, matrix)

    def apply(self, block: Block) -> Block:
        """Whiten rows; centring happens in float64, because a mean may dwarf the spread."""
        X = transform_rows(block.X, self.mean, self.matrix, block.X.dtype)
        return Block(X, block.y, block.rows)

    def to_stored(self, plane: Plane) -> Plane:
        """W^T w, with the threshold moved by the mean."""
        normal = self.matrix.T @ plane.normal
        return Plane(normal, plane.threshold + float(normal @ self.mean))

    def to_transformed(self, plane: Plane) -> Plane:
        """W^-T w, with the threshold moved back; rows may lie in a subspace that W keeps."""
        normal = np.linalg.pinv(self.matrix).T @ plane.normal
        return Plane(normal, plane.threshold - float(plane.normal @ self.mean))

    @property
    def rounding(self) -> float:
        """That of W (x - mean)."""
        return rounding_of(self.matrix)

    @property
    def record(self) -> TransformRecord:
        """Mean and matrix as plain numbers."""
        rows = tuple(tuple(row) for row in self.matrix.tolist())
        return TransformRecord(self.kind, tuple(self.mean.tolist()), rows)
