"""Rows in memory as points with counts, labels that contradict each other at a point cancelled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.plane import Plane

Array = NDArray[np.float64]

_NARROWEST = 2.0**-400
"""Of scaled features other than 0: products of smaller ones could be rounded to 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Different points with one label each, and how often each is there.

    `n_settled` is how many rows every halfspace is wrong on already: of p rows with one label and
    q with the other at one point min(p, q). `exact` (n, r) are y (x, 1) of the points that are
    left, y x where halfspaces go through the origin, features multiplied by powers of two; `scaled`
    are the same in units that suit computing, at length 1, and `lengths` what they were before.
    `margins` of a plane are in these units too, about, and below 0 where it is wrong.
    """

    n_settled: int
    labels: NDArray[np.int8]
    counts: NDArray[np.int64]
    exact: Array
    scaled: Array
    lengths: Array
    margins: Array

    @classmethod
    def of(cls, X: Array, y: NDArray[np.int8], plane: Plane, *, central: bool) -> Points:
        """The points of rows; `central` where halfspaces go through the origin."""
        points, place = np.unique(X + 0.0, axis=0, return_inverse=True)  # -0 is 0
        positive = np.bincount(place.ravel()[y > 0], minlength=len(points))
        negative = np.bincount(place.ravel()[y < 0], minlength=len(points))
        settled, left = np.minimum(positive, negative), np.abs(positive - negative)
        if central:  # sgn(0) = +1 whatever the direction
            zero = ~points.any(axis=1)
            settled[zero], left[zero] = negative[zero], 0
        largest = np.abs(points).max(axis=0, initial=0.0)
        exponents = np.where(largest > 0, np.frexp(largest)[1], 0)
        exact = np.ldexp(points, -exponents)
        left[((points != 0) & (np.abs(exact) < _NARROWEST)).any(axis=1)] = 0
        kept = np.flatnonzero(left)
        labels = np.where(positive > negative, 1, -1).astype(np.int8)[kept]
        normal = np.ldexp(plane.normal, exponents)
        about = Plane(normal, 0.0 if central else plane.threshold)
        return cls._left(int(settled.sum()), exact[kept], labels, left[kept], about, central)

    @classmethod
    def _left(
        cls,
        n_settled: int,
        exact: Array,
        labels: NDArray[np.int8],
        counts: NDArray[np.int64],
        plane: Plane,
        central: bool,
    ) -> Points:
        """The points with the coordinates that tell them apart."""
        centre = np.zeros(exact.shape[1])
        if len(exact) and not central:
            centre = np.median(exact, axis=0)
        spread = _spreads(exact - centre)
        varies = spread > 0  # what is the same for all says nothing that the constant does not
        scaled = (exact - centre)[:, varies] / spread[varies]
        along = (plane.normal * spread)[varies]
        exact = exact[:, varies]
        if not central:
            ones = np.ones((len(exact), 1))
            scaled, exact = np.hstack([scaled, ones]), np.hstack([exact, ones])
            along = np.append(along, plane.normal @ centre - plane.threshold)
        lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        scaled = scaled * (labels / lengths)[:, None]
        unit = along / (np.linalg.norm(along) or 1.0)
        return cls(
            n_settled,
            labels,
            counts,
            exact * labels[:, None],
            scaled,
            lengths,
            np.einsum("ij,j->i", scaled, unit),
        )


def _spreads(away: Array) -> Array:
    """How far points lie from the centre, typically; 0 where none does."""
    if not len(away):
        return np.zeros(away.shape[1])
    typical = np.median(np.abs(away), axis=0)
    return np.asarray(np.where(typical > 0, typical, np.sqrt(np.mean(away**2, axis=0))))
