"""Rows in slabs along candidates: how many, their second moments, and the best threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.margins import count_slabs_along, margins
from streamhalf.kernels.plane import Plane, stack_planes
from streamhalf.kernels.slabs import assign_slabs, count_slabs, scan_thresholds, sum_slab_products, unpack_symmetric
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


_FINEST, _GROWTH, _REACH = 2e-5, 1.02, 1e3
"""Thresholds lie so close together about the given one, and further away at a fiftieth of the
distance, up to where no rows are left."""


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
