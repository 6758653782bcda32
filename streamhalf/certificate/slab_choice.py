"""Which slabs `certificate_memory` and the rows allow: ratio of edges, degree, rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from streamhalf.config import RunConfig
from streamhalf.engine.memory import TASK_NBYTES
from streamhalf.errors import MemoryBudgetError
from streamhalf.kernels.monomials import count_monomials
from streamhalf.kernels.plane import Plane
from streamhalf.reductions.slab_moments import SlabMoments, across_edges, certificate_edges

RATIOS = (1.04, 1.06, 1.1, 1.15, 1.25, 1.4, 1.6, 2.0, 3.0, 5.0)
"""Quotients of neighbouring slab edges, finest first."""

BOXES = ((1.1, 16), (1.15, 12), (1.25, 10), (1.4, 8))
"""The same, and edges on either side of 0 along a second direction, for slabs that are boxes."""

BOX_DEGREE = 4

PARTIALS_AT_ONCE = 5
"""Partials of the certificate pass that a task holds at its height, one to spare."""

_LARGE = TASK_NBYTES // 4

_CHEAP_MONOMIALS = 220

_ENOUGH_ROWS = {4: (1 << 22, 300), 6: (1 << 19, 100)}
"""By degree: rows, and rows for each d² / error. Sampling noise in the moments begins to cost at
30 d² / error; of more rows than these bounds gain less than the pass costs."""


def certificate_share(rows: int | str, *, n_rows: int, dim: int, error: float, degree: int = 4) -> float:
    """Share of the rows behind slab moments, for a `certificate_rows` of the configuration."""
    if rows == "all":
        return 1.0
    if rows == "auto":
        least, per_square = _ENOUGH_ROWS[6 if degree > 4 else 4]
        rows = max(least, math.ceil(per_square * dim**2 / max(error, 1e-6)))
    return min(1.0, int(rows) / max(1, n_rows))


def certificate_degree(degree: int | str, dim: int) -> int:
    """Degree of the slab moments, for a `certificate_degree` of the configuration.

    Degree 6 up to ten features: with more the pass has too many monomials of half the degree to
    multiply with each other.
    """
    if degree != "auto":
        return int(degree)
    return 6 if count_monomials(dim - 1, 3) <= _CHEAP_MONOMIALS else 4


def within_room(config: RunConfig, dim: int) -> RunConfig:
    """The same, without a certificate where there is no room for one and no degree was named."""
    if config.certificate_degree == 0:
        return config
    if config.certificate_degree == "auto" and least_nbytes(dim) > config.certificate_memory:
        return replace(config, certificate_degree=0)
    require_room(dim, config.certificate_memory)
    return config


def require_room(dim: int, memory: int) -> None:
    """Refuse, before anything is read, a certificate whose coarsest slabs are too large."""
    if least_nbytes(dim) > memory:
        raise no_room_for_slabs(dim, memory)


def no_room_for_slabs(dim: int, memory: int) -> MemoryBudgetError:
    """The error of a certificate that cannot be had."""
    return MemoryBudgetError(
        f"certificate_memory: {memory / 2**20:,.0f} MiB; the coarsest slabs of a certificate of "
        f"{dim} features take {math.ceil(least_nbytes(dim) / 2**20):,} MiB; raise "
        "certificate_memory, or do without a certificate (certificate_degree 0)"
    )


def fan_in(nbytes: int, split_every: int) -> int:
    """How many partials of this size one task combines: large ones in pairs.

    A task holds two more than it combines.
    """
    return 2 if (split_every + 2) * nbytes > _LARGE else split_every


def held_by_certificate(config: RunConfig, dim: int) -> int:
    """Return the most bytes that the partials of the certificate pass take in a task."""
    if within_room(config, dim).certificate_degree == 0:
        return 0
    degree = certificate_degree(config.certificate_degree, dim)
    most = config.certificate_memory // PARTIALS_AT_ONCE
    sets = [
        _slabs(dim, RATIOS[0], one).partial_nbytes(dim)
        for one in {degree, 2}
        if _slabs(dim, RATIOS[-1], one, error=0.5).partial_nbytes(dim) <= most
    ]
    total = sum(min(most, 2 * nbytes) for nbytes in sets)  # about two planes
    if dim > 2:
        ratio, count = BOXES[0]
        across = (np.eye(2, dim)[1], across_edges(count))
        boxes = replace(_slabs(dim, ratio, min(degree, BOX_DEGREE)), across=across)
        sets.append(boxes.partial_nbytes(dim))
        total = max(total, sum(min(most // 2, nbytes) for nbytes in sets))
    return max(4 * total, min((config.split_every + 2) * total, _LARGE))


def _slabs(dim: int, ratio: float, degree: int, *, error: float = 0.0) -> SlabMoments:
    """Slabs about some plane; a smaller error takes more of them."""
    return SlabMoments(Plane(np.eye(1, dim)[0]), certificate_edges(error, ratio=ratio), degree)


def least_nbytes(dim: int) -> int:
    """Memory of a task for the coarsest slabs of degree 2, for any error."""
    return PARTIALS_AT_ONCE * _slabs(dim, RATIOS[-1], 2).partial_nbytes(dim)
