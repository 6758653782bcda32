"""Rejection sampling fused into a reduction (Algorithm 4, lines 1 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.frame import Frame, find_accepted
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Reduction


@dataclass(frozen=True, slots=True, eq=False)
class LocalizedPartial:
    """Rows seen and accepted (int64), and the inner partial of the accepted rows."""

    n_seen: int
    n_accepted: int
    inner: Any


@dataclass(frozen=True, slots=True, eq=False)
class LocalizedResult:
    """Rows seen and accepted, and the inner result."""

    n_seen: int
    n_accepted: int
    inner: Any


@dataclass(frozen=True, slots=True, eq=False)
class Localized:
    """An inner reduction over the rows that rejection sampling accepts, in the frame.

    Parameters
    ----------
    inner
        Sees the accepted rows as the frame shows them.
    frame
        Plane and scale of the localisation.
    seed, stream
        Whether a row is accepted depends on these and its row number.
    """

    inner: Reduction[Any, Any]
    frame: Frame
    seed: int
    stream: int

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"localized-{self.inner.name}"

    def empty(self, dim: int) -> LocalizedPartial:
        """No rows."""
        return LocalizedPartial(0, 0, self.inner.empty(dim))

    def map(self, block: Block) -> LocalizedPartial:
        """Draw, accept, take to the frame, reduce."""
        return self.map_drawn(block, uniforms_at(self.seed, self.stream, block.rows))

    def map_drawn(self, block: Block, uniforms: NDArray[np.float64]) -> LocalizedPartial:
        """The same with numbers that were drawn; rows whose number is above 1 are not seen."""
        ((places, along),) = find_accepted((self.frame,), block.X, uniforms)
        n_seen = int(np.count_nonzero(uniforms < 1))
        return self.reduce(n_seen, block.take(places), along)

    def reduce(
        self, n_seen: int, kept: Block, along: NDArray[np.floating[Any]]
    ) -> LocalizedPartial:
        """The same with the accepted rows and their v·x; these rows never leave the task."""
        local = Block(self.frame.to_frame(kept.X, along), kept.y, kept.rows)
        return LocalizedPartial(n_seen, kept.n_rows, self.inner.map(local))

    def combine(self, left: LocalizedPartial, right: LocalizedPartial) -> LocalizedPartial:
        """Add counts, combine inside."""
        return LocalizedPartial(
            left.n_seen + right.n_seen,
            left.n_accepted + right.n_accepted,
            self.inner.combine(left.inner, right.inner),
        )

    def finalize(self, partial: LocalizedPartial) -> LocalizedResult:
        """Counts stay, the inner partial becomes the inner result."""
        return LocalizedResult(
            partial.n_seen, partial.n_accepted, self.inner.finalize(partial.inner)
        )

    def rows_used(self, partial: LocalizedPartial) -> int:
        """Rows that were accepted."""
        return partial.n_accepted

    def partial_nbytes(self, dim: int) -> int:
        """The inner size and two words."""
        return self.inner.partial_nbytes(dim) + 16
