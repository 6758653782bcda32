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

from streamhalf.kernels.margins import margins, rough_margins
from streamhalf.kernels.plane import Plane

_REACH = 9.4
"""exp(-9.4² / 2) is below 2^-63."""

_ROOM = 0.01
"""How far float32 may take a standard normal away whose square is -2 ln u: most where u is 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The neighbourhood of a plane (its normal v of length 1, its threshold t) at scale delta < 1.

    Coordinates along v are taken in the precision of the rows and summed row by row, so whether a
    row is accepted does not depend on the chunk that it came in.
    """

    plane: Plane
    delta: float

    @property
    def rate(self) -> float:
        """Share of N(0, I) rows that is accepted."""
        return acceptance_rate(self.plane.threshold, self.delta)

    def coordinates(self, X: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """v·x of every row."""
        return margins(X, self.plane.normal)

    def is_near(self, along: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
        """Whether a row at v·x has a chance to be accepted: others less than one in 2^63."""
        aim = self.plane.threshold / (1 - self.delta**2)
        reach = _REACH / math.sqrt(self.delta**-2 - 1)
        return np.asarray(np.abs(along - along.dtype.type(aim)) < along.dtype.type(reach))

    def acceptance(self, along: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Probability with which a row at v·x is accepted (Algorithm 4, line 1).

        Aiming at t / (1 - delta^2) instead of t centres the accepted law at t.
        """
        kind = along.dtype.type
        aim = kind(self.plane.threshold / (1 - self.delta**2))
        steepness = kind((self.delta**-2 - 1) / 2)
        return np.asarray(np.exp(-np.square(along - aim) * steepness))

    def to_frame(
        self, X: NDArray[np.floating[Any]], along: NDArray[np.floating[Any]]
    ) -> NDArray[np.floating[Any]]:
        """A (x - t v) of every row, with its v·x at hand (Algorithm 4, line 3)."""
        kind = X.dtype.type
        threshold, segment = kind(self.plane.threshold), kind(1 / self.delta - 1)
        shift = (along - threshold) * segment - threshold
        return np.asarray(X + np.outer(shift, self.plane.normal.astype(X.dtype)))

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
) -> list[tuple[NDArray[np.int64], NDArray[np.floating[Any]]]]:
    """For each frame, the places of the rows that it accepts by their numbers, and their v·x.

    A row is accepted if its number u, over the frame's top if it has one, is below
    `Frame.acceptance`. One product for all frames leaves
    few rows to ask that of: with k² = delta^-2 - 1 all others have k |v·x - aim| > sqrt(-2 ln u) by
    more than rounding. Coordinates of those few are summed row by row, so neither the chunk that a
    row came in nor the other frames have a part in the answer.
    """
    if not frames:
        return []
    steepness = np.array([[math.sqrt(frame.delta**-2 - 1)] for frame in frames])
    normals = np.array([frame.plane.normal for frame in frames])
    aims = [frame.plane.threshold / (1 - frame.delta**2) for frame in frames]
    shifts = (steepness[:, 0] * aims).tolist()
    tops = [1.0] * len(frames) if tops is None else tops
    some: list[list[NDArray[np.int64]]] = [[] for _ in frames]
    for window, rough, slack in rough_margins(X, steepness * normals):
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            square = np.log(uniforms[window].astype(X.dtype))
            reaches = {top: _reach(square, top) for top in set(tops)}
            for i, along in enumerate(rough):
                if shifts[i]:
                    along -= X.dtype.type(shifts[i])
                np.abs(along, out=along)
                along -= X.dtype.type(slack[i] + 1e-6 * abs(shifts[i]))
                # what is not a number compares with nothing, and is asked
                some[i].append(window.start + np.flatnonzero(~(along > reaches[tops[i]])))
    return [
        _accepted(frame, np.concatenate([np.empty(0, np.int64), *places]), X, uniforms, top)
        for frame, places, top in zip(frames, some, tops, strict=True)
    ]


def _reach(logarithm: NDArray[np.floating[Any]], top: float) -> NDArray[np.floating[Any]]:
    """sqrt(-2 ln(u / top)) and a little more, for ln u; the little where u is not below the top."""
    square = (math.log(top) - logarithm) * 2 if top > 0 else np.zeros_like(logarithm)
    square = np.asarray(square, dtype=logarithm.dtype)
    np.sqrt(np.maximum(square, 0, out=square), out=square)
    square += logarithm.dtype.type(_ROOM)
    return square


def _accepted(
    frame: Frame,
    places: NDArray[np.int64],
    X: NDArray[np.floating[Any]],
    uniforms: NDArray[np.float64],
    top: float,
) -> tuple[NDArray[np.int64], NDArray[np.floating[Any]]]:
    """Those of the places whose rows are accepted, and their v·x."""
    along = frame.coordinates(np.take(X, places, axis=0))
    numbers = np.take(uniforms, places) / top
    keep = np.flatnonzero(frame.is_near(along) & (numbers < frame.acceptance(along)))
    return places[keep], along[keep]


def acceptance_rate(threshold: float, delta: float) -> float:
    """Share of N(0, I) rows that is accepted: delta exp(-t^2 / (2 (1 - delta^2))).

    No less than a rate at which no data set has a row.
    """
    return max(1e-30, delta * math.exp(-(threshold**2) / (2 * (1 - delta**2))))
