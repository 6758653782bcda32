"""For each candidate: the sums that bound its disagreement with its neighbours within eta."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import frozen, padded
from streamhalf.kernels.monomials import sub_batch_rows
from streamhalf.kernels.plane import Plane, stack_planes
from streamhalf.kernels.slabs import pack_symmetric, unpack_symmetric
from streamhalf.reductions.base import Reduction

_FEW_FEATURES = 32
"""Up to so many features the products of all pairs are written out; of more BLAS is faster."""


@dataclass(frozen=True, slots=True, eq=False)
class WedgeSumsPartial:
    """Rows (int64); sums of a (c,), a t s (c, d) and a t² s s^T (c, d (d + 1) / 2)."""

    n_rows: int
    masses: NDArray[np.float64]
    means: NDArray[np.float64]
    products: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WedgeSumsResult:
    """The bound of each candidate (c,) on these rows, whatever their distribution; 1 without rows."""

    n_rows: int
    eta: float
    kappa: float
    betas: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WedgeSums(Reduction[WedgeSumsPartial, WedgeSumsResult]):
    """Sums behind beta of each candidate (v, t_v): no plane of its neighbourhood disagrees with it on more.

    The neighbourhood: planes w·x = t', w = cos(angle) v + sin(angle) u of length 1 with u orthogonal to v,
    |w - v| <= eta and |t_v - t' / cos(angle)| <= kappa: 0 for planes that turn about the point of the candidate
    nearest to the origin, as all planes through the origin do about it. With p = v·x - t_v, (w·x - t') / cos(angle) is
    p + (t_v - t' / cos(angle)) + tan(angle) u·x. A row with |p| <= kappa may change sides, and counts 1. Any other
    stays at least |p| - kappa from 0 on its own side until u·x moves it, so it changes sides only where tan(angle) u·s
    <= -(|p| - kappa), that is u·s <= -t, with t = (|p| - kappa)_+ / gamma, gamma the tangent of the angle of eta, and s
    = sgn(p) times the part of x orthogonal to v (the projection is taken in the end). There
    ((1 - t u·s) / (1 + t²))² is at least 1, elsewhere it is not negative; with a = 1 / (1 + t²)² its mean is at most
    mean a + lambda_max(mean a t² s s^T) + 2 |mean a t s|.
    """

    candidates: tuple[Plane, ...]
    eta: float
    kappa: float = 0.0

    name = "wedge-sums"
    reads_labels = False

    def empty(self, dim: int) -> WedgeSumsPartial:
        count = len(self.candidates)
        return WedgeSumsPartial(0, np.zeros(count), np.zeros((count, dim)), np.zeros((count, dim * (dim + 1) // 2)))

    def map(self, block: Block) -> WedgeSumsPartial:
        """Weigh the rows. What is summed for a candidate does not depend on which others there are."""
        from streamhalf.kernels import loops

        found, gamma = self.empty(block.dim), math.tan(2 * math.asin(self.eta / 2))
        V, thresholds = (padded(one) for one in stack_planes(self.candidates))
        few = block.dim <= _FEW_FEATURES
        step = block.n_rows if few else sub_batch_rows(block.dim * len(thresholds), 8)
        for first in range(0, block.n_rows, max(1, step)):
            X = block.X[first : first + step]
            weights = np.empty((len(self.candidates), len(X)))
            room = found.products if few else np.empty((len(self.candidates), 0))
            sums = (weights, found.masses, found.means, room)
            loops.sum_wedges(frozen(X), V, thresholds, float(self.kappa), gamma, *sums)
            if not few:
                weighed = (X * one[:, None] for one in weights.astype(X.dtype))
                found.products[:] += pack_symmetric(np.array([some.T @ some for some in weighed]))
        return replace(found, n_rows=block.n_rows)

    def finalize(self, partial: WedgeSumsPartial) -> WedgeSumsResult:
        betas = np.ones(len(self.candidates))
        if partial.n_rows:
            betas = np.minimum(1.0, [self._beta(partial, i) for i in range(len(betas))])
        return WedgeSumsResult(partial.n_rows, self.eta, self.kappa, betas)

    def _beta(self, sums: WedgeSumsPartial, candidate: int) -> float:
        v = self.candidates[candidate].normal
        projector = np.eye(len(v)) - np.outer(v, v)
        products = projector @ unpack_symmetric(sums.products[candidate], len(v)) @ projector
        mean = float(np.linalg.norm(sums.means[candidate] @ projector))
        largest = float(np.linalg.eigvalsh(products)[-1])
        return (float(sums.masses[candidate]) + largest + 2 * mean) / sums.n_rows

    def partial_nbytes(self, dim: int) -> int:
        return 8 * len(self.candidates) * (dim * (dim + 3) // 2 + 1) + 8
