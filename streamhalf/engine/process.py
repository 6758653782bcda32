"""What a process that works on tasks settles once, before the first of them."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD = -3, -1, -2  # names in glibc's malloc.h
_KEPT = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 256 << 20), (_TOP_PAD, 64 << 20))


@cache
def keep_buffers() -> bool:
    """Let malloc keep freed chunk buffers instead of giving them back; whether it agreed.

    By default every large buffer is fresh from the kernel, and each of its pages faults on first
    use: for large chunks that costs more than decoding them. glibc only; elsewhere nothing
    happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False  # another C library
    return all(mallopt(name, value) == 1 for name, value in _KEPT)
