"""Seconds of a whole fit, certificate included, in bare reads of its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import streamhalf
from scripts.benchmarking.stores import BareReader, Folder
from scripts.benchmarking.tables import Criterion, Table
from scripts.benchmarking.timing import Ratio, take_turns

DIM = 8
_MOST = {10**7: 10.0, 10**8: 5.0}


def measure(folder: Folder, *, sizes: list[int], rounds: int) -> Table:
    """Fits with eps chosen by the planner, two threads."""
    lines, criteria = [], []
    for rows in sizes:
        store = folder.store(rows, DIM)
        found: list[streamhalf.FitResult] = []
        read: list[int] = []

        def fit(store: str = store, found: list[Any] = found, read: list[int] = read) -> None:
            before = _bytes_read()
            found.append(streamhalf.fit(store, scheduler="threads", n_workers=2, seed=0))
            read.append(_bytes_read() - before)

        with BareReader() as bare:
            seconds = take_turns({"bare": lambda store=store: bare.seconds(store), "fit": fit}, rounds=rounds)
        ratio = Ratio.of(seconds["fit"], seconds["bare"])
        result = found[-1]
        passes = result.passes
        stored = sum(file.stat().st_size for file in Path(store).rglob("*") if file.is_file())
        reads = round(min(read) / stored, 2)
        inside = sum(one.seconds for one in passes) / float(np.median(seconds["fit"]))
        lines.append(
            (
                rows,
                result.verdict.value,
                result.eps,
                float(np.median(seconds["fit"])),
                ratio,
                reads,
                inside,
                result.error.empirical if result.error else None,
                result.ratio,
            )
        )
        if rows in _MOST:
            criteria.append(Criterion(f"fit in bare reads, {rows:.0e}", ratio.median, _MOST[rows]))
            criteria.append(Criterion(f"bytes read in full reads, {rows:.0e}", reads, 2.0))
    return Table(
        "fits",
        f"A whole fit with certificate, d = {DIM}, 5% chow noise, two threads",
        (
            "rows",
            "verdict",
            "eps",
            "seconds",
            "time / bare read",
            "full reads",
            "share of time in passes",
            "error",
            "U/L",
        ),
        lines,
        criteria,
    )


def _bytes_read() -> int:
    """Bytes that this process has read from files so far, as the system counts them."""
    with open("/proc/self/io", encoding="ascii") as counts:
        return int(next(line.split()[1] for line in counts if line.startswith("rchar")))
