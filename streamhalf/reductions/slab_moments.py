"""Per slab of the signed margin, the moments of what is orthogonal to the direction."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from streamhalf.data.block import Block
from streamhalf.errors import UsageError
from streamhalf.kernels.margins import margins
from streamhalf.kernels.monomials import count_monomials, degree_offset
from streamhalf.kernels.plane import Plane, are_wrong
from streamhalf.kernels.slabs import (
    SlabOrder,
    assign_slabs,
    complement_basis,
    slab_extremes,
    split_basis,
    sum_slab_monomials,
)
from streamhalf.reductions.base import Reduction

LARGEST_EDGE = 3.0  # Beyond this margin N(0, 1) has 0.3% of its mass: one slab on each side takes the rest
SMALLEST_ERROR = 2e-3  # Below this error the slabs nearest to the boundary get no finer
TAILS = (0.95, 0.98, 0.995)  # Shares of the rows that have smaller margins along a second direction, for the last edges


def certificate_edges(error: float, *, ratio: float = 1.06) -> NDArray[np.float64]:
    """Signed slab edges for the certificate: geometric on both sides of 0, and 0 itself.

    The slabs next to the boundary are 1/60 of the direction's `error` wide, so that they resolve the
    angles at which a better halfspace could hide; `ratio` is the quotient of neighbouring edges.
    """
    first = max(error, SMALLEST_ERROR) / 60
    count = math.ceil(math.log(LARGEST_EDGE / first) / math.log(ratio)) + 1
    positive = first * ratio ** np.arange(count)
    return np.concatenate([-positive[::-1], [0.0], positive])


def across_edges(count: int) -> NDArray[np.float64]:
    """So many edges on either side of 0, and 0 itself, for margins along a second direction.

    Equal shares of N(0, 1), with finer ones in the tails.
    """
    shares = np.concatenate([np.linspace(0, 0.9, count - 2)[1:], TAILS])
    positive = ndtri((1 + shares) / 2)
    return np.concatenate([-positive[::-1], [0.0], positive])


@dataclass(frozen=True, slots=True, eq=False)
class SlabMomentsPartial:
    """Sums over some rows: counts int64, sums float64 (n_slabs, n_monomials).

    `low` and `high` (coordinates, n_slabs) are extremes of what is sliced: z, and q if there is a
    second direction. `errors` int64 (4,) are as in `SlabStatistics`.
    """

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    errors: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True, eq=False)
class SlabStatistics:
    """Statistics of all rows for the certificate.

    z = y (v·x - t) is the signed margin, q = y u·x that along a second direction u orthogonal to v,
    if there is one, and s the part of y x orthogonal to both, in the coordinates of
    `complement_basis`. `low` and `high` are the smallest and largest z met in the slab, `across`
    (2, n_slabs) those of q, and `labels` the label of its rows, 0 where both are in it. Every
    `n_side` slabs lie side by side along z. `errors` counts those of sgn(v·x - t), of sgn(t - v·x),
    and of both for t = 0, with sgn(0) = +1 in all. Rows may have been off by `rounding` |x|.
    """

    dim: int
    degree: int
    threshold: float
    labels: NDArray[np.int8]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    errors: tuple[int, ...]
    n_side: int
    across: NDArray[np.float64] | None = None
    rounding: float = 0.0

    @property
    def rest(self) -> int:
        """Coordinates of s."""
        return self.dim - (1 if self.across is None else 2)

    @property
    def strips(self) -> NDArray[np.int64]:
        """Number of the strip along z that each slab is of."""
        return np.arange(len(self.counts)) // self.n_side

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def n_errors(self) -> int:
        return self.errors[0]

    @property
    def error(self) -> float:
        """Share of rows on which sgn(v·x - t) errs."""
        return self.n_errors / max(1, self.n_rows)

    @property
    def by_label(self) -> bool:
        """True if every slab holds rows of one label."""
        return bool(self.labels.all())

    def central(self) -> SlabStatistics:
        """The same for halfspaces without a threshold: slabs of y v·x whatever the label."""
        if not self.by_label:
            return self
        shift = self.threshold * self.labels
        found = replace(
            self,
            threshold=0.0,
            labels=np.zeros_like(self.labels),
            low=self.low + shift,
            high=self.high + shift,
            errors=self.errors[2:] * 2,
        )
        return found if self.threshold else found.joined(len(self.counts) // 2)

    def upto(self, degree: int) -> SlabStatistics:
        """The same without moments of a higher degree."""
        if degree >= self.degree:
            return self
        return replace(self, degree=degree, sums=self.sums[:, : count_monomials(self.rest, degree)])

    def with_constant(self, size: float) -> SlabStatistics:
        """The same with a further feature that is `size` in every row; labels are joined.

        Slabs of one label each know the moments of such a feature, y times its size.
        """
        sign = size * self.labels.astype(np.float64)[:, None]
        parts = []
        for m in range(self.degree + 1):
            for power in range(m + 1):  # the new variable is the last
                others = slice(degree_offset(self.rest, m - power), count_monomials(self.rest, m - power))
                parts.append(self.sums[:, others] * sign**power)
        wider = replace(self, dim=self.dim + 1, labels=np.zeros_like(self.labels), sums=np.concatenate(parts, axis=1))
        return wider.joined(len(self.counts) // 2)

    def joined(self, distance: int) -> SlabStatistics:
        """Every slab below `distance` as one with the slab so far behind it."""
        near, far, across = slice(0, distance), slice(distance, 2 * distance), self.across
        if across is not None:
            low, high = across
            across = np.stack([np.minimum(low[near], low[far]), np.maximum(high[near], high[far])])
        return replace(
            self,
            labels=self.labels[near],
            counts=self.counts[near] + self.counts[far],
            sums=self.sums[near] + self.sums[far],
            low=np.minimum(self.low[near], self.low[far]),
            high=np.maximum(self.high[near], self.high[far]),
            across=across,
        )


@dataclass(frozen=True, slots=True, eq=False)
class SlabMoments(Reduction[SlabMomentsPartial, SlabStatistics]):
    """Counts and packed moments of s, per slab of z (all that the certificate needs).

    Everything is taken in float64 whatever the data, and the slab keeps the extremes of z it
    met, so no bound depends on how a row next to an edge was rounded. What rounding moves by
    about 1e-15 |x| is allowed for in the bound, which holds for the rows as they are.

    `plane` has a unit vector v and a threshold t; `edges` of z rise, 0 among them; the `degree` is even.
    With `by_label` rows of either label have slabs of their own, first those with y = 1: halfspaces with
    other thresholds need them. `across` is a second direction, of which the part orthogonal to v is taken,
    and rising edges of the margin along it: slabs are boxes then. `rounding` is how far rows may be from
    those that are spoken of, over their length: what put them into a transform has rounded them.
    """

    plane: Plane
    edges: NDArray[np.float64]
    degree: int = 4
    by_label: bool = True
    across: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    rounding: float = 0.0

    def __post_init__(self) -> None:
        if 0.0 not in self.edges or (np.diff(self.edges) <= 0).any():
            raise UsageError(f"edges must rise and contain 0, got {self.edges}")
        if self.degree < 2 or self.degree % 2:
            raise UsageError(f"degree must be even and at least 2, got {self.degree}")
        if not abs(self.plane.length - 1) < 1e-9:
            raise UsageError(f"direction must have length 1, got {self.plane.length}: divide by it")
        if self.plane.threshold and not self.by_label:
            raise UsageError(f"threshold must be 0 for slabs of both labels, got {self.plane.threshold}")

    @property
    def name(self) -> str:
        return f"slab-moments-{self.degree}"

    @property
    def n_side(self) -> int:
        return len(self.edges) + 1

    @property
    def n_slabs(self) -> int:
        """How many slabs the edges make, for both labels if that matters."""
        strips = 1 if self.across is None else len(self.across[1]) + 1
        return self.n_side * strips * (2 if self.by_label else 1)

    @property
    def _n_sliced(self) -> int:
        return 1 if self.across is None else 2

    def empty(self, dim: int) -> SlabMomentsPartial:
        shape = (self._n_sliced, self.n_slabs)
        return SlabMomentsPartial(
            np.zeros(self.n_slabs, dtype=np.int64),
            np.zeros((self.n_slabs, count_monomials(dim - self._n_sliced, self.degree))),
            np.full(shape, np.inf),
            np.full(shape, -np.inf),
            np.zeros(4, dtype=np.int64),
        )

    def map(self, block: Block) -> SlabMomentsPartial:
        return self.add_to(self.empty(block.dim), block)

    def add_to(self, partial: SlabMomentsPartial, block: Block) -> SlabMomentsPartial:
        """Add a block to a partial that nobody else holds: its sums, which are large, stay where they are."""
        v = self.plane.normal
        along = margins(block.X, v)
        margin = along - self.plane.threshold
        z = margin * block.y
        slab, sliced, basis = assign_slabs(z, self.edges), [z], complement_basis(v)
        if self.across is not None:
            direction, edges = self.across
            second, basis = split_basis(basis, direction)
            sliced.append(margins(block.X, second) * block.y)
            slab += np.int32(self.n_side) * assign_slabs(sliced[1], edges)
        if self.by_label:
            slab += np.int32(self.n_slabs // 2) * (block.y < 0)
        order = SlabOrder.of(slab, self.n_slabs)
        wrong = [are_wrong(one, block.y) for one in (margin, -margin, along, -along)]
        low, high = zip(*(slab_extremes(one, order) for one in sliced), strict=True)
        sum_slab_monomials(block.X, block.y, basis, order, self.degree, partial.sums)
        return SlabMomentsPartial(
            partial.counts + order.counts,
            partial.sums,
            np.minimum(partial.low, low),
            np.maximum(partial.high, high),
            partial.errors + np.array([np.count_nonzero(one) for one in wrong], dtype=np.int64),
        )

    def combine(self, *parts: SlabMomentsPartial) -> SlabMomentsPartial:
        """Copy the sums, which are large, once."""
        sums = parts[0].sums + parts[1].sums
        for part in parts[2:]:
            sums += part.sums
        return SlabMomentsPartial(
            np.add.reduce([part.counts for part in parts]),
            sums,
            np.minimum.reduce([part.low for part in parts]),
            np.maximum.reduce([part.high for part in parts]),
            np.add.reduce([part.errors for part in parts]),
        )

    def finalize(self, partial: SlabMomentsPartial) -> SlabStatistics:
        signs = [1, -1] if self.by_label else [0]
        low, high = partial.low, partial.high
        return SlabStatistics(
            dim=self.plane.dim,
            degree=self.degree,
            threshold=self.plane.threshold,
            labels=np.repeat(np.array(signs, dtype=np.int8), self.n_slabs // len(signs)),
            counts=partial.counts,
            sums=partial.sums,
            low=low[0],
            high=high[0],
            errors=tuple(partial.errors.tolist()),
            n_side=self.n_side,
            across=None if self.across is None else np.stack([low[1], high[1]]),
            rounding=self.rounding,
        )

    def partial_nbytes(self, dim: int) -> int:
        sliced = self._n_sliced
        return 8 * self.n_slabs * (1 + 2 * sliced + count_monomials(dim - sliced, self.degree)) + 32
