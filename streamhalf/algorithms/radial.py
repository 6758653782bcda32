"""The radial position, estimated: a fixed point on rows in memory, then a few passes over more.

A step takes the error of the shape down to 2 / (d + 2) of it where directions are spread evenly, so
what the rows in memory leave over is soon gone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.config import RunConfig
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.data.positions import Radial
from streamhalf.data.positions.involved import involved, name_features
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.errors import PositionError
from streamhalf.kernels.radii import split_rows
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import generator_of
from streamhalf.planning.run_plan import partial_limit
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_sample import RowSample
from streamhalf.reductions.sampled import Sampled
from streamhalf.reductions.tyler import Tyler, TylerSums

_SAMPLE_ROWS, _SAMPLE_PER_FEATURE = 1 << 16, 64
_SHARE_ROWS, _SHARE_PER_FEATURE = 1 << 19, 1 << 13
"""Rows in memory, and rows of the share: entries of the shape are off by about 1 / sqrt(rows)."""

_WINDOWS = 256
"""Windows of the share, one in each of so many equal stretches of rows."""

_MOST_STEPS, _SETTLED = 100, 1e-5
_MOST_PASSES, _NEAR = 4, 0.003
"""Passes over the share end when the next step would move entries by less than this."""

_UNEVEN = 0.05
"""Directions that are spread no more evenly than this have no radial position."""

_LEAST_SPREAD = 1e-10
"""Below this share of the even spread, features are linearly dependent."""

_IN_SUBSPACE = 1e-3
"""A row is in a subspace if no more of its direction than this is outside."""


def estimate_radial(
    run: Run,
    source: Source,
    config: RunConfig,
    blocks: RowRanges | None = None,
    *,
    held_out: float = 0.0,
) -> Radial:
    """The radial position of the rows.

    Parameters
    ----------
    run, source, config
        Where, of what, and about which centre.
    blocks
        The rows to estimate it from; by default windows from everywhere, as many as it takes.
    held_out
        Share of the rows that are to test the position and must have no part in it.
    """
    blocks = _share(source, config.seed) if blocks is None else blocks

    def reduce(name: str, reduction: Reduction[Any, Any]) -> Any:
        fresh = Sampled(reduction, held_out, 1.0, config.seed, Stream.SHARES)
        return run.reduce(name, source, fresh if held_out > 0 else reduction, blocks=blocks)

    sample = reduce("radial", RowSample(_sample_size(config, source.dim), config.seed))
    tyler, sums = settle(sample.X, centre=config.centre)
    if sample.n_rows > len(sample.X):
        for number in range(_MOST_PASSES):
            sums = reduce(f"radial-{number + 2}", tyler)
            _require_spread(sums.spread, tyler)
            near = max(sums.unevenness, sums.lean if config.centre == "auto" else 0.0) < _NEAR
            tyler = tyler.step(sums, centre=config.centre)
            if near:
                break
    at_centre = sums.n_central / max(1, sums.n_rows)
    return Radial(tyler.centre, tyler.matrix, config.seed, at_centre)


def settle(X: NDArray[np.float64], *, centre: str) -> tuple[Tyler, TylerSums]:
    """The fixed point on rows in memory, and what its last step found."""
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X), dtype=np.int64))
    tyler = _start(X, centre)
    for _ in range(_MOST_STEPS):
        sums = tyler.map(block)
        _require_spread(sums.spread, tyler)
        if max(sums.unevenness, sums.lean if centre == "auto" else 0.0) < _SETTLED:
            break
        tyler = tyler.step(sums, centre=centre)
    if sums.unevenness > _UNEVEN:
        raise _uneven(X, tyler, sums)
    return tyler, sums


def _start(X: NDArray[np.float64], centre: str) -> Tyler:
    """Centre and scales of the features, one by one; a feature that stands still is refused."""
    dim = X.shape[1]
    if len(X) == 0:
        raise PositionError("radial position: no rows to estimate it from; gather some")
    starts = {"origin": lambda: np.zeros(dim), "mean": lambda: X.mean(axis=0)}
    middle = starts.get(centre, lambda: np.median(X, axis=0))()
    sizes = np.abs(X - middle)
    still = tuple(int(j) for j in np.flatnonzero(np.ptp(X, axis=0) == 0))
    if still and centre != "origin":
        first = still[0]
        raise PositionError(
            f"radial position: feature {first + 1} is constant ({X[0, first]:.6g}); remove it",
            still,
        )
    scales = np.array([np.median(size[size > 0]) if size.any() else 1.0 for size in sizes.T])
    return Tyler(middle, np.diag(1 / scales))


def _require_spread(spread: NDArray[np.float64], tyler: Tyler) -> None:
    """Refuse features that are linearly dependent."""
    values, vectors = np.linalg.eigh(spread)
    if values[0] < _LEAST_SPREAD:
        features = involved(_in_features(vectors[:, 0], tyler))
        raise PositionError(
            f"radial position: features are linearly dependent (smallest spread of directions "
            f"{max(0.0, values[0]):.2g}, limit {_LEAST_SPREAD:.2g}); look at features "
            f"{name_features(features)} and remove one of them",
            features,
        )


def _uneven(X: NDArray[np.float64], tyler: Tyler, sums: TylerSums) -> PositionError:
    """The subspace that holds too many rows: no map can spread their directions evenly."""
    dim = X.shape[1]
    values, vectors = np.linalg.eigh(sums.spread)
    outside = vectors[:, values < 1 - _UNEVEN / 2]
    units, lengths = split_rows((X - tyler.centre) @ tyler.matrix.T)
    inside = np.abs(units[lengths > 0] @ outside).max(axis=1, initial=0.0) < _IN_SUBSPACE
    weights = [np.abs(_in_features(vector, tyler)) for vector in outside.T]
    features = involved(np.sum([one / one.max() for one in weights], axis=0))
    return PositionError(
        f"radial position: {inside.mean():.1%} of the rows lie in a subspace of dimension "
        f"{dim - outside.shape[1]} of {dim} (limit {1 - outside.shape[1] / dim:.1%}), so their "
        f"directions cannot be spread evenly; look at features {name_features(features)}, which "
        "hardly vary there, and remove some of them or take another position",
        features,
    )


def _in_features(vector: NDArray[np.float64], tyler: Tyler) -> NDArray[np.float64]:
    """The weights of scaled features in a direction of turned rows."""
    scales = 1 / np.linalg.norm(tyler.matrix, axis=0)
    return np.asarray(vector @ tyler.matrix * scales)


def _sample_size(config: RunConfig, dim: int) -> int:
    """Rows in memory: as many as are worth it, and fit."""
    wanted = max(_SAMPLE_ROWS, _SAMPLE_PER_FEATURE * dim)
    return max(2 * dim, min(wanted, partial_limit(config) // (16 * (dim + 1))))


def _share(source: Source, seed: int) -> RowRanges:
    """Windows from all over the rows, one drawn from each of many equal stretches."""
    n_rows, wanted = source.n_rows, max(_SHARE_ROWS, _SHARE_PER_FEATURE * source.dim)
    if 2 * wanted >= n_rows:  # to leave out less than half saves nothing worth a word
        return RowRanges.of((RowRange(0, n_rows),))
    edges = np.linspace(0, n_rows, _WINDOWS + 1).astype(np.int64)
    size = wanted // _WINDOWS
    room = np.diff(edges) - size
    drawn = generator_of(seed, Stream.POSITION_SHARE).random(_WINDOWS)
    starts = edges[:-1] + (drawn * room).astype(np.int64)
    return RowRanges(np.stack([starts, starts + size], axis=1)).joined()
