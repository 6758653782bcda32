"""Contexts of testers, one of each stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamhalf import RunConfig
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.results import Stage
from streamhalf.testers import Context

PLANES = (Plane(np.array([0.6, 0.0, 0.8])), Plane(np.array([0.0, 1.0, 0.0]), 0.2))


def make_context(stage: Stage, **changes: Any) -> Context:
    """A pass of 20,000 rows of three features at eps 0.2, tau 0.008."""
    own: dict[str, Any] = {}
    if stage is Stage.UPDATE:
        own = {"frame": Frame(PLANES[0], 0.25)}
    if stage is Stage.FINAL:
        own = {"candidates": PLANES, "most_candidates": 4}
    values = {
        "stage": stage,
        "config": RunConfig(seed=3),
        "dim": 3,
        "n_rows": 20_000,
        "total_rows": 60_000,
        "eps": 0.2,
        "tau": 0.008,
    }
    return Context(**(values | own | changes))
