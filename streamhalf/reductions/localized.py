"""Rejection sampling fused into a reduction (Algorithm 4, lines 1 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.kernels.localize import acceptance_probability, margins, whiten_localized
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Reduction


@dataclass(frozen=True, slots=True, eq=False)
class LocalizedPartial:
    """Rows seen and accepted (int64), and the inner partial of the accepted, whitened rows."""

    n_seen: int
    n_accepted: int
    inner: Any


@dataclass(frozen=True, slots=True, eq=False)
class Localized:
    """An inner reduction over the rows that rejection sampling at (v, delta) accepts, whitened.

    Parameters
    ----------
    inner
        Sees the accepted rows after Sigma^{-1/2}.
    v, delta
        Unit vector and scale of the localisation.
    seed, stream
        Whether a row is accepted depends on these and its row number.
    """

    inner: Reduction[Any, Any]
    v: NDArray[np.float64]
    delta: float
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
        """Accept, whiten, reduce; the accepted rows never leave the task."""
        margin = margins(block.X, self.v)
        uniforms = uniforms_at(self.seed, self.stream, block.rows)
        keep = uniforms < acceptance_probability(margin, self.delta)
        kept = block.select(keep)
        whitened = whiten_localized(kept.X, margin[keep], self.v, self.delta)
        inner = self.inner.map(Block(whitened, kept.y, kept.rows))
        return LocalizedPartial(block.n_rows, kept.n_rows, inner)

    def combine(self, left: LocalizedPartial, right: LocalizedPartial) -> LocalizedPartial:
        """Add counts, combine inside."""
        return LocalizedPartial(
            left.n_seen + right.n_seen,
            left.n_accepted + right.n_accepted,
            self.inner.combine(left.inner, right.inner),
        )

    def finalize(self, partial: LocalizedPartial) -> LocalizedPartial:
        """Counts stay, the inner partial becomes the inner result."""
        inner = self.inner.finalize(partial.inner)
        return LocalizedPartial(partial.n_seen, partial.n_accepted, inner)

    def partial_nbytes(self, dim: int) -> int:
        """The inner size and two words."""
        return self.inner.partial_nbytes(dim) + 16
