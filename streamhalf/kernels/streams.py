"""Uniform numbers that depend on (seed, stream, global row number) alone; every use of them by name.

Each use has streams of its own, and no two share one. A run that tries several transforms takes the same streams in
each: bounds add up over transforms (a union bound), for which they need not be independent.
"""

from __future__ import annotations

import enum
import functools

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, gammaincinv, ndtr, ndtri

from streamhalf import kernels
from streamhalf.kernels.margins import frozen

# The table: a normal variable is beyond 8.5 with probability 1e-17, less than one step of uniforms. Between 4,096
# nodes a straight line is off by less than 1e-6.
_FARTHEST, _STEPS = 8.5, 4096


class Stream(enum.IntEnum):
    """First stream of each use; those between one and the next belong to it."""

    UPDATES = 1  # acceptance in update 0, 1, ... (one stream each)
    STEPS = 2**39  # acceptance in step 0, 1, ... where the final pass tests it again (one stream each)
    # Which rows are held out, and which learning pass takes each: one number for a row; a part of a share is the rows
    # with its smallest numbers.
    SHARES = 2**40
    SLAB_SAMPLE = 2**40 + 1  # rows behind the second moments of slabs
    WEDGE_SAMPLE = 2**40 + 2  # rows behind the wedge bound
    CERTIFICATE = 2**41  # rows behind the certificate
    CHUNK_ORDER = 2**42  # in which order chunks are dealt to passes
    WINDOW_ORDER = 2**42 + 1  # in which order windows of rows are dealt to passes
    PILOT = 2**42 + 2  # windows of rows for a first look, of which a command takes one
    WINDOW_START = 2**42 + 3  # from which window on those of a segment are dealt
    SKETCHES = 2**43  # random directions of the moment sketch in pass 0, 1, ... of wide data (one stream each)
    RADII = 2**44  # distances from the centre in radial transform
    SIGNS = 2**44 + 1  # which rows change to the opposite point in radial transform
    CONFLICTS = 2**44 + 2  # rows that sets in conflict are counted among: none that learning prefers
    POSITION_SHARE = 2**44 + 3  # windows of rows that a transform is estimated from
    BASELINE_SAMPLE = 2**44 + 4  # rows that baselines are learnt from, in memory
    POSITION_SAMPLE = 2**44 + 5  # rows that a radial transform is first estimated from, in memory
    REFINE_SAMPLE = 2**44 + 6  # rows next to a plane that refine learns from
    BASELINE_PART = 2**44 + 7  # part of the baselines' rows that is enough where the path is likely to win
    REGRESSION_SHARE = 2**44 + 8  # windows of rows that a regression of many features takes
    REGRESSION_PART = 2**44 + 9  # rows of few that choose the penalty of a regression in memory
    BASELINES = 2**45  # acceptance on the paths of the baselines (one stream each)
    FOLDS = 2**45 + 2**20  # which rows of few are left out together
    REVIEW = 2**45 + 2**20 + 1  # which rows of each stratum a review draws
    CONFLICT_SAMPLE = 2**45 + 2**20 + 2  # rows among which an audit looks for sets in conflict
    COMPARED = 2**45 + 2**20 + 3  # rows that label issues are compared with, value by value
    AUDIT_SAMPLE = 2**45 + 2**20 + 4  # order of the rows of a first look of an audit, all of which are taken
    SYNTHETIC = int.from_bytes(b"synth", "big") << 8  # directions, features and noise of synthetic data (one each)


def uniforms_at(seed: int, stream: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """One number in [0, 1) for each of the row numbers `rows`.

    The counter of the generator (Philox) is the row number, so a task that runs again, another chunking or another
    cluster draws the same numbers.
    """
    result, nowhere = np.empty(len(rows)), np.empty(0, dtype=np.int64)
    kernels.loops.draw(frozen(rows), _key(seed, stream), 0.0, 1.0, nowhere, result)
    return result


def draw_rows(
    seed: int, stream: int, rows: NDArray[np.int64], *, low: float, high: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places of the rows whose number u lies in [low, high), and (u - low) / (high - low).

    That is a uniform number which is independent of the choice: it can be drawn from once more.
    """
    places, left = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    count = kernels.loops.draw(frozen(rows), _key(seed, stream), float(low), float(high), places, left)
    return places[:count], left[:count]


def generator_of(seed: int, stream: int) -> np.random.Generator:
    """A generator for what is drawn once and not row by row."""
    return np.random.Generator(np.random.Philox(key=_key(seed, stream)))


def turns_at(seed: int, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the rising row numbers change to the opposite point: each with an even chance."""
    return np.asarray(uniforms_at(seed, Stream.SIGNS, rows) < 0.5)


def chi_radii(uniforms: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """The quantiles of the length of an N(0, I) row of `dim` features, all above 0."""
    normal = np.clip(ndtri(uniforms), -_FARTHEST, _FARTHEST)
    place = (normal + _FARTHEST) * (_STEPS / (2 * _FARTHEST))
    node = np.minimum(place.astype(np.int64), _STEPS - 1)
    table = _chi_table(dim)
    low = table[node]
    return np.asarray(low + (place - node) * (table[node + 1] - low))


@functools.lru_cache(maxsize=8)
def _chi_table(dim: int) -> NDArray[np.float64]:
    """Quantiles of chi at the levels of evenly spaced normal quantiles."""
    normal = np.linspace(-_FARTHEST, _FARTHEST, _STEPS + 1)
    lower, upper = gammaincinv(dim / 2, ndtr(normal)), gammainccinv(dim / 2, ndtr(-normal))
    table: NDArray[np.float64] = np.sqrt(2 * np.where(normal < 0, lower, upper))
    table.setflags(write=False)
    return table


def _key(seed: int, stream: int) -> NDArray[np.uint64]:
    return np.array([seed % 2**64, stream % 2**64], dtype=np.uint64)
