"""A whole fit and a whole test in bare reads, from few features to many."""

from __future__ import annotations

from typing import Any

import numpy as np

import streamhalf
from scripts.benchmarking.stores import BareReader, Folder
from scripts.benchmarking.tables import Criterion, Table
from scripts.benchmarking.timing import Ratio, take_turns

DIMS = (8, 16, 32, 64, 128, 256, 512)
_MOST = {16: 100.0, 32: 150.0, 64: 300.0, 128: 40.0}
_MOST_NUMBERS = 1 << 27
"""Features of all rows: above 128 features rows get fewer."""


def measure(folder: Folder, *, rows: int, rounds: int) -> Table:
    """Fits and tests with default settings, two threads."""
    lines, criteria = [], []
    for dim in DIMS:
        n_rows = min(rows, _MOST_NUMBERS // dim)
        store = folder.store(n_rows, dim)
        found: list[streamhalf.FitResult] = []

        def fit(store: str = store, found: list[Any] = found) -> None:
            found.append(streamhalf.fit(store, scheduler="threads", n_workers=2, seed=0))

        def test(store: str = store) -> None:
            streamhalf.test(store, scheduler="threads", n_workers=2, seed=0)

        with BareReader() as bare:
            seconds = take_turns(
                {"bare": lambda store=store: bare.seconds(store), "fit": fit, "test": test}, rounds=rounds
            )
        whole = Ratio.of(seconds["fit"], seconds["bare"])
        passes = [sum(one.seconds for one in result.passes) for result in found[1:]]
        lines.append(
            (
                dim,
                n_rows,
                found[-1].verdict.value,
                float(np.median(seconds["fit"])),
                whole,
                Ratio.of(passes, seconds["bare"]),
                Ratio.of(seconds["test"], seconds["bare"]),
            )
        )
        if n_rows == 10**6 and dim in _MOST:
            criteria.append(Criterion(f"fit in bare reads, d = {dim}", whole.median, _MOST[dim]))
        if dim > 64:
            times = Ratio.of(seconds["test"], passes).median
            criteria.append(Criterion(f"test against the fit's passes, d = {dim}", times, 3.0))
    return Table(
        "width",
        "A whole fit with certificate, and a whole test, 5% chow noise, two threads",
        ("d", "rows", "verdict", "seconds", "fit / bare read", "its passes", "test / bare read"),
        lines,
        criteria,
    )
