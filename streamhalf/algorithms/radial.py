"""The radial transform, estimated: a fixed point on rows in memory, then a few passes over more.

A step takes the error of the shape down to 2 / (d + 2) of it where directions are spread evenly, so
what the rows in memory leave over is soon gone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.config import RunConfig
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.data.source import Source
from streamhalf.data.transforms import Radial
from streamhalf.data.transforms.involved import involved, name_features, require_more_rows
from streamhalf.engine.memory import partial_limit
from streamhalf.engine.run import Run
from streamhalf.errors import TransformError
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import generator_of
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_sample import RowSample
from streamhalf.reductions.row_view import Sample, sampled
from streamhalf.reductions.tyler import Tyler, TylerSums
from streamhalf.results import HalfspaceClass

_SAMPLE_ROWS, _SAMPLE_PER_FEATURE = 1 << 16, 64
_PASS_ROWS, _PASS_PER_FEATURE, _PASS_SHARE = 1 << 19, 1 << 11, 4
"""Rows in memory, and rows of a pass, a quarter of all at least: the shape is off by about
sqrt(d / rows), and the centre by 1 / sqrt(rows) along a direction, which adds 0.4 of that to the
error of a halfspace through it."""

_WINDOWS = 256
"""Windows that rows are read from, one in each of so many equal segments."""

_MOST_STEPS, _SETTLED = 100, 1e-5
_MOST_PASSES, _NEAR = 4, 0.003
"""Passes end when entries of the spread are off by less than this before the last step."""

_UNEVEN = 0.05
"""A direction with so much less than its share of the spread means: no radial transform."""

_LEAST_SPREAD = 1e-10
"""Below this share of the even spread, features are linearly dependent."""


_LEAST_SCALE = 1e-150
"""Below it, squares of what features differ by are lost."""


def estimate_radial(
    run: Run,
    source: Source,
    config: RunConfig,
    blocks: RowRanges | None = None,
    *,
    held_out: float = 0.0,
) -> Radial:
    """The radial transform of the rows.

    Parameters
    ----------
    run, source, config
        Where, of what, and about which centre.
    blocks
        The rows to estimate it from; by default windows from everywhere, as many as it takes. Of
        more than 2^21 rows a pass reads a quarter, and two to four passes are made.
    held_out
        Share of the rows that are to test the transform and must have no part in it.
    """
    size, centre = _sample_size(config, source.dim), centre_of(config)
    wanted = max(_PASS_ROWS, _PASS_PER_FEATURE * source.dim, source.n_rows // _PASS_SHARE)
    stream = Stream.POSITION_SHARE
    some, more = (
        blocks or windows_over(source, rows, config.seed, stream) for rows in (4 * size, wanted)
    )

    def reduce(name: str, reduction: Reduction[Any, Any], blocks: RowRanges) -> Any:
        fresh = Sample(config.seed, Stream.SHARES, held_out) if held_out > 0 else None
        return run.reduce(name, source, sampled(reduction, fresh), blocks=blocks)

    sample = reduce("radial", RowSample(size, config.seed, Stream.POSITION_SAMPLE), some)
    tyler, sums = settle(sample.block.X, centre=centre)
    for number in range(_MOST_PASSES if sample.n_rows > sample.block.n_rows else 0):
        sums = reduce(f"radial-{number + 2}", tyler, more)
        _require_spread(sums.spread, tyler)
        tyler = _stepped(tyler, sums, centre)
        # the mean of n even directions has about this length
        leans = centre == "auto" and sums.lean**2 * sums.n_rows > 1
        if sums.unevenness < _NEAR and not leans:
            break
    at_centre = sums.n_central / max(1, sums.n_rows)
    return Radial(tyler.centre, tyler.matrix, config.seed, at_centre)


def centre_of(config: RunConfig) -> str:
    """The centre that the configuration asks for: the origin where halfspaces go through it."""
    return "origin" if config.through == HalfspaceClass.ORIGIN else config.centre


def settle(X: NDArray[np.float64], *, centre: str) -> tuple[Tyler, TylerSums]:
    """The fixed point on rows in memory, and what its last step found."""
    block = Block(X, np.ones(len(X), dtype=np.int8), np.arange(len(X), dtype=np.int64))
    tyler = _start(X, centre)
    require_more_rows("radial transform", *X.shape)
    for _ in range(_MOST_STEPS):
        sums = tyler.map(block)
        _require_spread(sums.spread, tyler)
        if max(sums.unevenness, sums.lean if centre == "auto" else 0.0) < _SETTLED:
            break
        tyler = _stepped(tyler, sums, centre)
    if np.linalg.eigvalsh(sums.spread)[0] < 1 - _UNEVEN:
        raise _uneven(tyler, sums)
    return tyler, sums


def _stepped(tyler: Tyler, sums: TylerSums, centre: str) -> Tyler:
    """The next step, unless steps go on without end: shapes then run out of numbers."""
    try:
        found = tyler.step(sums, centre=centre)
    except np.linalg.LinAlgError:
        raise _uneven(tyler, sums) from None
    if not (np.isfinite(found.centre).all() and np.isfinite(found.matrix).all()):
        raise _uneven(tyler, sums)
    return found


def _start(X: NDArray[np.float64], centre: str) -> Tyler:
    """Centre and scales of the features, one by one; a feature that stands still is refused."""
    dim = X.shape[1]
    if len(X) == 0:
        raise TransformError("radial transform: no rows to estimate it from; gather some")
    starts = {"origin": lambda: np.zeros(dim), "mean": lambda: X.mean(axis=0)}
    middle = starts.get(centre, lambda: np.median(X, axis=0))()
    sizes = np.abs(X - middle)
    # about the origin, a constant that is not 0 is a direction like others
    stands = (np.ptp(X, axis=0) == 0) & ((centre != "origin") | (X[0] == 0))
    if still := tuple(int(j) for j in np.flatnonzero(stands)):
        first = still[0]
        raise TransformError(
            f"radial transform: feature {first + 1} is constant ({X[0, first]:.6g}); remove it",
            still,
            constant=True,
        )
    scales = np.array([np.median(size[size > 0]) if size.any() else 1.0 for size in sizes.T])
    if len(least := np.flatnonzero(scales < _LEAST_SCALE)):
        first = int(least[0])
        raise TransformError(
            f"radial transform: feature {first + 1} differs by about {scales[first]:.2g}, limit "
            f"{_LEAST_SCALE:.2g}, from its middle; scale it",
            tuple(int(j) for j in least),
        )
    return Tyler(middle, np.diag(1 / scales))


def _require_spread(spread: NDArray[np.float64], tyler: Tyler) -> None:
    """Refuse features that are linearly dependent."""
    if not np.isfinite(spread).all():
        raise TransformError("radial transform: features are too far apart in scale; scale them")
    values, vectors = np.linalg.eigh(spread)
    if values[0] < _LEAST_SPREAD:
        features = involved(_in_features(vectors[:, 0], tyler))
        raise TransformError(
            f"radial transform: features are linearly dependent (smallest spread of directions "
            f"{max(0.0, values[0]):.2g}, limit {_LEAST_SPREAD:.2g}); look at features "
            f"{name_features(features)} and remove one of them",
            features,
        )


def _uneven(tyler: Tyler, sums: TylerSums) -> TransformError:
    """No map can spread directions evenly if a subspace holds more than its share of the rows."""
    values, vectors = np.linalg.eigh(sums.spread)
    outside = vectors[:, values < max(1 - _UNEVEN / 2, 1.0000001 * values[0])].T
    dim, inner = len(values), len(values) - len(outside)
    weights = [np.abs(_in_features(vector, tyler)) for vector in outside]
    features = involved(np.sum([one / one.max() for one in weights], axis=0))
    return TransformError(
        f"radial transform: directions cannot be spread evenly (spread {values[0]:.2g} of an even "
        f"one, limit {1 - _UNEVEN:g}): about {inner / dim:.1%} of the rows or more lie in a "
        f"subspace of dimension {inner} of {dim}, or next to it; look at features "
        f"{name_features(features)}, which hardly vary there, and remove them, or take another "
        "transform",
        features,
    )


def _in_features(vector: NDArray[np.float64], tyler: Tyler) -> NDArray[np.float64]:
    """The weights of scaled features in a direction of turned rows."""
    scales = 1 / np.linalg.norm(tyler.matrix, axis=0)
    return np.asarray(vector @ tyler.matrix * scales)


def _sample_size(config: RunConfig, dim: int) -> int:
    """Rows in memory: as many as are worth it, and fit."""
    wanted = max(_SAMPLE_ROWS, _SAMPLE_PER_FEATURE * dim)
    return max(2 * dim, min(wanted, partial_limit(config.split_every) // (16 * (dim + 1))))


def windows_over(source: Source, wanted: int, seed: int, stream: Stream) -> RowRanges:
    """Windows from all over the rows, one drawn from each of many equal segments."""
    if 2 * wanted >= source.n_rows:  # to leave out less than half saves nothing worth a word
        return RowRanges.of((RowRange(0, source.n_rows),))
    edges = np.linspace(0, source.n_rows, _WINDOWS + 1).astype(np.int64)
    size = wanted // _WINDOWS
    drawn = generator_of(seed, stream).random(_WINDOWS)
    starts = edges[:-1] + (drawn * (np.diff(edges) - size)).astype(np.int64)
    return RowRanges(np.stack([starts, starts + size], axis=1)).joined()
