"""What a process that works on tasks settles: threads that take turns, and memory that is kept.

For good only in the processes of a cluster's workers: a user's own process is left as it was.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD = -3, -1, -2  # names in glibc's malloc.h
_KEPT = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 256 << 20), (_TOP_PAD, 64 << 20))

_SWITCH_SECONDS = 2e-4
"""Python's 5 ms are too long: a thread that computes gives the interpreter away for microseconds
at a time, too short for another to wake up and take it, so that threads that read would get it
once in 5 ms, and they need it dozens of times for a chunk."""

_switching = threading.Lock()
_under_way: list[None] = []
_before: list[float] = []


def settle_worker() -> bool:
    """Settle a process that is a Dask worker, once and for good; whether this is one."""
    distributed = sys.modules.get("distributed")  # a worker has it; it takes a second to import
    try:
        address: str = distributed.get_worker().address if distributed else ""
    except ValueError:  # no worker's thread
        return False
    if not address or address.startswith("inproc://"):  # a worker in the client's own process
        return False
    _settle()
    return True


@cache
def _settle() -> None:
    sys.setswitchinterval(min(_SWITCH_SECONDS, sys.getswitchinterval()))
    _keep_buffers()


@contextmanager
def eager_switching() -> Iterator[None]:
    """Let threads of this process take turns quickly, as long as any run is under way."""
    with _switching:
        if not _under_way:
            _before.append(sys.getswitchinterval())
            sys.setswitchinterval(min(_SWITCH_SECONDS, _before[-1]))
        _under_way.append(None)
    try:
        yield
    finally:
        with _switching:
            _under_way.pop()
            if not _under_way:
                sys.setswitchinterval(_before.pop())


def _keep_buffers() -> bool:
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
