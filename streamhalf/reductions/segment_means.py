"""Means of quantities of single rows, over all of them and over contiguous segments of the data set.

Do rows come in an order, and did they change since? Segments are cut by row number, so statistics
are the same whatever the chunking.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.transforms import RowTransform
from streamhalf.kernels.monomials import SUB_BATCH_NBYTES
from streamhalf.kernels.plane import Frame, Plane, are_wrong, on_positive_side
from streamhalf.kernels.segments import Segments, scatter_ratio
from streamhalf.reductions.base import Dims, Reduction


@dataclass(frozen=True, slots=True, eq=False)
class SegmentSums:
    """Rows (s,) int64 and sums (s, q) of each segment; of all rows sums of squares and higher powers (p, q)."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    powers: NDArray[np.float64]

    @classmethod
    def empty(cls, n_segments: int, n_quantities: int, n_powers: int) -> SegmentSums:
        counts = np.zeros(n_segments, dtype=np.int64)
        return cls(counts, np.zeros((n_segments, n_quantities)), np.zeros((n_powers, n_quantities)))

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    def held(self) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.float64]]:
        """The segments that hold rows, their rows and their means."""
        held = np.flatnonzero(self.counts)
        counts = self.counts[held]
        return held, counts, self.sums[held] / counts[:, None]

    def sum_pieces(self, segments: Segments, block: Block, step: int) -> Iterator[tuple[Block, NDArray[np.float64]]]:
        """Count the rows of a block, and yield its pieces, each with the sums of its segment."""
        for segment, window in segments.cut(block.rows):
            self.counts[segment] = window.stop - window.start
            for start in range(window.start, window.stop, step):
                yield block.cut(slice(start, min(start + step, window.stop))), self.sums[segment]


