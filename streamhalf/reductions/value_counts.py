"""Rows by the value of each feature, in a few bins that a sample of the rows gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import frozen

MOST_VALUES = 8
"""Bins of a feature: its values, if a sample has no more, or eighths of the rows."""


@dataclass(frozen=True, slots=True, eq=False)
class ValueCounts:
    """Rows in each bin of each feature, and the smallest and largest value seen there: (d, b)."""

    counts: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def empty(cls, dim: int) -> ValueCounts:
        shape = (dim, MOST_VALUES)
        return cls(np.zeros(shape, np.int64), np.full(shape, np.inf), np.full(shape, -np.inf))

    def __add__(self, other: ValueCounts) -> ValueCounts:
        return ValueCounts(
            self.counts + other.counts, np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        )


def quantile_edges(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where the bins of each feature begin but the first (d, b - 1), infinite where there is none."""
    edges = np.full((X.shape[1], MOST_VALUES - 1), np.inf)
    for j, values in enumerate(X.T):
        starts = np.unique(values)
        if len(starts) > MOST_VALUES:
            shares = np.linspace(0, 1, MOST_VALUES + 1)[:-1]
            starts = np.unique(np.quantile(values, shares, method="higher"))
        edges[j, : len(starts) - 1] = starts[1:]
    return edges


def count_values(
    X: NDArray[np.floating[Any]], edges: NDArray[np.float64], places: NDArray[np.int64] | None = None
) -> ValueCounts:
    """Count rows, all of them or those at some places, in bins."""
    from streamhalf.kernels import loops

    found = ValueCounts.empty(X.shape[1])
    chosen = np.arange(len(X)) if places is None else places
    loops.count_values(frozen(X), chosen, edges, found.counts, found.low, found.high)
    return found
