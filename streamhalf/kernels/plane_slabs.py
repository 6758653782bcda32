"""How many rows lie in each slab of equal width along several planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import margins, rough_margins
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
    normals = np.array([plane.normal for plane in planes]) / width
    thresholds = np.array([plane.threshold for plane in planes]) / width
    firsts = np.arange(len(planes), dtype=np.intp)[:, None] * n_slabs
    total = np.zeros(len(planes) * n_slabs, dtype=np.int64)
    for window, scaled, slack in rough_margins(X, normals, thresholds):
        room = slack[:, None].astype(X.dtype)
        scaled -= room
        lower = np.floor(scaled)
        scaled -= lower
        # what overflows compares with nothing, and is looked at again
        near = ~((scaled < 1 - 2 * room) & (room < X.dtype.type(_MOST_ROOM)))
        np.clip(lower, -half_count - 1, half_count, out=lower)
        numbers = np.nan_to_num(lower, copy=False).astype(np.intp)
        numbers += firsts + (half_count + 1)
        for i in np.flatnonzero(near.any(axis=1)).tolist():
            places = np.flatnonzero(near[i])
            along = margins(np.take(X, window.start + places, axis=0), planes[i].normal)
            along -= X.dtype.type(planes[i].threshold)
            numbers[i, places] = number_slabs(along, width, half_count) + firsts[i]
        total += np.bincount(numbers.ravel(), minlength=len(total))
    return total.reshape(len(planes), n_slabs)
