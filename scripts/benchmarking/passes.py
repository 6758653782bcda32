"""Each kind of pass against a bare read of the same chunks with as many threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from scripts.benchmarking.stores import BareReader, Folder, read_bare
from scripts.benchmarking.tables import Criterion, Table
from scripts.benchmarking.timing import Ratio, take_turns
from streamhalf.algorithms.plan import plan_for_rows
from streamhalf.certificate.certification import Certification
from streamhalf.config import RunConfig
from streamhalf.data.opening import open_source
from streamhalf.data.source import Source
from streamhalf.data.transforms import Identity
from streamhalf.engine import open_engine
from streamhalf.engine.run import Run
from streamhalf.events import ignore
from streamhalf.kernels.plane import Frame, Plane
from streamhalf.kernels.streams import Stream
from streamhalf.reductions import Bundle, Chow, Moments, RowDigest, Viewed
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import RowView, Sample
from streamhalf.results import Halfspace, Stage
from streamhalf.testers import TESTERS, TesterSet

THREADS = 2
_CANDIDATES = 9


def reductions(n_rows: int, dim: int) -> dict[str, Reduction[Any, Any]]:
    """Statistics of the passes of a run."""
    rng = np.random.default_rng(0)
    planes = tuple(Plane(vector).unit() for vector in rng.standard_normal((_CANDIDATES, dim)))
    config = RunConfig()
    plan = plan_for_rows(n_rows, dim, config)
    learner, drawn = Bundle((Moments(4), Chow(25))), Sample(0, Stream.UPDATES)
    final = replace(plan.context(Stage.FINAL, config, plan.final_rows), candidates=planes)
    certification = Certification(
        halfspace=Halfspace.of(planes[0]),
        row_transform=Identity(),
        error=0.05,
        degree=4,
        memory=config.certificate_memory,
        planes=(planes[0],),
    )
    return {
        "moments of degree 2": Moments(2),
        "moments of degree 4": Moments(4),
        "localised, delta 0.05": Viewed(learner, RowView(drawn, accept=Frame(planes[0], 0.05))),
        "localised, delta 0.01": Viewed(learner, RowView(drawn, accept=Frame(planes[0], 0.01))),
        f"final, {_CANDIDATES} candidates": TesterSet.of(TESTERS, final).needs(),
        "digest of all rows": RowDigest(n_rows),
        "certificate": certification.needs(n_rows),
    }


def _reduce(run: Run, name: str, source: Source, reduction: Reduction[Any, Any]) -> None:
    run.reduce(name, source, reduction)


def measure(folder: Folder, *, rows: int, rounds: int) -> Table:
    """Throughput of every pass in that of a bare read."""
    lines, criteria = [], []
    for dim in (8, 16, 32):
        store = folder.store(rows * 8 // dim, dim)
        source = open_source(store)
        with open_engine("threads", RunConfig(n_workers=THREADS)) as engine, BareReader(THREADS) as bare_reader:
            run = Run(engine, 4 << 30, 8, ignore)
            work: dict[str, Callable[[], float | None]] = {
                "bare": lambda store=store: bare_reader.seconds(store),
                "bare, same process": lambda store=store: read_bare(store, THREADS),
            }
            for name, reduction in reductions(source.n_rows, dim).items():
                work[name] = partial(_reduce, run, name, source, reduction)
            seconds = take_turns(work, rounds=rounds)
        bare = seconds.pop("bare")
        for name, taken in seconds.items():
            ratio = Ratio.of(bare, taken)
            rate = source.n_rows / float(np.median(taken))
            lines.append((dim, name, ratio, rate / 1e6))
            cheap = "degree 2" in name or "localised" in name
            if dim > 8 and cheap:
                criteria.append(Criterion(f"{name}, d = {dim}", ratio.median, 0.6, at_most=False))
    return Table(
        "passes",
        f"Passes over all rows against a bare warm read, {THREADS} threads",
        ("d", "pass", "throughput / bare read", "million rows/s"),
        lines,
        criteria,
        'The bare read runs in a process of its own. "bare, same process" is the same read in the '
        "process of the passes.",
    )
