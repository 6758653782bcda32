"""The plane that bounds a halfspace sgn(normal·x - threshold), localisation about it (Algorithm 4), and its turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf import kernels
from streamhalf.kernels.margins import frozen, margins, padded

Rows = NDArray[np.floating[Any]]
Array = NDArray[np.float64]
_SHORT = 1e-140  # the squares of shorter normals vanish
_ROUNDING = 1e-12  # share of a squared length that rounding may hide; it is counted against agreement
_UNIT = float(np.finfo(np.float64).eps)


def on_positive_side(margin: Rows) -> NDArray[np.bool_]:
    """True where sgn is +1, with sgn(0) = +1: the one home of that rule."""
    return np.asarray(margin >= 0)


def are_wrong(margin: Rows, y: NDArray[np.int8]) -> NDArray[np.bool_]:
    """True where sgn of a margin is not the label, row by row (the last axis)."""
    return np.asarray(on_positive_side(margin) != (y > 0))


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """{x : normal·x = threshold}; the halfspace is the side that the normal points to.

    The normal may have any length but 0, so that a row that lies exactly on the plane as it was given stays on it;
    `unit` is the same plane at length 1.
    """

    normal: Array
    threshold: float = 0.0

    @property
    def dim(self) -> int:
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

    def moved_to(self, point: Array) -> Plane:
        """The parallel plane through a point."""
        return Plane(self.normal, float(self.normal @ point))

    def margins(self, X: Rows) -> Array:
        """normal·x - threshold of every row, in float64: a threshold may cancel most of it."""
        return margins(X, self.normal) - self.threshold

    def signs(self, X: Rows) -> NDArray[np.int8]:
        """+1 or -1 for every row."""
        return np.where(on_positive_side(self.margins(X)), np.int8(1), np.int8(-1))

    def errors(self, X: Rows, y: NDArray[np.int8]) -> int:
        """How many rows the halfspace gets wrong."""
        return int(np.count_nonzero(are_wrong(self.margins(X), y)))

    def find_wrong(self, X: Rows, y: NDArray[np.int8]) -> tuple[NDArray[np.intp], Array]:
        """Which rows the halfspace gets wrong, and their margins."""
        found = self.margins(X)
        places = np.flatnonzero(are_wrong(found, y))
        return places, found[places]

    def angle_to(self, other: Plane) -> float:
        """Angle between the normals, accurate also where it is small."""
        left, right = self.unit().normal, other.unit().normal
        return 2 * math.atan2(float(np.linalg.norm(left - right)), float(np.linalg.norm(left + right)))


def stack_planes(planes: Sequence[Plane]) -> tuple[Array, Array]:
    """Normals (c, d) and thresholds (c,) of several planes."""
    return np.array([plane.normal for plane in planes]), np.array([plane.threshold for plane in planes])


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The neighbourhood of a plane (its normal v of length 1, its threshold t) at scale delta < 1.

    Of N(0, I) rows, those that are accepted follow N(t v, I - (1 - delta^2) v v^T); z = A (x - t v) with A = I +
    (1/delta - 1) v v^T makes them N(0, I) again. No acceptance depends on the chunk that a row came in.
    """

    plane: Plane
    delta: float

    @property
    def rate(self) -> float:
        """Share of N(0, I) rows that is accepted."""
        return acceptance_rate(self.plane.threshold, self.delta)

    @property
    def aim(self) -> float:
        """Where acceptance is certain: t / (1 - delta^2), which centres the accepted rows at t."""
        return self.plane.threshold / (1 - self.delta**2)

    @property
    def steepness(self) -> float:
        """(delta^-2 - 1) / 2."""
        return (self.delta**-2 - 1) / 2

    def coordinates(self, X: Rows) -> Array:
        """v·x of every row."""
        return margins(X, self.plane.normal)

    def acceptance(self, along: Array) -> Array:
        """Probability with which a row at v·x is accepted (Algorithm 4, line 1)."""
        return np.asarray(np.exp(-np.square(along - self.aim) * self.steepness))

    def to_frame(self, X: Rows, along: Array) -> Rows:
        """A (x - t v) of every row, with its v·x at hand (Algorithm 4, line 3), as X is."""
        return self.show(X, np.arange(len(X)), along)

    def show(self, X: Rows, places: NDArray[np.int64], along: Array) -> Rows:
        """The same of the rows at some places."""
        shown, v = np.empty((len(places), X.shape[1]), dtype=X.dtype), self.plane.normal.astype(X.dtype)
        kernels.loops.show(frozen(X), frozen(places), frozen(along), self.plane.threshold, 1 / self.delta - 1, v, shown)
        return shown

    def from_frame(self, plane: Plane) -> Plane:
        """The plane whose image in the frame is `plane`, at length 1.

        Its normal lies along A w (Algorithm 4, last line, whose Sigma^{1/2} is a slip).
        """
        v, w = self.plane.normal, plane.normal
        along = float(w @ v)
        normal = w + (1 / self.delta - 1) * along * v
        return Plane(normal, plane.threshold + self.plane.threshold * along / self.delta).unit()


