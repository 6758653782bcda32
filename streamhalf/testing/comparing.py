"""Partials and results compared number by number, whatever they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamhalf.engine.checkpoint import leaves as leaves


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
    """What rounding is measured by: float32 products are right to a share of the largest sum."""
    arrays = [np.abs(a[np.isfinite(a)]) for a in leaves(partial)]
    return 1 + max(float(a.max(initial=0)) for a in arrays)
