"""The data behind the documents of version 0.1 under tests/documents, made again from their seeds.

Version 0.1 wrote them with `fit`, `certify` and `test` of these rows and the parameters below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "documents"

Rows = tuple[NDArray[np.float64], NDArray[np.int8]]

PARAMETERS: dict[str, dict[str, Any]] = {
    "fit-accepted": {"eps": 0.25, "certificate_degree": 4},
    "fit-rejected": {"eps": 0.25, "certificate_degree": 4},
    "fit-whitened": {"eps": 0.25, "certificate_degree": 4, "whiten": True, "sampling": "rows"},
    "fit-sorted": {"eps": 0.25, "certificate_degree": 0},
    "fit-few-rows": {},
    "certificate": {"certificate_degree": 4, "whiten": True},
    "test": {},
}
"""By the name of a document; all with the serial scheduler."""

NORMAL, OFFSET = (0.3, 1.2), 0.3
"""The halfspace that `certificate` is of."""


def rows_of(name: str) -> Rows:
    """The rows that a document speaks of."""
    n_rows = {"fit-few-rows": 400, "certificate": 5_000, "test": 3_000}.get(name, 90_000)
    rng = np.random.default_rng(list(PARAMETERS).index(name))
    X = rng.standard_normal((n_rows, 2))
    if name == "fit-rejected":
        X = rng.uniform(-np.sqrt(3), np.sqrt(3), (n_rows, 2))
    y = np.where(X @ [0.6, 0.8] >= 0, 1, -1).astype(np.int8)
    if name == "fit-accepted":  # labels next to the boundary are wrong: updates stop early
        y[np.abs(X @ [0.6, 0.8]) < 0.25] *= -1
    else:
        y[rng.random(n_rows) < 0.05] *= -1
    if name == "fit-sorted":
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    if name in ("fit-whitened", "certificate"):
        X = X * [2.0, 0.5] + [3.0, -1.0]
    return X, y
