"""How close the bounds come for how much searching."""

from __future__ import annotations

import numpy as np

import streamhalf
from scripts.benchmarking.stores import Folder
from scripts.benchmarking.tables import Table
from scripts.benchmarking.timing import take_turns

DIMS, EFFORTS = (10, 32), (0.25, 1.0, 4.0)


def measure(folder: Folder, *, rows: int, rounds: int) -> Table:
    """Fits with and without a certificate; the difference of their times is that of L."""
    lines = []
    for dim in DIMS:
        store = folder.store(rows, dim)
        ratios: dict[float, float | None] = {}

        def fit(effort: float, store: str = store, ratios: dict = ratios) -> None:
            settings = {"certificate_effort": effort} if effort else {"certificate_degree": 0}
            found = streamhalf.fit(store, scheduler="threads", n_workers=2, seed=0, **settings)
            ratios[effort] = found.ratio

        work = {str(effort): lambda e=effort, f=fit: f(e) for effort in (0.0, *EFFORTS)}
        seconds = take_turns(work, rounds=rounds)
        without = np.array(seconds["0.0"])
        for effort in EFFORTS:
            more = float(np.median(np.array(seconds[str(effort)]) - without))
            ratio = ratios[effort]
            lines.append((dim, effort, ratio or "none", float(np.median(without)), more))
    return Table(
        "effort",
        f"U/L by certificate_effort, {rows:,} rows, 5% chow noise, two threads",
        ("d", "certificate_effort", "U/L", "seconds without L", "seconds for L"),
        lines,
    )
