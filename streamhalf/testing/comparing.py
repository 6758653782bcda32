"""Partials and results compared number by number, whatever they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf.engine import checkpoint


def leaves(value: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a partial, a structured one field by field."""
    for one in checkpoint.leaves(value):
        yield from _fields(one)


def _fields(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    if array.dtype.names is None:
        yield array
    for name in array.dtype.names or ():
        yield from _fields(array[name])


def assert_close(left: Any, right: Any, *, scale: float) -> None:
    """Equal up to rounding of float32 products, which are right to 1e-7 of the largest sum."""
    for a, b in zip(leaves(left), leaves(right), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * scale)


def assert_identical(left: Any, right: Any) -> None:
    """Equal number by number."""
    for a, b in zip(leaves(left), leaves(right), strict=True):
        np.testing.assert_array_equal(a, b)


def scale_of(partial: Any) -> float:
    """Return the scale of rounding: float32 products are right to a share of the largest sum."""
    arrays = [np.abs(a[np.isfinite(a)]) for a in leaves(partial)]
    return 1 + max(float(a.max(initial=0)) for a in arrays)