_ROUNDING = 1e-9  # A variance below this share of the mean square is rounding
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentScatterResult:
    """How far segment means lie apart, of q = 2 + 2 d quantities: y, |x|², every x_j, every y x_j.

    `segments`, `counts` (s,) and `means` (s, q) are of the segments that hold rows; `overall` (q,)
    is the mean of all. `ratios` (q,) is F of `kernels.segments`, 0 of a constant;
    `squared_skewness` and `kurtosis` (q,) are those of single rows.
    """

    segments: NDArray[np.int64]
    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    overall: NDArray[np.float64]
    ratios: NDArray[np.float64]
    squared_skewness: NDArray[np.float64]
    kurtosis: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentScatter(Reduction[SegmentSums, SegmentScatterResult]):
    """Sums over `n_segments` equal contiguous segments of a data set of `total_rows` rows."""

    total_rows: int
    n_segments: int = 256

    name = "segments"

    def empty(self, dim: int) -> SegmentSums:
        return SegmentSums.empty(self.n_segments, 2 + 2 * dim, 3)

    def map(self, block: Block) -> SegmentSums:
        found = self.empty(block.dim)
        # as many rows as leave their powers in cache
        step = max(16, min(4096, SUB_BATCH_NBYTES // (32 * block.dim)))
        table = np.empty((4, block.dim, min(step, block.n_rows)))
        for piece, sums in found.sum_pieces(Segments(self.total_rows, self.n_segments), block, step):
            powers = _sum_powers(piece.X, piece.y, table)
            sums += powers[0]
            found.powers[:] += powers[1:]
        return found

    def finalize(self, partial: SegmentSums) -> SegmentScatterResult:
        held, counts, means = partial.held()
        total = max(1, partial.n_rows)
        overall = partial.sums.sum(axis=0) / total
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            central = _central_moments(overall, *partial.powers / total)
            # nothing is known of quantities whose powers overflow or vanish
            varies = np.isfinite(central).all(axis=0) & (central[0] ** 2 > _TINY)
            varies &= central[0] > _ROUNDING * (partial.powers[0] / total)
        variance, third, fourth = np.where(varies, central, 1.0)
        ratios = np.zeros(len(overall))
        if len(held) > 1:
            ratios = scatter_ratio(counts, np.where(varies, means, 0.0), variance)
        return SegmentScatterResult(
            segments=held,
            counts=counts,
            means=means,
            overall=overall,
            ratios=ratios,
            squared_skewness=(third / variance**1.5) ** 2,
            kurtosis=np.maximum(fourth / variance**2, 1.0),
        )


def _sum_powers(X: NDArray[np.floating[Any]], y: NDArray[np.int8], table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of all quantities (4, q), of their squares, cubes and 4th powers; `table` is room."""
    n_rows = len(y)
    table = table[:, :, :n_rows]
    table[0] = X.T
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(table[0], table[0], out=table[1])
        np.multiply(table[1], table[0], out=table[2])
        np.multiply(table[1], table[1], out=table[3])
        plain, signed = np.moveaxis(table @ np.column_stack([np.ones(n_rows), y]), -1, 0)
        norms = table[1].sum(axis=0)
        squares = norms * norms
        of_norms = [norms.sum(), squares.sum(), squares @ norms, squares @ squares]
    balance = float(y.sum(dtype=np.int64))
    products = np.stack([signed[0], plain[1], signed[2], plain[3]])
    return np.column_stack([[balance, n_rows, balance, n_rows], of_norms, plain, products])


def _central_moments(
    mean: NDArray[np.float64], second: NDArray[np.float64], third: NDArray[np.float64], fourth: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Second to fourth moments about the mean, from those about 0."""
    return np.stack(
        [
            second - mean**2,
            third - 3 * mean * second + 2 * mean**3,
            fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4,
        ]
    )


EDGES = (-2.0, -1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0, 2.0)  # Of the slabs, in v·x - t of the transform
MOST_PAIRED = 32  # Up to so many features the products of all pairs are compared
_MOST_SEGMENTS = 32
_PIECE = 8_192  # Rows whose products stay in cache


@dataclass(frozen=True, slots=True, eq=False)
class RowProfileResult:
    """Mean and variance of every quantity (q,), and of the segments that hold rows their means.

    `segments` are their numbers, `counts` (s,) their rows, `segment_means` (s, q). `ratios` (q,) is F of
    `kernels.segments`: about 1 for independent rows.
    """

    n_rows: int
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    ratios: NDArray[np.float64]
    segments: NDArray[np.int64]
    counts: NDArray[np.int64]
    segment_means: NDArray[np.float64]

    dims: ClassVar[Dims] = {"means": ("quantity",), "variances": ("quantity",), "ratios": ("quantity",)}


@dataclass(frozen=True, slots=True, eq=False)
class RowProfile(Reduction[SegmentSums, RowProfileResult]):
    """All that a watch compares between two data sets: quantities of single rows, in this order (`parts`).

    `means`: (x - centre) / scale of every stored feature; `spreads`: its square; `moments`: u_i u_j, i <= j, of the
    rows u in the transform; `slabs`: which slab about `about`, the plane in the transform, the row is in;
    `acceptance`: the probability that each frame accepts it; `predictions`: sgn of `plane` is +1; with labels
    `labels`: the label is +1, and `errors`: it is not sgn. Centre and scale keep sums short; they need not be
    those of the rows.
    """

    plane: Plane
    transform: RowTransform
    about: Plane
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    frames: tuple[Frame, ...] = ()
    total_rows: int = 1
    reads_labels: bool = True

    name = "row-profile"

    @property
    def segments(self) -> Segments:
        return Segments.for_rows(self.total_rows, self.total_rows // 2, most=_MOST_SEGMENTS)

    def parts(self, dim: int) -> dict[str, slice]:
        """Return the place of each part among the quantities."""
        sizes = {
            "means": dim,
            "spreads": dim,
            "moments": dim * (dim + 1) // 2 if dim <= MOST_PAIRED else 0,
            "slabs": len(EDGES) + 1,
            "acceptance": len(self.frames),
            "predictions": 1,
            **({"labels": 1, "errors": 1} if self.reads_labels else {}),
        }
        stops = list(accumulate(sizes.values()))
        return {name: slice(stop - size, stop) for (name, size), stop in zip(sizes.items(), stops, strict=True)}

    def empty(self, dim: int) -> SegmentSums:
        return SegmentSums.empty(self.segments.count, max(part.stop for part in self.parts(dim).values()), 1)

    def map(self, block: Block) -> SegmentSums:
        found = self.empty(block.dim)
        with np.errstate(over="ignore", invalid="ignore"):
            for piece, of_segment in found.sum_pieces(self.segments, block, _PIECE):
                sums, squares = self._sum(piece)
                of_segment += sums
                found.powers[0] += squares
        return found

    def _sum(self, block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of all quantities, and of their squares."""
        Z = (block.X - self.centre) / self.scale
        moved = self.transform.apply(block).X
        margins = self.about.margins(moved)
        along = margins + self.about.threshold
        v = self.about.normal  # frames may be about the same one
        accepted = [
            frame.acceptance(along if np.array_equal(frame.plane.normal, v) else frame.coordinates(moved))
            for frame in self.frames
        ]
        predicted = self.plane.margins(block.X)
        shares = [on_positive_side(predicted)]
        if self.reads_labels:
            shares += [block.y > 0, are_wrong(predicted, block.y)]
        squared = np.square(Z)
        parts = [(Z.sum(axis=0), squared.sum(axis=0)), (squared.sum(axis=0), np.square(squared).sum(axis=0))]
        if block.dim <= MOST_PAIRED:
            U, pairs = moved.astype(np.float64, copy=False), np.triu_indices(block.dim)
            parts.append(((U.T @ U)[pairs], (np.square(U).T @ np.square(U))[pairs]))
        slabs = np.bincount(np.searchsorted(EDGES, margins, side="right"), minlength=len(EDGES) + 1)
        parts.append((slabs, slabs))  # of zeros and ones sums are those of squares
        parts += [([one.sum()], [np.square(one).sum()]) for one in accepted]
        parts += [([np.count_nonzero(one)],) * 2 for one in shares]
        sums, squares = (np.concatenate(same).astype(np.float64) for same in zip(*parts, strict=True))
        return sums, squares

    def finalize(self, partial: SegmentSums) -> RowProfileResult:
        held, counts, segment_means = partial.held()
        total = max(1, partial.n_rows)
        with np.errstate(over="ignore", invalid="ignore"):
            means = partial.sums.sum(axis=0) / total
            square = partial.powers[0] / total
            variances = np.maximum(square - means**2, 0.0)
            variances[variances <= 1e-12 * square] = 0.0  # rounding
            ratios = np.ones(len(means))
            if len(held) > 1:
                ratios = scatter_ratio(counts, segment_means, variances)
        return RowProfileResult(partial.n_rows, means, variances, ratios, held, counts, segment_means)
