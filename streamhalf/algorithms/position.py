"""The position in which rows are tested and learned from, estimated where it must be."""

from __future__ import annotations

from streamhalf.config import RunConfig
from streamhalf.data.positions import Identity, Isotropic, RowMap
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.kernels.streams import Stream
from streamhalf.records import Position
from streamhalf.reductions.covariance import Covariance
from streamhalf.reductions.sampled import Sampled


def estimate_position(
    run: Run, source: Source, config: RunConfig, *, strict: bool = True, held_out: float = 0.0
) -> RowMap:
    """The row map that the configuration asks for.

    Parameters
    ----------
    run, source, config
        Where, on what and how.
    strict
        Refuse features that stand still.
    held_out
        Share of the rows that must have no part in it.
    """
    if config.position is Position.STORED:
        return Identity()
    needs = Sampled(Covariance(), held_out, 1.0, config.seed, Stream.SHARES)
    estimate = run.reduce("whitening", source, needs if held_out else Covariance())
    return Isotropic.from_moments(estimate.mean, estimate.covariance, strict=strict)
