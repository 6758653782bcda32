"""A share of the rows in whole windows, chosen by the window's number alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamhalf.data.block import Block
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import uniforms_at
from streamhalf.reductions.wrapping import Wrapping

WINDOW_ROWS = 1024
"""Neighbouring rows that are taken or left together: slices, which cost next to nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Windowed(Wrapping):
    """An inner reduction over the windows of rows whose uniform number is below `share`.

    Window w holds the rows w window_rows, ..., (w + 1) window_rows - 1 of the data set, whatever
    the chunking: a fair sample of the data, which another run with the same seed takes again.
    """

    share: float
    seed: int
    stream: int = Stream.CERTIFICATE
    window_rows: int = WINDOW_ROWS

    @property
    def name(self) -> str:
        """The inner name, marked."""
        return f"windowed-{self.inner.name}"

    def map(self, block: Block) -> Any:
        """Reduce the chosen windows."""
        return self.inner.map(block if self.share >= 1 else self._chosen(block))

    def _chosen(self, block: Block) -> Block:
        if block.n_rows == 0:
            return block
        first_window, last_window = block.rows[[0, -1]] // self.window_rows
        windows = np.arange(first_window, last_window + 2)
        cuts = np.searchsorted(block.rows, windows * self.window_rows)
        taken = uniforms_at(self.seed, self.stream, windows[:-1]) < self.share
        # neighbouring windows that are both taken make one slice
        edges = np.diff(taken.astype(np.int8), prepend=0, append=0)
        first, last = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
        pieces = [slice(cuts[a], cuts[b]) for a, b in zip(first, last, strict=True)]
        if len(pieces) == 1:
            return Block(block.X[pieces[0]], block.y[pieces[0]], block.rows[pieces[0]])
        nothing = slice(0, 0)
        return Block(
            *(
                np.concatenate([array[nothing], *(array[piece] for piece in pieces)])
                for array in (block.X, block.y, block.rows)
            )
        )
