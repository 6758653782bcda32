"""A vector where the rows are too few for any tester: the Chow direction, without a guarantee."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from streamhalf.config import RunConfig
from streamhalf.data.source import Source
from streamhalf.data.whitening import Whitening
from streamhalf.engine.run import Run
from streamhalf.records import FitResult, Halfspace
from streamhalf.reductions.chow import Chow
from streamhalf.reductions.covariance import Covariance

UNVERIFIED = "too few rows for any tester: the Chow direction of all rows, without a guarantee"

_LEAST_RELATIVE_VARIANCE = 1e-10
"""Below this share of the largest (scaled) variance a direction counts as constant."""


def learn_unverified(run: Run, source: Source, config: RunConfig, answer: FitResult) -> FitResult:
    """Add the (whitened) Chow direction of all rows to an answer that has no halfspace.

    The verdict stays what it is. One group, that is a plain mean, takes the place of Algorithm 1's
    median of means: its groups would hold a handful of rows each.
    """
    seen, whitening = source, None
    if config.whiten:
        estimate = run.reduce("whitening", source, Covariance())
        whitening = pseudo_whitening(estimate.mean, estimate.covariance)
        seen = source.whitened(whitening)
    vector = run.reduce("unverified", seen, Chow(1)).vector
    strength = float(np.linalg.norm(vector))
    unit = vector / strength if strength > 0 else np.eye(len(vector))[0]
    plain = Halfspace(tuple(unit.tolist()))
    return replace(
        answer,
        halfspace=plain if whitening is None else whitening.to_raw(unit),
        passes=tuple(run.passes),
        notices=(*answer.notices, UNVERIFIED),
    )


def pseudo_whitening(mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> Whitening:
    """x -> W (x - mean) with the pseudo-inverse root: constant directions are mapped to 0."""
    spread = np.sqrt(np.diag(covariance))
    scale = np.where(spread > _LEAST_RELATIVE_VARIANCE * np.abs(mean), spread, np.inf)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    varying = values > _LEAST_RELATIVE_VARIANCE * max(float(values[-1]), np.finfo(float).tiny)
    kept = vectors[:, varying]
    inverse_root = (kept / np.sqrt(values[varying])) @ kept.T
    return Whitening(mean=mean, matrix=inverse_root / scale)
