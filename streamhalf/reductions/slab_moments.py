"""Per slab of the signed margin, the moments of what is orthogonal to the direction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.errors import UsageError
from streamhalf.kernels.margins import wide_margins
from streamhalf.kernels.monomials import count_monomials
from streamhalf.kernels.plane import are_wrong
from streamhalf.kernels.slab_moments import complement_basis, slab_extremes, sum_slab_monomials
from streamhalf.kernels.slabs import SlabOrder, assign_slabs

LARGEST_EDGE = 3.0
"""Beyond this margin N(0, 1) has 0.3% of its mass: one slab on each side takes the rest."""

SMALLEST_ERROR = 2e-3
"""Below this error the slabs nearest to the boundary get no finer."""


def certificate_edges(error: float, *, ratio: float = 1.06) -> NDArray[np.float64]:
    """Signed slab edges for the certificate: geometric on both sides of 0, and 0 itself.

    Parameters
    ----------
    error
        Error of the direction, about; the slabs next to the boundary are 1/60 of it wide, so
        that they resolve the angles at which a better halfspace could hide.
    ratio
        Quotient of neighbouring edges.
    """
    first = max(error, SMALLEST_ERROR) / 60
    count = math.ceil(math.log(LARGEST_EDGE / first) / math.log(ratio)) + 1
    positive = first * ratio ** np.arange(count)
    return np.concatenate([-positive[::-1], [0.0], positive])


@dataclass(frozen=True, slots=True, eq=False)
class SlabMomentsPartial:
    """Sums over some rows: counts int64, sums float64 (n_slabs, n_monomials), extremes of |z|."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n_errors: int
    n_opposite_errors: int


@dataclass(frozen=True, slots=True, eq=False)
class SlabStatistics:
    """What the certificate needs to know of all rows.

    z = v·r is the signed margin and s the part of r = y x orthogonal to v, in the coordinates of
    `complement_basis`. Slabs below `n_negative` hold z < 0, the others z >= 0; `low` and `high`
    are the smallest and largest abs(z) met in the slab. `n_errors` counts the errors of
    sgn(v·x), `n_opposite_errors` those of sgn(-v·x), with sgn(0) = +1 in both.
    """

    dim: int
    degree: int
    n_negative: int
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n_errors: int
    n_opposite_errors: int

    @property
    def n_rows(self) -> int:
        """How many rows were read."""
        return int(self.counts.sum())

    @property
    def error(self) -> float:
        """Share of rows on which sgn(v·x) errs."""
        return self.n_errors / max(1, self.n_rows)


@dataclass(frozen=True, slots=True, eq=False)
class SlabMoments:
    """Counts and packed moments of s, per slab of z (all that the certificate needs).

    Everything is taken in float64 whatever the data, and the slab keeps the extremes of |z| it
    met, so no bound depends on how a row next to an edge was rounded. What rounding moves by
    about 1e-15 |x| is allowed for in the bound, which holds for the rows as they are.

    Parameters
    ----------
    direction
        Unit vector v.
    edges
        Rising slab edges of z, 0 among them, as made by `certificate_edges`.
    degree
        Largest degree of the moments, even.
    """

    direction: NDArray[np.float64]
    edges: NDArray[np.float64]
    degree: int = 4

    def __post_init__(self) -> None:
        if 0.0 not in self.edges or (np.diff(self.edges) <= 0).any():
            raise UsageError(f"edges must rise and contain 0, got {self.edges}")
        if self.degree < 2 or self.degree % 2:
            raise UsageError(f"degree must be even and at least 2, got {self.degree}")
        length = float(np.linalg.norm(self.direction))
        if not abs(length - 1) < 1e-9:
            raise UsageError(f"direction must have length 1, got {length}: divide by it")

    @property
    def name(self) -> str:
        """What the statistic is called."""
        return f"slab-moments-{self.degree}"

    @property
    def n_slabs(self) -> int:
        """How many slabs the edges make, both tails included."""
        return len(self.edges) + 1

    def empty(self, dim: int) -> SlabMomentsPartial:
        """Return the partial of no rows."""
        n_monomials = count_monomials(dim - 1, self.degree)
        return SlabMomentsPartial(
            np.zeros(self.n_slabs, dtype=np.int64),
            np.zeros((self.n_slabs, n_monomials)),
            np.full(self.n_slabs, np.inf),
            np.zeros(self.n_slabs),
            0,
            0,
        )

    def map(self, block: Block) -> SlabMomentsPartial:
        """Return the partial of one block."""
        margin = wide_margins(block.X, self.direction)
        z = margin * block.y
        order = SlabOrder.of(assign_slabs(z, self.edges), self.n_slabs)
        basis = complement_basis(self.direction)
        low, high = slab_extremes(np.abs(z), order)
        return SlabMomentsPartial(
            order.counts,
            sum_slab_monomials(block.X, block.y, basis, order, self.degree),
            low,
            high,
            int(np.count_nonzero(are_wrong(margin, block.y))),
            int(np.count_nonzero(are_wrong(-margin, block.y))),
        )

    def combine(self, left: SlabMomentsPartial, right: SlabMomentsPartial) -> SlabMomentsPartial:
        """Return the partial of both."""
        return SlabMomentsPartial(
            left.counts + right.counts,
            left.sums + right.sums,
            np.minimum(left.low, right.low),
            np.maximum(left.high, right.high),
            left.n_errors + right.n_errors,
            left.n_opposite_errors + right.n_opposite_errors,
        )

    def finalize(self, partial: SlabMomentsPartial) -> SlabStatistics:
        """Return the sums with what names the slabs."""
        return SlabStatistics(
            dim=len(self.direction),
            degree=self.degree,
            n_negative=int(np.searchsorted(self.edges, 0.0)) + 1,
            counts=partial.counts,
            sums=partial.sums,
            low=partial.low,
            high=partial.high,
            n_errors=partial.n_errors,
            n_opposite_errors=partial.n_opposite_errors,
        )

    def rows_used(self, partial: SlabMomentsPartial) -> int:
        """Rows that were summed."""
        return int(partial.counts.sum())

    def partial_nbytes(self, dim: int) -> int:
        """Size of one partial in bytes."""
        return 8 * self.n_slabs * (3 + count_monomials(dim - 1, self.degree)) + 16
