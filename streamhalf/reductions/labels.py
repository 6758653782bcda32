"""Labels counted; the Chow vector E[y x], as a median of means (Algorithm 1, line 5), and E[y]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.reductions.base import Dims, Summed

_SUB_BATCH = 4096


@dataclass(frozen=True, slots=True, eq=False)
class ChowPartial:
    """Rows (groups,) int64 and sums of y x (groups, d) float64 of each group; the sum of y."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    labels: int

    @property
    def n_rows(self) -> int:
        """All rows."""
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True, eq=False)
class ChowResult:
    """The Chow vector, the means of the groups it is the median of, and the mean label."""

    n_rows: int
    vector: NDArray[np.float64]
    group_means: NDArray[np.float64]
    mean_label: float

    dims: ClassVar[Dims] = {"vector": ("feature",), "group_means": ("group", "feature"), "mean_label": ()}


@dataclass(frozen=True, slots=True, eq=False)
class Chow(Summed):
    """Median of means over `n_groups` groups of rows, dealt out by row number."""

    n_groups: int = 15

    name = "chow"

    def empty(self, dim: int) -> ChowPartial:
        """No rows."""
        counts = np.zeros(self.n_groups, dtype=np.int64)
        return ChowPartial(counts, np.zeros((self.n_groups, dim)), 0)

    def map(self, block: Block) -> ChowPartial:
        """Sum y x in each group: one product with a signed indicator matrix."""
        X: NDArray[np.floating[Any]] = block.X
        group = block.rows % self.n_groups
        sums = np.zeros((self.n_groups, block.dim))
        for start in range(0, block.n_rows, _SUB_BATCH):
            window = slice(start, min(start + _SUB_BATCH, block.n_rows))
            signed = np.zeros((self.n_groups, window.stop - start), dtype=X.dtype)
            signed[group[window], np.arange(window.stop - start)] = block.y[window]
            sums += signed @ X[window]
        counts = np.bincount(group, minlength=self.n_groups).astype(np.int64)
        return ChowPartial(counts, sums, int(block.y.sum(dtype=np.int64)))

    def finalize(self, partial: ChowPartial) -> ChowResult:
        """Median over the groups that hold rows."""
        held = partial.counts > 0
        if not held.any():
            return ChowResult(0, np.zeros(partial.sums.shape[1]), partial.sums, 0.0)
        means = partial.sums[held] / partial.counts[held, None]
        n_rows = partial.n_rows
        return ChowResult(n_rows, np.median(means, axis=0), means, partial.labels / n_rows)


@dataclass(frozen=True, slots=True)
class LabelCountsResult:
    """Rows with label +1 and with label -1."""

    positive: int
    negative: int

    dims: ClassVar[Dims] = {"positive": (), "negative": ()}

    @property
    def n_rows(self) -> int:
        """All rows."""
        return self.positive + self.negative


@dataclass(frozen=True, slots=True)
class LabelCounts(Summed):
    """Counts of both labels; exact."""

    name = "labels"

    def empty(self, dim: int) -> LabelCountsResult:
        """No rows."""
        return LabelCountsResult(0, 0)

    def map(self, block: Block) -> LabelCountsResult:
        """Count one block."""
        positive = int(np.count_nonzero(block.y > 0))
        return LabelCountsResult(positive, block.n_rows - positive)
