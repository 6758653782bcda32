"""x -> W (x - mu) as a lazy transform of blocks, and the way back for a halfspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.errors import DataError
from streamhalf.records import Halfspace, WhiteningRecord

_LEAST_RELATIVE_VARIANCE = 1e-10
"""Below this share of the largest (scaled) variance a direction counts as constant."""

_LEAST_RELATIVE_SPREAD = 1e-10
"""Below this share of its mean a feature's spread is rounding, not data: a mean of 2**18 rows,
summed one after the other, is right to 2**18 units in the last place."""


_NOTICEABLE = 0.05
"""Share of the largest weight in a null direction from which a feature has a part in it."""

_MOST_NAMED = 8


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Mean (d,) and symmetric matrix W = covariance^{-1/2} (d, d), both float64."""

    mean: NDArray[np.float64]
    matrix: NDArray[np.float64]

    @classmethod
    def from_moments(cls, mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> Whitening:
        """Build the map from the estimated mean and covariance of the raw features."""
        scale = np.sqrt(np.diag(covariance))
        if (constant := np.flatnonzero(~(scale > _LEAST_RELATIVE_SPREAD * np.abs(mean)))).size:
            first = int(constant[0])
            raise DataError(
                f"whitening: feature {first + 1} is constant (standard deviation "
                f"{scale[first]:.2g} around {mean[first]:.6g}); remove it"
            )
        correlation = covariance / np.outer(scale, scale)
        values, vectors = np.linalg.eigh(correlation)
        if values[0] < _LEAST_RELATIVE_VARIANCE * values[-1]:
            names = _involved(vectors[:, 0])
            raise DataError(
                f"whitening: features are linearly dependent (smallest eigenvalue of the "
                f"correlation matrix {values[0]:.2g}, limit "
                f"{_LEAST_RELATIVE_VARIANCE * values[-1]:.2g}); look at features {names} and "
                "remove one of them"
            )
        inverse_root = (vectors / np.sqrt(values)) @ vectors.T
        return cls(mean=mean, matrix=inverse_root / scale)

    def apply(self, X: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Whiten rows; centring happens in float64, because a raw mean may dwarf the spread."""
        centred = X.astype(np.float64) - self.mean
        return (centred @ self.matrix.T).astype(X.dtype)

    @property
    def record(self) -> WhiteningRecord:
        """The map as plain numbers."""
        return WhiteningRecord(
            tuple(self.mean.tolist()), tuple(tuple(row) for row in self.matrix.tolist())
        )

    @classmethod
    def from_record(cls, record: WhiteningRecord) -> Whitening:
        """The map from plain numbers."""
        mean, matrix = np.array(record.mean), np.array(record.matrix)
        if matrix.shape != (len(mean), len(mean)) or not np.isfinite(matrix).all():
            raise DataError(f"whitening: matrix {matrix.shape} does not fit {len(mean)} features")
        return cls(mean, matrix)

    def from_raw(self, halfspace: Halfspace) -> tuple[NDArray[np.float64], float]:
        """Normal and offset on whitened features of a halfspace on raw ones."""
        raw = np.array(halfspace.normal)
        normal: NDArray[np.float64] = np.linalg.solve(self.matrix.T, raw)
        return normal, halfspace.offset + float(raw @ self.mean)

    def to_raw(self, normal: NDArray[np.float64]) -> Halfspace:
        """The halfspace on raw features that equals sgn(normal·z) on whitened ones."""
        raw = self.matrix.T @ normal
        return Halfspace(tuple(float(a) for a in raw), float(-raw @ self.mean))


def _involved(null: NDArray[np.float64]) -> str:
    """The features with a noticeable weight in a null direction, numbered from 1."""
    weights = np.abs(null)
    found = [int(j) + 1 for j in np.flatnonzero(weights > _NOTICEABLE * weights.max())]
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return ", ".join(str(j) for j in found[:_MOST_NAMED]) + more
