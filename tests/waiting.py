"""Waiting for what happens elsewhere: as long as a busy machine may need, and no longer."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable

PATIENCE = 300.0


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = PATIENCE) -> None:
    """Look at a condition until it holds; fail with what never happened."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.02)


def fetch(url: str) -> str:
    """Return the text at an address."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
        return text
