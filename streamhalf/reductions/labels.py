"""Labels counted; the Chow vector E[y x], as a median of means (Algorithm 1, line 5), and E[y]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.reductions.base import Dims, Reduction

_SUB_BATCH = 4096


@dataclass(frozen=True, slots=True, eq=False)
class ChowSums:
    """Rows (groups,) int64 and sums of y x (groups, d) float64 of each group; the sum of y."""

    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    labels: int

    dims: ClassVar[Dims] = {"vector": ("feature",), "group_means": ("group", "feature"), "mean_label": ()}

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def group_means(self) -> NDArray[np.float64]:
        """Means of y x over each group; 0 of one without rows."""
        return self.sums / np.maximum(1, self.counts)[:, None]

    @property
    def vector(self) -> NDArray[np.float64]:
        """The Chow vector: the median of the means of groups that hold rows."""
        held = self.counts > 0
        return np.asarray(np.median(self.group_means[held | ~held.any()], axis=0))

    @property
    def mean_label(self) -> float:
        return self.labels / max(1, self.n_rows)


@dataclass(frozen=True, slots=True, eq=False)
class Chow(Reduction[ChowSums, ChowSums]):
    """Median of means over `n_groups` groups of rows, dealt out by row number."""

    n_groups: int = 15

    name = "chow"

    def empty(self, dim: int) -> ChowSums:
        return ChowSums(np.zeros(self.n_groups, dtype=np.int64), np.zeros((self.n_groups, dim)), 0)

    def map(self, block: Block) -> ChowSums:
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
        return ChowSums(counts, sums, int(block.y.sum(dtype=np.int64)))


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Rows with label +1 and with label -1."""

    positive: int
    negative: int

    dims: ClassVar[Dims] = {"positive": (), "negative": ()}

    @property
    def n_rows(self) -> int:
        return self.positive + self.negative


@dataclass(frozen=True, slots=True)
class LabelCounts(Reduction[LabelledRows, LabelledRows]):
    """Counts of both labels; exact."""

    name = "labels"

    def empty(self, dim: int) -> LabelledRows:
        return LabelledRows(0, 0)

    def map(self, block: Block) -> LabelledRows:
        positive = int(np.count_nonzero(block.y > 0))
        return LabelledRows(positive, block.n_rows - positive)
