"""Compiled loops made ready before they are needed."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache

import numpy as np

from streamhalf import kernels
from streamhalf.kernels.digest import digest_rows
from streamhalf.kernels.margins import count_errors, count_slabs_along, frozen, margins, padded, transform_rows
from streamhalf.kernels.monomials import sum_monomials
from streamhalf.kernels.plane import Frame, FrameSet, Plane
from streamhalf.kernels.slabs import SlabOrder, assign_slabs, scan_thresholds, sum_slab_monomials
from streamhalf.kernels.streams import draw_rows


def warm_up(dtype: str, on_compile: Callable[[], None] = lambda: None) -> None:
    """Compile what a run over rows of this dtype needs in this process, or load it from the cache.

    `on_compile` is called once if anything must be compiled: once per machine, a few seconds. What samples in memory
    need, which are wide, is loaded with its first call.
    """
    from streamhalf.kernels.compiling import listening

    compiling = False

    def tell() -> None:
        nonlocal compiling
        compiling = True
        on_compile()

    collecting = gc.isenabled()
    gc.disable()  # of no use to what Numba imports and links, and a third of the time
    try:
        with listening(tell):
            _touch_all(dtype)
            if compiling:
                _touch_all("float64")
    finally:
        if collecting:
            gc.enable()


@cache
def _touch_all(dtype: str) -> None:
    X, y, rows = frozen(np.ones((1, 1), dtype=dtype)), frozen(np.ones(1, dtype=np.int8)), np.zeros(1, np.int64)
    one, zero = np.ones((1, 1)), np.zeros(1)
    V, shift = padded(one), padded(zero)
    along = margins(X, one)
    transform_rows(X, zero, one)
    count_errors(X, y, one, zero)
    count_slabs_along(X, one, zero, width=1.0, half_count=1)
    slab = assign_slabs(along[0], zero)
    scan_thresholds(X, y, one, zero, zero)
    sum_slab_monomials(X, y, one, SlabOrder.of(slab, 2), 2, np.zeros((2, 3)))
    kernels.loops.sum_slab_products(X, frozen(slab[None]), np.zeros((1, 2, 1)))
    kernels.loops.sum_wedges(X, V, shift, 0.0, 1.0, np.empty((1, 1)), np.zeros(1), one.copy(), one.copy())
    kernels.loops.count_values(X, rows, one, np.zeros((1, 2), np.int64), np.zeros((1, 2)), np.zeros((1, 2)))
    kernels.loops.count_margin_bins(X, y, V, shift, 0, np.zeros((1, 2, 4), np.int64))
    _, uniforms = draw_rows(0, 0, rows, low=0.0, high=1.0)
    frame = Frame(Plane(one[0]), 0.5)
    FrameSet.of([frame], [1.0]).find(X, uniforms)
    frame.to_frame(X, along[0])
    digest_rows(X, y, rows)
    sum_monomials(X, 4)
