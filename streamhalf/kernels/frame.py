"""Localisation (Algorithm 4) about a plane: which rows are accepted, and where they are taken.

Of N(0, I) rows, those that are accepted at (v, t, delta) follow N(t v, I - (1 - delta^2) v v^T);
z = A (x - t v) with A = I + (1/delta - 1) v v^T makes them N(0, I) again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import frozen, margins, padded
from streamhalf.kernels.plane import Plane


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

    def coordinates(self, X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """v·x of every row."""
        return margins(X, self.plane.normal)

    def acceptance(self, along: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability with which a row at v·x is accepted (Algorithm 4, line 1)."""
        return np.asarray(np.exp(-np.square(along - self.aim) * self.steepness))

    def to_frame(self, X: NDArray[np.floating[Any]], along: NDArray[np.float64]) -> NDArray[np.floating[Any]]:
        """A (x - t v) of every row, with its v·x at hand (Algorithm 4, line 3), as X is."""
        threshold, v = self.plane.threshold, self.plane.normal
        shift = (along - threshold) * (1 / self.delta - 1) - threshold
        return np.asarray(X + np.outer(shift.astype(X.dtype), v.astype(X.dtype)))

    def from_frame(self, plane: Plane) -> Plane:
        """The plane whose image in the frame is `plane`, at length 1.

        Its normal lies along A w (Algorithm 4, last line, whose Sigma^{1/2} is a slip).
        """
        v, w = self.plane.normal, plane.normal
        along = float(w @ v)
        normal = w + (1 / self.delta - 1) * along * v
        threshold = plane.threshold + self.plane.threshold * along / self.delta
        return Plane(normal, threshold).unit()


def find_accepted(
    frames: Sequence[Frame],
    X: NDArray[np.floating[Any]],
    uniforms: NDArray[np.float64],
    tops: Sequence[float] | None = None,
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """For each frame, the places of the rows that it accepts by their numbers, and their v·x.

    A row is accepted if its number u, over the frame's top if it has one, is below
    `Frame.acceptance`.
    """
    from streamhalf.kernels import loops

    if not frames:
        return []
    shape = len(frames), len(X)
    aims, steepness = ([getattr(frame, name) for frame in frames] for name in ("aim", "steepness"))
    tops = [1.0] * len(frames) if tops is None else tops
    places, along = np.empty(shape, dtype=np.int64), np.empty(shape)
    counts = np.empty(len(frames), dtype=np.int64)
    normals = padded(np.array([frame.plane.normal for frame in frames]))
    table = np.array([aims, steepness, tops], dtype=np.float64).T.copy()
    loops.find_accepted(frozen(X), frozen(uniforms), normals, table, places, along, counts)
    return [(places[i, :count].copy(), along[i, :count].copy()) for i, count in enumerate(counts.tolist())]


def acceptance_rate(threshold: float, delta: float) -> float:
    """Share of N(0, I) rows that is accepted: delta exp(-t^2 / (2 (1 - delta^2))).

    No less than a rate at which no data set has a row.
    """
    return max(1e-30, delta * math.exp(-(threshold**2) / (2 * (1 - delta**2))))