@dataclass(frozen=True, slots=True, eq=False)
class FrameSet:
    """Several frames that look at rows at once, in the form that the loop takes them."""

    count: int
    normals: Array
    table: Array

    @classmethod
    def of(cls, frames: Sequence[Frame], tops: Sequence[float]) -> FrameSet:
        """Frames, and the share of the rows that each sees: those with smaller numbers."""
        normals = padded(np.array([frame.plane.normal for frame in frames]))
        table = [(frame.aim, frame.steepness, top) for frame, top in zip(frames, tops, strict=True)]
        return cls(len(frames), normals, np.array(table, dtype=np.float64))

    def find(self, X: Rows, uniforms: Array) -> list[tuple[NDArray[np.int64], Array]]:
        """For each frame, the places of the rows that it accepts by their numbers, and their v·x.

        A row is accepted if its number u, over the frame's top, is below `Frame.acceptance`.
        """
        shape, counts = (self.count, len(X)), np.empty(self.count, dtype=np.int64)
        places, along = np.empty(shape, dtype=np.int64), np.empty(shape)
        kernels.loops.find_accepted(frozen(X), frozen(uniforms), self.normals, self.table, places, along, counts)
        return [(places[i, :count], along[i, :count]) for i, count in enumerate(counts.tolist())]


def acceptance_rate(threshold: float, delta: float) -> float:
    """Share of N(0, I) rows that is accepted: delta exp(-t^2 / (2 (1 - delta^2))).

    No less than a rate at which no data set has a row.
    """
    return max(1e-30, delta * math.exp(-(threshold**2) / (2 * (1 - delta**2))))


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """The angles by which a plane has to turn to reach rows, in the transform x -> matrix·(x - centre).

    About the foot of the origin, t v, the plane (v, t) reaches x once it has turned by the angle whose tangent is
    |v·x - t| / |x_perp|. Its sine is the normalised margin: |v·x| / |x| where t is 0.

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
    centre: Array
    matrix: Array
    length: float
    threshold: float
    angle: float | None = None
    shift: float = 0.0

    @classmethod
    def of(cls, plane: Plane, centre: Array, matrix: Array) -> Turns:
        """For a plane of the stored rows; no row is agreed."""
        if matrix.ndim == 1:
            # where nothing moves nothing turns: such a weight is a part of the threshold
            normal = np.divide(plane.normal, matrix, out=np.zeros_like(plane.normal), where=matrix > 0)
        else:
            # not every transform can be undone, but a plane that came out of it can be put back
            normal = np.asarray(np.linalg.lstsq(matrix.T, plane.normal, rcond=None)[0], np.float64)
        length = float(np.linalg.norm(normal)) or 1.0
        return cls(plane, centre, matrix, length, (plane.threshold - float(plane.normal @ centre)) / length)

    def measure(self, X: Rows, margins: Array) -> tuple[Array, NDArray[np.bool_]]:
        """For rows with these margins: sines of the angles, and whether every halfspace agrees.

        With w = cos(a) v + sin(a) u of length 1 and a threshold t', w·x - t' is cos(a) (v·x - t) + sin(a) u·x_perp +
        (t - t') - (1 - cos(a)) t. So all halfspaces with a <= A and |t - t'| <= S say the same of a row where
        |v·x - t| > (S + (1 - cos A) |t|) / cos A + tan(A) |x_perp|.
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

    def _lost(self, X: Rows) -> Array:
        """A bound on rounding of margins and lengths in the transform, row by row."""
        columns = np.abs(self.matrix) if self.matrix.ndim == 1 else np.linalg.norm(self.matrix, axis=0)
        sizes = np.einsum("ij,j->i", np.abs(X).astype(np.float64), columns)
        sizes += float(np.abs(self.centre) @ columns)
        return np.asarray((len(columns) + 4) * _UNIT * sizes)

    def _squares(self, X: Rows) -> Array:
        """Squared length of every row in the transform, summed row by row."""
        centred = X.astype(np.float64) - self.centre
        if self.matrix.ndim == 1:
            centred *= self.matrix
            return np.asarray(np.einsum("ij,ij->i", centred, centred))
        total = np.zeros(len(X))
        for row in self.matrix:
            total += np.einsum("ij,j->i", centred, row) ** 2
        return total
