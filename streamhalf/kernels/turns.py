"""How far a plane has to turn before a row lies on its other side.

About the foot of the origin, t v, the plane (v, t) reaches x once it has turned by the angle whose tangent is |v·x - t|
/ |x_perp|. Its sine is the normalised margin: |v·x| / |x| where t is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.plane import Plane

_ROUNDING = 1e-12  # share of a squared length that rounding may hide; it is counted against agreement
_UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """The angles of one plane in the transform x -> matrix·(x - centre), where angles are measured.

    Parameters
    ----------
    plane
        Of the stored rows.
    centre, matrix
        The transform: (d,), and (d, d) or, where it scales features, (d,); 0 for constant ones.
    length, threshold
        Of the plane's normal in the transform, and its threshold there at length 1.
    angle, shift
        How far halfspaces may turn, and by how much their thresholds (at normals of length 1, in the transform) may
        differ: those that agreement is about. Without an angle no row is agreed.
    """

    plane: Plane
    centre: NDArray[np.float64]
    matrix: NDArray[np.float64]
    length: float
    threshold: float
    angle: float | None = None
    shift: float = 0.0

    @classmethod
    def of(cls, plane: Plane, centre: NDArray[np.float64], matrix: NDArray[np.float64]) -> Turns:
        """For a plane of the stored rows; no row is agreed."""
        if matrix.ndim == 1:
            # where nothing moves nothing turns: such a weight is a part of the threshold
            still = np.zeros_like(plane.normal)
            normal = np.divide(plane.normal, matrix, out=still, where=matrix > 0)
        else:
            # not every transform can be undone, but a plane that came out of it can be put back
            normal = np.asarray(np.linalg.lstsq(matrix.T, plane.normal, rcond=None)[0], np.float64)
        length = float(np.linalg.norm(normal)) or 1.0
        threshold = plane.threshold - float(plane.normal @ centre)
        return cls(plane, centre, matrix, length, threshold / length)

    def measure(
        self, X: NDArray[np.floating[Any]], margins: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """For rows with these margins: sines of the angles, and whether every halfspace agrees.

        With w = cos(a) v + sin(a) u of length 1 and a threshold t', w·x - t' is cos(a) (v·x - t) + sin(a) u·x_perp + (t
        - t') - (1 - cos(a)) t. So all halfspaces with a <= A and |t - t'| <= S say the same of a row where |v·x - t| >
        (S + (1 - cos A) |t|) / cos A + tan(A) |x_perp|.
        """
        signed, squares = margins / self.length, self._squares(X)
        distances = np.abs(signed)
        across = np.maximum(squares - (signed + self.threshold) ** 2, 0.0)
        radii = np.hypot(distances, np.sqrt(across))
        sines = np.divide(distances, radii, out=np.zeros_like(radii), where=radii > 0)
        if self.angle is None:
            return sines, np.zeros(len(sines), dtype=np.bool_)
        cosine, turned = math.cos(self.angle), 2 * math.sin(self.angle / 2) ** 2
        reach = (self.shift + turned * abs(self.threshold)) / cosine
        lost = self._lost(X)
        widest = lost + np.sqrt(across + _ROUNDING * (squares + self.threshold**2))
        return sines, distances - lost > reach + math.tan(self.angle) * widest

    def _lost(self, X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return a bound on rounding of margins and lengths in the transform, row by row."""
        columns = np.abs(self.matrix) if self.matrix.ndim == 1 else _lengths(self.matrix)
        sizes = np.einsum("ij,j->i", np.abs(X).astype(np.float64), columns)
        sizes += float(np.abs(self.centre) @ columns)
        return np.asarray((len(columns) + 4) * _UNIT * sizes)

    def _squares(self, X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Squared length of every row in the transform, summed row by row."""
        centred = X.astype(np.float64) - self.centre
        if self.matrix.ndim == 1:
            centred *= self.matrix
            return np.asarray(np.einsum("ij,ij->i", centred, centred))
        total = np.zeros(len(X))
        for row in self.matrix:
            total += np.einsum("ij,j->i", centred, row) ** 2
        return total


def _lengths(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the columns."""
    return np.asarray(np.linalg.norm(matrix, axis=0), dtype=np.float64)
