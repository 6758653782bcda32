"""Blocks of rows of several dimensions, and ways to cut them into chunks, drawn by Hypothesis."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streamhalf.data.block import Block

DIMS = (1, 2, 3, 7)
MAX_ROWS = 60


def make_block(n_rows: int, dim: int, seed: int, dtype: str = "float64") -> Block:
    """Rows with correlated, shifted, heavy-tailed features: no statistic is trivially zero."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_t(6, (n_rows, dim)) @ rng.standard_normal((dim, dim)) + 0.5).astype(dtype)
    y = np.where(rng.random(n_rows) < 0.6, 1, -1).astype(np.int8)
    block = Block(X, y, np.arange(n_rows, dtype=np.int64))
    for array in (block.X, block.y, block.rows):
        array.setflags(write=False)  # writing into a block fails at once
    return block


@st.composite
def blocks(draw: st.DrawFn, dims: Sequence[int] = DIMS, max_rows: int = MAX_ROWS) -> Block:
    """One to `max_rows` rows of a drawn dimension and precision."""
    n_rows = draw(st.integers(1, max_rows))
    dim, dtype = draw(st.sampled_from(dims)), draw(st.sampled_from(["float32", "float64"]))
    return make_block(n_rows, dim, draw(st.integers(0, 2**32 - 1)), dtype)


@st.composite
def chunkings(draw: st.DrawFn, n_rows: int) -> list[slice]:
    """Consecutive slices that cover the rows; empty and one-row pieces included."""
    cuts = draw(st.lists(st.integers(0, n_rows), max_size=8))
    edges = sorted([0, *cuts, n_rows])
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def cut(block: Block, pieces: list[slice]) -> list[Block]:
    """The block in pieces."""
    return [block.cut(piece) for piece in pieces]


def fold(reduction: Any, block: Block, pieces: list[slice]) -> Any:
    """The partial of the block, combined from left to right of those of its pieces."""
    parts = (reduction.map(piece) for piece in cut(block, pieces))
    return functools.reduce(reduction.combine, parts, reduction.empty(block.dim))


def for_drawn_blocks(check: Callable[[Block, list[slice]], None], *, dims: Sequence[int], max_examples: int) -> None:
    """Call `check` with blocks and chunkings, the same ones every time."""

    @settings(
        max_examples=max_examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        block = data.draw(blocks(dims))
        check(block, data.draw(chunkings(block.n_rows)))

    run()


def at_dimension(example: Any, dim: int) -> Any:
    """An example of this dimension: what is given, or what it makes of the dimension."""
    return example(dim) if callable(example) else example
