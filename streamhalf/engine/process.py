"""Settings of a process while tasks of passes run in it; they end with the last of these."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH_SECONDS = 2e-4
"""Python's 5 ms are too long: a thread that computes gives the interpreter away for microseconds
at a time, too short for another to wake up and take it, so that threads that read would get it
once in 5 ms, and they need it dozens of times for a chunk."""

_switching = threading.Lock()
_under_way: list[None] = []
_before: list[float] = []


@contextmanager
def eager_switching() -> Iterator[None]:
    """Let threads of this process take turns quickly, as long as any run or task is under way."""
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


def trim_memory() -> None:
    """Give memory that is free back to the system, where the C library is glibc."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
