"""About candidate planes: rows in slabs, their second moments, the best threshold, and what neighbours disagree on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import count_slabs_along, frozen, margins, padded
from streamhalf.kernels.monomials import sub_batch_rows
from streamhalf.kernels.plane import Plane, stack_planes
from streamhalf.kernels.slabs import (
    assign_slabs,
    count_slabs,
    pack_symmetric,
    scan_thresholds,
    sum_slab_products,
    unpack_symmetric,
)
from streamhalf.reductions.base import Counts, Reduction


@dataclass(frozen=True, slots=True, eq=False)
class CandidateSlabs(Reduction[Counts, Counts]):
    """Exact counts (c, 2 B + 2) for `candidates`, planes with normals of length 1.

    Slab i in -B <= i < B is width·i <= v·x - t < width·(i + 1); below and above them are the tails
    (Algorithm 2, line 3, read as disjoint and covering).
    """

    candidates: tuple[Plane, ...]
    width: float
    half_count: int

    name = "candidate-slabs"
    reads_labels = False

    def empty(self, dim: int) -> Counts:
        return Counts(0, np.zeros((len(self.candidates), 2 * self.half_count + 2), dtype=np.int64))

    def map(self, block: Block) -> Counts:
        planes = stack_planes(self.candidates)
        return Counts(block.n_rows, count_slabs_along(block.X, *planes, width=self.width, half_count=self.half_count))


@dataclass(frozen=True, slots=True, eq=False)
class SlabProducts:
    """Rows (c, s) int64; sums of x x^T (c, s, d (d + 1) / 2), float64."""

    counts: NDArray[np.int64]
    products: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """All rows: every candidate counts each of them once."""
        return int(self.counts[0].sum())


@dataclass(frozen=True, slots=True, eq=False)
class SlabCovarianceResult:
    """Per candidate and slab: rows, and the second moment orthogonal to the candidate."""

    candidates: tuple[Plane, ...]
    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    products: NDArray[np.float64]

    def second_moments(self, candidate: int) -> NDArray[np.float64]:
        """Mean of x x^T over each slab's rows, projected orthogonally to the candidate."""
        v = self.candidates[candidate].normal
        matrices = unpack_symmetric(self.products[candidate], len(v))
        projector = np.eye(len(v)) - np.outer(v, v)
        shares = 1 / np.maximum(1, self.counts[candidate])
        projected: NDArray[np.float64] = shares[:, None, None] * (projector @ matrices @ projector)
        return projected


@dataclass(frozen=True, slots=True, eq=False)
class SlabCovariance(Reduction[SlabProducts, SlabCovarianceResult]):
    """Slabs between consecutive `edges` of v·x - t, the first and last open-ended."""

    candidates: tuple[Plane, ...]
    edges: NDArray[np.float64]

    name = "slab-covariance"
    reads_labels = False

    def empty(self, dim: int) -> SlabProducts:
        shape = (len(self.candidates), len(self.edges) + 1)
        return SlabProducts(np.zeros(shape, dtype=np.int64), np.zeros((*shape, dim * (dim + 1) // 2)))

    def map(self, block: Block) -> SlabProducts:
        normals, thresholds = stack_planes(self.candidates)
        slabs = assign_slabs(margins(block.X, normals) - thresholds[:, None], self.edges)
        n_slabs = len(self.edges) + 1
        counts = np.array([count_slabs(slab, n_slabs) for slab in slabs])
        return SlabProducts(counts, sum_slab_products(block.X, slabs, n_slabs))

    def finalize(self, partial: SlabProducts) -> SlabCovarianceResult:
        return SlabCovarianceResult(self.candidates, self.edges, partial.counts, partial.products)

    def partial_nbytes(self, dim: int) -> int:
        return 8 * len(self.candidates) * (len(self.edges) + 1) * (dim * (dim + 1) // 2 + 1)


# Thresholds lie so close together about the given one, and further away at a fiftieth of the distance, up to where no
# rows are left
_FINEST, _GROWTH, _REACH = 2e-5, 1.02, 1e3


@cache
def scanned_offsets() -> NDArray[np.float64]:
    """Differences to the given threshold that are tried, rising; 0 is among them."""
    steps = np.ceil(np.log1p(_REACH * (_GROWTH - 1) / _FINEST) / np.log(_GROWTH))
    away = _FINEST * (_GROWTH ** np.arange(1, steps + 1) - 1) / (_GROWTH - 1)
    return np.concatenate([-away[::-1], [0.0], away])


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdScan(Reduction[Counts, tuple[Plane, ...]]):
    """Counts of both labels between thresholds about those of `planes`, normals of length 1.

    The result are the planes with the best threshold each: exact counts, up to the rounding of
    v·x. The given one is kept where chance may have put the best ahead: a gain within one standard
    error, of the rows between the two, or within two where the given one is 0, of a smaller class.
    Partials count rows by plane, label (-1 first) and cell between two thresholds.
    """

    planes: tuple[Plane, ...]

    name = "threshold-scan"

    def empty(self, dim: int) -> Counts:
        return Counts(0, np.zeros((len(self.planes), 2, len(scanned_offsets()) + 1), dtype=np.int64))

    def map(self, block: Block) -> Counts:
        counts = scan_thresholds(block.X, block.y, *stack_planes(self.planes), scanned_offsets())
        return Counts(block.n_rows, counts)

    def finalize(self, partial: Counts) -> tuple[Plane, ...]:
        return tuple(
            Plane(plane.normal, plane.threshold + _best_offset(counts, 1 if plane.threshold else 2))
            for plane, counts in zip(self.planes, partial.counts, strict=True)
        )


def _best_offset(counts: NDArray[np.int64], deviations: int) -> float:
    """The difference with the fewest errors, of those the smallest; 0 if it gains hardly more."""
    offsets = scanned_offsets()
    negative, positive = np.cumsum(counts, axis=1)[:, :-1]
    errors = positive + counts[0].sum() - negative
    least = np.flatnonzero(errors == errors.min())
    best, given = least[np.argmin(np.abs(offsets[least]))], len(offsets) // 2
    between = counts[:, min(best, given) + 1 : max(best, given) + 1].sum()
    gain = errors[given] - errors[best]
    return 0.0 if gain <= deviations * math.sqrt(between) else float(offsets[best])


_FEW_FEATURES = 32  # Up to so many features the products of all pairs are written out; of more BLAS is faster


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
