"""How many rows lie in each slab of equal width along several planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import rough_margins
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.slabs import number_slabs

_MOST_ROOM = 0.25
"""Where rounding reaches further than this share of a slab, every row is looked at by itself."""


def count_planes_slabs(
    planes: Sequence[Plane], X: NDArray[np.floating[Any]], width: float, half_count: int
) -> NDArray[np.int64]:
    """Rows in each slab of `number_slabs`, of v·x - t of each plane: (c, 2 half_count + 2).

    One product for all planes settles all rows but those that lie within its rounding of an edge;
    v·x of these is summed row by row, so the counts do not depend on the chunk a row came in.
    """
    n_slabs = 2 * half_count + 2
    normals = np.array([plane.normal for plane in planes])
    thresholds = np.array([plane.threshold for plane in planes])
    rounded = normals.astype(X.dtype), thresholds.astype(X.dtype)
    firsts = np.arange(len(planes), dtype=np.int32) * np.int32(n_slabs)
    total = np.zeros(len(planes) * n_slabs, dtype=np.int64)
    for window, scaled, slack in rough_margins(X, normals / width, thresholds / width):
        with np.errstate(over="ignore", invalid="ignore"):
            room = slack[:, None].astype(X.dtype)
            scaled -= room
            lower = np.floor(scaled)
            scaled -= lower
            # what is not a number compares with nothing, and is looked at again
            settled = scaled < np.where(room < _MOST_ROOM, 1 - 2 * room, -1)
            np.clip(lower, -half_count - 1, half_count, out=lower)
            numbers = lower.astype(np.int32)
        numbers += firsts[:, None] + np.int32(half_count + 1)
        plane, place = np.divmod(np.flatnonzero(~settled), numbers.shape[1])
        rows, some = np.take(X, window.start + place, axis=0), np.take(rounded[0], plane, axis=0)
        along = np.einsum("ij,ij->i", rows, some) - rounded[1][plane]
        numbers[plane, place] = number_slabs(along, width, half_count) + firsts[plane]
        total += np.bincount(numbers.ravel(), minlength=len(total))
    return total.reshape(len(planes), n_slabs)
