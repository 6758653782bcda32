"""Hypothesis strategies: blocks of rows and ways to cut them into chunks."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from streamhalf.data.block import Block


def make_block(n_rows: int, dim: int, seed: int, dtype: str = "float64") -> Block:
    """Rows with correlated, shifted, heavy-tailed features: no statistic is trivially zero."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_t(6, (n_rows, dim)) @ rng.standard_normal((dim, dim)) + 0.5).astype(dtype)
    y = np.where(rng.random(n_rows) < 0.6, 1, -1).astype(np.int8)
    return Block(X, y, np.arange(n_rows, dtype=np.int64))


@st.composite
def blocks(draw: st.DrawFn, dim: int = 3, max_rows: int = 60) -> Block:
    n_rows = draw(st.integers(1, max_rows))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    return make_block(n_rows, dim, draw(st.integers(0, 2**32 - 1)), dtype)


@st.composite
def chunkings(draw: st.DrawFn, n_rows: int) -> list[slice]:
    """Consecutive slices that cover the rows; empty and one-row pieces included."""
    cuts = draw(st.lists(st.integers(0, n_rows), max_size=8))
    edges = sorted([0, *cuts, n_rows])
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def cut(block: Block, pieces: list[slice]) -> list[Block]:
    return [Block(block.X[p], block.y[p], block.rows[p]) for p in pieces]
