"""The plane that bounds a halfspace sgn(normal·x - threshold), in one space."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import rough_margins, wide_margins

_SUB_BATCH = 16_384
_SHORT = 1e-140


def on_positive_side(margin: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Whether sgn is +1, with sgn(0) = +1: the one home of that rule."""
    return np.asarray(margin >= 0)


def are_wrong(margin: NDArray[np.floating[Any]], y: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Whether sgn of a margin is not the label, row by row (the last axis)."""
    return np.asarray(on_positive_side(margin) != (y > 0))


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """{x : normal·x = threshold}; the halfspace is the side that the normal points to.

    The normal may have any length but 0, so that a row that lies exactly on the plane as it was
    given stays on it; `unit` is the same plane at length 1.
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
        return wide_margins(X, self.normal) - self.threshold

    def signs(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int8]:
        """+1 or -1 for every row."""
        return np.where(on_positive_side(self.margins(X)), np.int8(1), np.int8(-1))

    def errors(self, X: NDArray[np.floating[Any]], y: NDArray[np.int8]) -> int:
        """How many rows the halfspace gets wrong."""
        return int(np.count_nonzero(are_wrong(self.margins(X), y)))

    def find_wrong(
        self, X: NDArray[np.floating[Any]], y: NDArray[np.int8]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Which rows the halfspace gets wrong, and their margins.

        Margins in the rows' precision, by BLAS and in pieces for the cache, settle which rows are
        right beyond rounding; those of the others are taken as `margins` takes them. Where few are
        wrong it is twice as fast.
        """
        starts = range(0, max(1, len(X)), _SUB_BATCH)
        windows = [slice(start, start + _SUB_BATCH) for start in starts]
        near = np.concatenate([one.start + self._unsettled(X[one], y[one]) for one in windows])
        margins = self.margins(np.take(X, near, axis=0))
        wrong = are_wrong(margins, y[near])
        return near[wrong], margins[wrong]

    def _unsettled(self, X: NDArray[np.floating[Any]], y: NDArray[np.int8]) -> NDArray[np.intp]:
        """The rows that are not right, or not beyond rounding."""
        kind, scale = np.finfo(X.dtype), float(np.abs(self.normal).max())
        unit, threshold = self.normal / scale, self.threshold / scale
        largest = max(float(X.max(initial=0)), -float(X.min(initial=0)))
        reach = largest * float(np.abs(unit).sum()) + abs(threshold)
        if not reach < float(kind.max) / 8:
            return np.arange(len(X))
        slack = 2 * (self.dim + 4) * float(kind.eps) * reach + self.dim * float(kind.tiny)
        rough = X @ unit.astype(X.dtype) - X.dtype.type(threshold)
        return np.flatnonzero(~(rough * y > X.dtype.type(slack)))

    def angle_to(self, other: Plane) -> float:
        """Angle between the normals, accurate also where it is small."""
        left, right = self.unit().normal, other.unit().normal
        return 2 * math.atan2(
            float(np.linalg.norm(left - right)), float(np.linalg.norm(left + right))
        )


def wrong_rows(
    planes: Sequence[Plane], X: NDArray[np.floating[Any]], y: NDArray[np.int8]
) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
    """Which rows each of several halfspaces gets wrong, (c, m) of piece after piece of the rows.

    One product in the rows' precision settles all rows but those that lie within its rounding of a
    plane; the margins of these are taken as `Plane.margins` takes them. So the answer does not
    depend on how BLAS rounds, which changes with a row's place in memory.
    """
    normals = np.array([plane.normal for plane in planes])
    thresholds = np.array([plane.threshold for plane in planes])
    scales = np.maximum(np.abs(normals).max(axis=1), np.abs(thresholds))
    found = rough_margins(X, normals / scales[:, None], thresholds / scales)
    for window, rough, slack in found:
        wrong = are_wrong(rough, y[window])
        with np.errstate(over="ignore", invalid="ignore"):
            np.abs(rough, out=rough)
            room = slack.astype(X.dtype)
            # what is not a number is not above anything, and is looked at again
            close = ~(rough.min(axis=1, initial=np.inf) > room)
        for i in np.flatnonzero(close).tolist():
            near = np.flatnonzero(~(rough[i] > room[i]))
            margins = planes[i].margins(np.take(X, window.start + near, axis=0))
            wrong[i, near] = are_wrong(margins, y[window][near])
        yield window, wrong
