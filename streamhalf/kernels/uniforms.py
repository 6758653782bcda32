"""Uniform numbers that depend on (seed, stream, global row number) and on nothing else."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

_WORDS_PER_COUNTER = 4  # Philox 4x64 makes four words from one counter value
_WIDE_GAP = 1024  # beyond it going on costs less than numbers that nobody asked for


def uniforms_at(seed: int, stream: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one number in [0, 1) for each of the rising row numbers `rows`.

    The counter of the generator is the row number, so a task that runs again, another chunking or
    another cluster draws the same numbers. Rows that lie far apart are drawn piece by piece.
    """
    if len(rows) == 0:
        return np.empty(0)
    cuts = [0, len(rows)]
    if rows[-1] - rows[0] >= len(rows) + _WIDE_GAP:
        cuts[1:1] = (np.flatnonzero(np.diff(rows) > _WIDE_GAP) + 1).tolist()
    reached = int(rows[0]) // _WORDS_PER_COUNTER
    philox = np.random.Philox(counter=reached, key=_key(seed, stream))
    generator = np.random.Generator(philox)
    result = np.empty(len(rows))
    for begin, end in itertools.pairwise(cuts):
        first, last = int(rows[begin]), int(rows[end - 1])
        counter, skip = divmod(first, _WORDS_PER_COUNTER)
        philox.advance(counter - reached)
        drawn = generator.random(skip + last - first + 1)[skip:]  # one word each, upper 53 bits
        gapless = len(drawn) == end - begin
        result[begin:end] = drawn if gapless else drawn[rows[begin:end] - first]
        reached = last // _WORDS_PER_COUNTER + 1
    return result


def generator_of(seed: int, stream: int) -> np.random.Generator:
    """A generator for what is drawn once and not row by row."""
    return np.random.Generator(np.random.Philox(key=_key(seed, stream)))


def _key(seed: int, stream: int) -> int:
    """Pack seed and stream into the generator's 128-bit key."""
    return (seed % 2**64) | (stream % 2**64) << 64
