"""A digest of rows that does not depend on how they are chunked: a sum of row hashes mod 2^64."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.margins import frozen
from streamhalf.kernels.row_sketch import LARGEST, RowSketch

_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def digest_rows(
    X: NDArray[np.floating[Any]],
    y: NDArray[np.int8],
    rows: NDArray[np.int64],
    *,
    limit: int = LARGEST,
) -> tuple[int, RowSketch]:
    """Sum over rows, modulo 2^64, of a hash of the row's bits, its label and its number.

    Beside it a sketch of other hashes, of the row's bits and its label alone, up to `limit`.
    Bits are taken 32 at a time: the top bit of a 64-bit word times any odd key is the top bit, and
    two of them, two signs that changed, would cancel.
    """
    from streamhalf.kernels import loops

    keys = column_keys(X.shape[1] * X.itemsize // 4 + 1)
    small, bits = np.empty(len(y), dtype=np.uint64), frozen(X).view(np.uint32)
    total, count = loops.digest(bits, frozen(y), frozen(rows), keys, np.uint64(limit), small)
    return int(total), RowSketch.of(small[:count])


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


@cache
def column_keys(count: int) -> NDArray[np.uint64]:
    """One odd multiplier per word."""
    with np.errstate(over="ignore"):
        keys = mix(np.arange(1, count + 1, dtype=np.uint64) * _ODD) | np.uint64(1)
    keys.setflags(write=False)
    return keys
