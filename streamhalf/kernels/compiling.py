"""The decorator of compiled functions, and a listener to compilation."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numba
from numba.core import event

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


@contextlib.contextmanager
def listening(on_compile: Callable[[], None]) -> Iterator[None]:
    """Call back once if anything is compiled meanwhile."""

    class First(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            if not self.told:
                self.told = True
                on_compile()

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", First()):
        yield
