"""The decorator of compiled functions."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, *, any_order: bool = False) -> F:
    """Compile at the first call, to run without the interpreter lock; machine code is cached.

    Sums are taken in the order that is written, or in `any_order` that is fast, which machines differ in. Numba renews
    its cache when the file of a function changes, whatever that function calls: compiled functions call those of their
    own file alone.
    """
    fast = {"reassoc", "contract", "nsz"} if any_order else False
    compile_later = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath=fast)
    try:
        return cast(F, compile_later(function))
    except RuntimeError:  # neither the folder of the package nor the user's cache is writable
        settings: Any = numba.config
        settings.CACHE_DIR = tempfile.mkdtemp(prefix="streamhalf-")
        atexit.register(shutil.rmtree, settings.CACHE_DIR, ignore_errors=True)
        return cast(F, compile_later(function))
