"""The position in which rows are tested and learned from, estimated where it must be."""

from __future__ import annotations

import numpy as np

from streamhalf.config import RunConfig
from streamhalf.data.positions import Identity, Isotropic, RowMap
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.records import Position, Through
from streamhalf.reductions.covariance import Covariance


def estimate_position(
    run: Run, source: Source, config: RunConfig, *, strict: bool = True
) -> RowMap:
    """The row map that the configuration asks for; `strict` refuses features that stand still.

    It is estimated from all rows, whichever are held out: their mean is what halfspaces go
    through, and which rows measure them has no part in it.
    """
    if config.position is Position.STORED:
        return Identity()
    estimate = run.reduce("whitening", source, Covariance())
    if config.through == Through.ORIGIN:  # second moments about it, which stays where it is
        moments = estimate.covariance + np.outer(estimate.mean, estimate.mean)
        return Isotropic.from_moments(np.zeros_like(estimate.mean), moments, strict=strict)
    return Isotropic.from_moments(estimate.mean, estimate.covariance, strict=strict)
