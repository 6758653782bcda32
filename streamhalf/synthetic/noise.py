"""Planted directions and label noise.

Every kind of noise is a score, and the rows with the smallest scores are flipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import native_margins
from streamhalf.kernels.plane import on_positive_side
from streamhalf.synthetic.kinds import Noise

Scores: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class CleanRows:
    """Rows before the noise.

    Features, m = v·x - t, the direction u, one uniform number for each row, and the label of the
    smaller class.
    """

    X: NDArray[np.floating[Any]]
    margin: NDArray[np.floating[Any]]
    u: NDArray[np.float64]
    uniforms: NDArray[np.float64]
    rare: int = 1

    @property
    def labels(self) -> NDArray[np.int8]:
        """sgn(v·x - t), with sgn(0) = +1."""
        return np.where(on_positive_side(self.margin), np.int8(1), np.int8(-1))


@dataclass(frozen=True, slots=True)
class Cut:
    """Flips rows with (score, uniform) up to (score, uniform) of the cut, in dictionary order.

    Discrete features give many rows the same score: the uniform number of a row breaks the tie.
    """

    score: float
    uniform: float

    def flips(self, scores: Scores, uniforms: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say of each row whether its label is flipped."""
        tied = (scores == self.score) & (uniforms <= self.uniform)
        flipped: NDArray[np.bool_] = (scores < self.score) | tied
        return flipped


NO_FLIPS = Cut(score=-math.inf, uniform=-1.0)


def choose_directions(
    planted: str, random_v: NDArray[np.float64], random_u: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the planted v, rounded to float32, and u orthogonal to it (zero in one dimension).

    Rounded, v is the same vector beside features of either dtype.
    """
    dim = len(random_v)
    raw = {"axis": np.eye(1, dim)[0], "diagonal": np.ones(dim), "generic": random_v}
    v = _normalise(raw[planted]).astype(np.float32).astype(np.float64)
    if dim == 1:
        return v, np.zeros(1)
    return v, _normalise(random_u - math.fsum(random_u * v) / math.fsum(v * v) * v)


def flip_scores(noise: Noise, rows: CleanRows) -> Scores:
    """Return the score of each row; a row that is never flipped has score infinity."""
    return _SCORES[noise](rows)


def choose_cut(scores: Scores, uniforms: NDArray[np.float64], n_flips: int) -> Cut:
    """Return the cut that flips exactly `n_flips` of these rows, given distinct uniforms."""
    if n_flips == 0:
        return NO_FLIPS
    score = np.partition(scores, n_flips - 1)[n_flips - 1]
    n_tied_flips = n_flips - int(np.count_nonzero(scores < score))
    tied = uniforms[scores == score]
    uniform = np.partition(tied, n_tied_flips - 1)[n_tied_flips - 1]
    return Cut(score=float(score), uniform=float(uniform))


def _normalise(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vector along x; fsum, because a BLAS sum's bits differ between machines."""
    return x / math.sqrt(math.fsum(x * x))


def _wedge(rows: CleanRows, label: int) -> Scores:
    """Tangent of the angle to the plane, where m has this sign and u·x < 0."""
    side = native_margins(rows.X, rows.u)
    depth = label * rows.margin
    inside = (depth > 0) & (side < 0)
    tangent = np.full_like(side, math.inf)
    with np.errstate(over="ignore"):  # a right angle's tangent: infinity is what it should be
        np.divide(depth, -side, out=tangent, where=inside)
    return tangent


_SCORES: dict[Noise, Callable[[CleanRows], Scores]] = {
    Noise.NONE: lambda rows: np.full(len(rows.margin), math.inf),
    Noise.RANDOM: lambda rows: rows.uniforms,
    Noise.NEAR: lambda rows: np.abs(rows.margin),
    Noise.FAR: lambda rows: -np.abs(rows.margin),
    Noise.CHOW: lambda rows: -rows.labels * native_margins(rows.X, rows.u),
    Noise.WEDGE: lambda rows: _wedge(rows, 1),
    Noise.MINOR: lambda rows: np.where(rows.labels == rows.rare, -np.abs(rows.margin), math.inf),
    Noise.TILT: lambda rows: _wedge(rows, rows.rare),
}
