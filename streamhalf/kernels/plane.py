"""The plane that bounds a halfspace sgn(normal·x - threshold), in one space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import frozen, margins

_SHORT = 1e-140


def on_positive_side(margin: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Return True where sgn is +1, with sgn(0) = +1: the one home of that rule."""
    return np.asarray(margin >= 0)


def are_wrong(margin: NDArray[np.floating[Any]], y: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Return True where sgn of a margin is not the label, row by row (the last axis)."""
    return np.asarray(on_positive_side(margin) != (y > 0))


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """{x : normal·x = threshold}; the halfspace is the side that the normal points to.

    The normal may have any length but 0, so that a row that lies exactly on the plane as it was given stays on it;
    `unit` is the same plane at length 1.
    """

    normal: NDArray[np.float64]
    threshold: float = 0.0

    @property
    def dim(self) -> int:
        """Features of the space."""
        return len(self.normal)

    @property
    def length(self) -> float:
        """Length of the normal."""
        with np.errstate(over="ignore", under="ignore"):
            plain = float(np.linalg.norm(self.normal))
        if _SHORT < plain < 1 / _SHORT:
            return plain
        largest = float(np.abs(self.normal).max(initial=0.0))  # squares overflow or vanish
        if not 0 < largest < math.inf:
            return largest
        return largest * float(np.linalg.norm(self.normal / largest))

    def unit(self) -> Plane:
        """The same plane with a normal of length 1; one without a normal gets the first axis."""
        if (length := self.length) > 0:
            return Plane(self.normal / length, self.threshold / length)
        return Plane(np.eye(self.dim)[0], self.threshold)

    def moved_to(self, point: NDArray[np.float64]) -> Plane:
        """The parallel plane through a point."""
        return Plane(self.normal, float(self.normal @ point))

    def margins(self, X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """normal·x - threshold of every row, in float64: a threshold may cancel most of it."""
        return margins(X, self.normal) - self.threshold

    def signs(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int8]:
        """+1 or -1 for every row."""
        return np.where(on_positive_side(self.margins(X)), np.int8(1), np.int8(-1))

    def errors(self, X: NDArray[np.floating[Any]], y: NDArray[np.int8]) -> int:
        """How many rows the halfspace gets wrong."""
        return int(np.count_nonzero(are_wrong(self.margins(X), y)))

    def find_wrong(
        self, X: NDArray[np.floating[Any]], y: NDArray[np.int8]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Which rows the halfspace gets wrong, and their margins."""
        from streamhalf.kernels import loops

        places, along = np.empty(len(X) + 1, dtype=np.int64), np.empty(len(X) + 1)
        normal = np.array(self.normal, dtype=np.float64)
        n = loops.find_wrong(frozen(X), frozen(y), normal, float(self.threshold), places, along)
        return places[:n].copy(), along[:n].copy()

    def angle_to(self, other: Plane) -> float:
        """Angle between the normals, accurate also where it is small."""
        left, right = self.unit().normal, other.unit().normal
        return 2 * math.atan2(float(np.linalg.norm(left - right)), float(np.linalg.norm(left + right)))


def stack_planes(planes: Sequence[Plane]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normals (c, d) and thresholds (c,) of several planes."""
    normals = np.array([plane.normal for plane in planes])
    return normals, np.array([plane.threshold for plane in planes])
