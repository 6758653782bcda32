"""Localisation (Algorithm 4) about a plane: which rows are accepted, and where they are taken.

Of N(0, I) rows, those that are accepted at (v, t, delta) follow N(t v, I - (1 - delta^2) v v^T); z = A (x - t v) with A
= I + (1/delta - 1) v v^T makes them N(0, I) again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf import kernels
from streamhalf.kernels.margins import frozen, margins, padded
from streamhalf.kernels.plane import Plane

Rows = NDArray[np.floating[Any]]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The neighbourhood of a plane (its normal v of length 1, its threshold t) at scale delta < 1.

    Whether a row is accepted does not depend on the chunk that it came in.
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
