"""Row buffers that are lent to arrays and used again once no array refers to them.

A new buffer for every block of rows would have the kernel clear its pages each time.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEAST_NBYTES = 1 << 20  # smaller ones come from the C library, which keeps them itself
_MOST_FREE = 32

_free: deque[NDArray[np.uint8]] = deque()


class _Loan:
    """Owner of arrays on a buffer; when the last of them goes, the buffer is free again."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory = memory

    # defaults: globals are gone when the interpreter ends
    def __del__(self, free: deque[NDArray[np.uint8]] = _free, most: int = _MOST_FREE) -> None:
        if len(free) < most:
            free.append(self._memory)


def lend(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of undefined values, on a free buffer if there is one of about this size."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < _LEAST_NBYTES or dtype.hasobject:
        return np.empty(shape, dtype=dtype)
    memory = _take(nbytes)
    raw = np.asarray(_Loan(np.empty(nbytes, dtype=np.uint8) if memory is None else memory))
    return raw[:nbytes].view(dtype).reshape(shape)


def _take(nbytes: int) -> NDArray[np.uint8] | None:
    for _ in range(len(_free)):
        try:
            memory = _free.popleft()
        except IndexError:  # another thread took the last one
            return None
        if nbytes <= memory.nbytes <= 2 * nbytes:
            return memory
        _free.append(memory)
    return None


def drop_buffers() -> None:
    """Give the memory of all free buffers back."""
    _free.clear()
