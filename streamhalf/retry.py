"""Try again what a network may refuse for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DELAYS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further attempt: a store that is back within a quarter of a minute is met."""

_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


def is_transient(error: BaseException) -> bool:
    """Whether another attempt may succeed: trouble of the connection, not of the content."""
    if isinstance(error, _PERMANENT):
        return False
    if isinstance(error, OSError | TimeoutError):
        return True
    kind = type(error)
    network = kind.__module__.split(".")[0] in {"aiohttp", "botocore", "aiobotocore", "obstore"}
    return network and "Credential" not in kind.__name__


def retrying(call: Callable[[], T]) -> T:
    """Call, and call again after a transient error, with growing pauses."""
    for delay in DELAYS:
        try:
            return call()
        except Exception as error:
            if not is_transient(error):
                raise
            time.sleep(delay)
    return call()
