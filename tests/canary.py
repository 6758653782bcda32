"""Canaries: tests of others' private interfaces that say what changed, and where to mend."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def relying_on(package: str, what: str, *, mend: str) -> Iterator[None]:
    """Turn whatever fails inside into words: which package no longer does what, and who used it."""
    try:
        yield
    except Exception as error:
        version = importlib.metadata.version(package)
        raise AssertionError(
            f"{package} {version} no longer does what is relied upon: {what} "
            f"({type(error).__name__}: {error}); mend {mend}"
        ) from error
