"""Uniform numbers that depend on (seed, stream, global row number) and on nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WORDS_PER_COUNTER = 4  # Philox 4x64 makes four words from one counter value
_WIDE_GAP = 8192  # beyond it a new start costs less than numbers that nobody asked for


def uniforms_at(seed: int, stream: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one number in [0, 1) for each of the rising row numbers `rows`.

    The counter of the generator is the row number, so a task that runs again, another chunking or
    another cluster draws the same numbers. Rows that lie far apart are drawn piece by piece.
    """
    if len(rows) == 0:
        return np.empty(0)
    if rows[-1] - rows[0] >= len(rows) + _WIDE_GAP:
        edges = np.flatnonzero(np.diff(rows) > _WIDE_GAP) + 1
        if len(edges):
            pieces = np.split(rows, edges)
            return np.concatenate([_draw_span(seed, stream, piece) for piece in pieces])
    return _draw_span(seed, stream, rows)


def _draw_span(seed: int, stream: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Draw from the first to the last row, and keep those of `rows`."""
    first, last = int(rows[0]), int(rows[-1])
    counter, skip = divmod(first, _WORDS_PER_COUNTER)
    generator = np.random.Generator(np.random.Philox(counter=counter, key=_key(seed, stream)))
    drawn = generator.random(skip + last - first + 1)[skip:]  # one word each, its upper 53 bits
    return drawn if len(drawn) == len(rows) else drawn[rows - first]


def generator_of(seed: int, stream: int) -> np.random.Generator:
    """A generator for what is drawn once and not row by row."""
    return np.random.Generator(np.random.Philox(key=_key(seed, stream)))


def _key(seed: int, stream: int) -> int:
    """Pack seed and stream into the generator's 128-bit key."""
    return (seed % 2**64) | (stream % 2**64) << 64
