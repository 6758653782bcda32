"""Which halfspace of several: the one with the fewest errors, unless chance may have put it ahead.

A gain within one standard error, of the rows on which two halfspaces disagree, goes to the one that
there is a better reason to expect it from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from streamhalf.algorithms.baselines import Baseline, learn_baselines
from streamhalf.data.block import Block
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.base import Summed
from streamhalf.reductions.errors import PlaneErrors, PlaneErrorsResult

FEW_TO_CHOOSE = 1 << 12
"""Fewer rows that are held out would choose among methods by chance: rows for learning choose."""

_FOLDS = 5


def choose(found: PlaneErrorsResult, favourites: Sequence[int]) -> int:
    """The plane with the fewest errors, or the best of the favourites if it is hardly behind."""
    best = int(np.argmin(found.errors))
    favourite = min(favourites, key=lambda i: int(found.errors[i]), default=best)
    gain = int(found.errors[favourite] - found.errors[best])
    return favourite if gain <= math.sqrt(found.disagreements(favourite, best)) else best


def cross_fit(
    block: Block,
    members: Sequence[Baseline],
    *,
    seed: int,
    point: NDArray[np.float64] | None = None,
) -> Baseline:
    """The member whose method does best on rows that it was not learnt from, fold by fold.

    The first member, which every pool has, is the favourite.
    """
    fold = (uniforms_at(seed, Stream.FOLDS, block.rows) * _FOLDS).astype(np.int64)
    apart = [fold == number for number in range(_FOLDS)]
    pools = [
        {
            one.method: one.plane
            for one in learn_baselines(block.select(~out), seed=seed, point=point)
        }
        for out in apart
    ]
    common = [one for one in members if all(one.method in pool for pool in pools)]
    counted = [
        PlaneErrors(tuple(pool[one.method] for one in common), block.n_rows).map(block.select(out))
        for out, pool in zip(apart, pools, strict=True)
    ]
    return common[choose(reduce(Summed().combine, counted), [0])]
