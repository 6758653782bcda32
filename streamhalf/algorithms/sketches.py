"""Directions that the highest moments of wide data are tested on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import generator_of
from streamhalf.testers.base import Context
from streamhalf.testers.moments import SKETCH_DIRECTIONS, WIDE_DIM


def with_sketch(
    context: Context, anchors: Sequence[NDArray[np.float64]], *, number: int
) -> Context:
    """The context, with directions where features are many; `number` tells draws apart."""
    if context.dim <= WIDE_DIM:
        return context
    directions = sketch_directions(context.dim, anchors, seed=context.config.seed, number=number)
    return replace(context, directions=directions)


def sketch_directions(
    dim: int, anchors: Sequence[NDArray[np.float64]], *, seed: int, number: int
) -> NDArray[np.float64]:
    """Orthonormal rows (m, d): the span of the anchors first, then random directions."""
    rng = generator_of(seed, Stream.SKETCHES + number)
    draws = rng.standard_normal((SKETCH_DIRECTIONS - len(anchors), dim))
    columns = np.vstack([*anchors, draws]).T
    return np.linalg.qr(columns)[0].T
