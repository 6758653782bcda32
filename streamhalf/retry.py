"""Retries of storage operations; obstore has its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from errno import EDQUOT, EFBIG, ELOOP, ENAMETOOLONG, ENOSPC, EROFS
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger("streamhalf")

DELAYS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before further attempts: for a store that is back within a quarter of a minute."""

_PATIENCE = 30.0
"""Seconds after which no further attempt begins: storage libraries retry themselves too."""

_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_PERMANENT_CODES = {ENOSPC, EDQUOT, EROFS, EFBIG, ENAMETOOLONG, ELOOP}


def is_transient(error: BaseException) -> bool:
    """Return True if another attempt may succeed: a fault of the connection, not of the content."""
    if isinstance(error, _PERMANENT):
        return False
    if isinstance(error, OSError):
        return error.errno not in _PERMANENT_CODES
    kind = type(error)
    library = kind.__module__.split(".")[0]
    return library in {"aiohttp", "botocore", "aiobotocore"} and "Credential" not in kind.__name__


def retrying(call: Callable[[], T]) -> T:
    """Call, and call again after a transient error, with growing pauses."""
    deadline = time.monotonic() + _PATIENCE
    for delay in DELAYS:
        try:
            return call()
        except Exception as error:
            if not is_transient(error) or time.monotonic() > deadline:
                raise
            # no more than its kind: its text may hold what a URL holds
            logger.warning("storage: %s; trying again in %g s", type(error).__name__, delay)
            time.sleep(delay)
    return call()
