"""Runs on the serial engine, for tests of what a driver does with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf import RunConfig, open_source
from streamhalf.data.source import Source
from streamhalf.engine import open_engine
from streamhalf.engine.run import Run
from streamhalf.events import Event

N_ROWS, EPS = 90_000, 0.25


def draw(
    n_rows: int = N_ROWS, *, dim: int = 2, rate: float = 0.05, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Gaussian rows, labels of x1 + x2 >= 0 with a share of them wrong."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, dim))
    y = np.where(X[:, :2].sum(axis=1) >= 0, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < rate] *= -1
    return X, y


@contextmanager
def serial_run(data: tuple[Any, Any], **parameters: Any) -> Iterator[tuple[Run, Source, RunConfig, list[Event]]]:
    """A run, its source and configuration, and the events that it tells."""
    transform = {} if "whiten" in parameters else {"feature_transform": "stored"}
    config = RunConfig(**({"eps": EPS, "certificate_degree": 0} | transform | parameters))
    seen: list[Event] = []
    with open_engine("serial") as engine:
        run = Run(engine, config.memory_limit, config.split_every, seen.append)
        yield run, open_source(data), config, seen


def names_of(run: Run) -> list[str]:
    """The passes that were made."""
    return [record.name for record in run.passes]
