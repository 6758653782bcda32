"""Uniform numbers that depend on (seed, stream, global row number) and on nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import frozen

_NONE = np.empty(0, dtype=np.int64)


def uniforms_at(seed: int, stream: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return one number in [0, 1) for each of the row numbers `rows`.

    The counter of the generator (Philox) is the row number, so a task that runs again, another chunking or another
    cluster draws the same numbers.
    """
    from streamhalf.kernels import loops

    result = np.empty(len(rows))
    loops.draw(frozen(rows), _words(seed, stream), 0.0, 1.0, _NONE, result)
    return result


def draw_rows(
    seed: int, stream: int, rows: NDArray[np.int64], *, low: float, high: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places of the rows whose number u lies in [low, high), and (u - low) / (high - low).

    That is a uniform number which is independent of the choice: it can be drawn from once more.
    """
    from streamhalf.kernels import loops

    places, left = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    count = loops.draw(frozen(rows), _words(seed, stream), float(low), float(high), places, left)
    return places[:count], left[:count]


def generator_of(seed: int, stream: int) -> np.random.Generator:
    """A generator for what is drawn once and not row by row."""
    return np.random.Generator(np.random.Philox(key=_words(seed, stream)))


def _words(seed: int, stream: int) -> NDArray[np.uint64]:
    """Seed and stream as the two words of the generator's key."""
    return np.array([seed % 2**64, stream % 2**64], dtype=np.uint64)
