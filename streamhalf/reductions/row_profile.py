"""Means of everything that a watch compares between two data sets, by segment of rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.transforms import RowTransform
from streamhalf.kernels.frame import Frame
from streamhalf.kernels.plane import Plane, are_wrong, on_positive_side
from streamhalf.kernels.segments import Segments, scatter_ratio
from streamhalf.reductions.base import Dims, Summed

EDGES = (-2.0, -1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0, 2.0)
"""Of the slabs, in v·x - t of the transform."""

MOST_PAIRED = 32
"""Up to so many features the products of all pairs are compared."""

MOST_SEGMENTS = 32

_PIECE = 8_192
"""Rows whose products stay in cache."""


@dataclass(frozen=True, slots=True, eq=False)
class RowProfilePartial:
    """Rows (s,) int64 and sums (s, q) of each segment; sums of squares (q,)."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """All rows."""
        return int(self.counts.sum())


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
class RowProfile(Summed):
    """Quantities of single rows, in this order (`parts`).

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
        """Contiguous segments of the data set."""
        return Segments.for_rows(self.total_rows, self.total_rows // 2, most=MOST_SEGMENTS)

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

    def empty(self, dim: int) -> RowProfilePartial:
        """No rows."""
        q, s = max(part.stop for part in self.parts(dim).values()), self.segments.count
        return RowProfilePartial(np.zeros(s, dtype=np.int64), np.zeros((s, q)), np.zeros(q))

    def map(self, block: Block) -> RowProfilePartial:
        """Sum each segment's rows of the block."""
        found = self.empty(block.dim)
        for segment, window in self.segments.cut(block.rows):
            found.counts[segment] = window.stop - window.start
            for start in range(window.start, window.stop, _PIECE):
                piece = block.cut(slice(start, min(start + _PIECE, window.stop)))
                with np.errstate(over="ignore", invalid="ignore"):
                    sums, squares = self._sum(piece)
                    found.sums[segment] += sums
                    found.squares[:] += squares
        return found

    def _sum(self, block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of all quantities, and of their squares."""
        Z = (block.X - self.centre) / self.scale
        moved = self.transform.apply(block).X
        margins = self.about.margins(moved)
        slabs = np.bincount(np.searchsorted(EDGES, margins, side="right"), minlength=len(EDGES) + 1).astype(np.float64)
        along = margins + self.about.threshold
        accepted = np.array([frame.acceptance(_along(frame, self.about, moved, along)) for frame in self.frames])
        accepted = accepted.reshape(len(self.frames), block.n_rows)
        predicted = self.plane.margins(block.X)
        shares = [float(np.count_nonzero(on_positive_side(predicted)))]
        if self.reads_labels:
            shares += [float(np.count_nonzero(one)) for one in (block.y > 0, are_wrong(predicted, block.y))]
        squared = np.square(Z)
        sums = [Z.sum(axis=0), squared.sum(axis=0)]
        squares = [sums[1], np.square(squared).sum(axis=0)]
        if block.dim <= MOST_PAIRED:
            U = moved.astype(np.float64, copy=False)
            pairs = np.triu_indices(block.dim)
            sums.append((U.T @ U)[pairs])
            squares.append((np.square(U).T @ np.square(U))[pairs])
        for values, powers in (
            (slabs, slabs),
            (accepted.sum(axis=1), np.square(accepted).sum(axis=1)),
            (shares, shares),
        ):
            sums.append(np.asarray(values, dtype=np.float64))
            squares.append(np.asarray(powers, dtype=np.float64))
        return np.concatenate(sums), np.concatenate(squares)

    def finalize(self, partial: RowProfilePartial) -> RowProfileResult:
        """Means, variances, and how segments differ."""
        held, total = np.flatnonzero(partial.counts), max(1, partial.n_rows)
        counts = partial.counts[held]
        segment_means = partial.sums[held] / counts[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            means = partial.sums.sum(axis=0) / total
            square = partial.squares / total
            variances = np.maximum(square - means**2, 0.0)
            variances[variances <= 1e-12 * square] = 0.0  # rounding
            ratios = np.ones(len(means))
            if len(held) > 1:
                ratios = scatter_ratio(counts, segment_means, variances)
        return RowProfileResult(partial.n_rows, means, variances, ratios, held, counts, segment_means)

    def partial_nbytes(self, dim: int) -> int:
        """One number for each quantity and segment."""
        q, s = max(part.stop for part in self.parts(dim).values()), self.segments.count
        return int(8 * (s + (s + 1) * q))


def _along(frame: Frame, about: Plane, X: NDArray[np.floating[Any]], along: NDArray[np.float64]) -> NDArray[np.float64]:
    """v·x of every row for a frame, which may be about the same normal."""
    return along if np.array_equal(frame.plane.normal, about.normal) else frame.coordinates(X)
