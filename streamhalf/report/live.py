"""A run while it runs: events folded into a value, and that value as HTML without scripts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamhalf import events
from streamhalf.engine.live_messages import RunClosed, decode
from streamhalf.events import SlabsMeasured
from streamhalf.kernels.slabs import masses_about
from streamhalf.report.html import macro
from streamhalf.report.tables import by_tester, deciding
from streamhalf.report.watching import statement_cells
from streamhalf.results import Notice, TestResult, Verdict, replace

_MOST_RUNS = 20


@dataclass(slots=True)
class PassView:
    """A pass under way (`seconds` is what it took so far) or complete (`done`)."""

    name: str
    detail: str
    n_rows: int
    started: float
    rows_done: int = 0
    rows_accepted: int | None = None
    seconds: float = 0.0
    done: bool = False

    @property
    def share(self) -> float:
        """Return how much of it is done, between 0 and 1."""
        return min(1.0, self.rows_done / max(1, self.n_rows))

    @property
    def rows_per_second(self) -> float:
        """Return the speed so far."""
        return self.rows_done / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class TesterView:
    """The test result of a tester that came closest to its limit, or went furthest beyond."""

    worst: TestResult
    n_judged: int


def tester_views(test_results: Iterable[TestResult]) -> dict[str, TesterView]:
    """Return the state of every tester; early warnings until a deciding test has a result."""
    found = by_tester(test_results)
    counted = {name: deciding(own) for name, own in found.items()}
    return {
        name: TesterView(max(own, key=lambda one: (one.has_say, one.severity)), len(own))
        for name, own in counted.items()
    }


@dataclass(slots=True)
class RunView:
    """Everything known of one run."""

    run: str
    at: float
    command: str = "run"
    source: str = ""
    n_rows: int = 0
    dim: int = 0
    notices: tuple[Notice, ...] = ()
    seed: int | None = None
    who: str = ""
    rows_planned: int = 0
    started: float = 0.0
    passes: list[PassView] = field(default_factory=list)
    test_results: list[TestResult] = field(default_factory=list)
    measured: events.SlabsMeasured | None = None
    counted: events.SlabsCounted | None = None
    verdict: Verdict | None = None
    answer: events.Answered | None = None
    watched: events.Watched | None = None
    closed: bool = False
    error: str = ""
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.started = self.at

    @property
    def status(self) -> str:
        """Return the verdict, or the state of a run without one."""
        if self.interrupted:
            return "interrupted"
        if self.error:
            return "failed"
        if self.verdict is not None:
            return str(self.verdict)
        if self.watched is not None:
            return str(self.watched.outcome)
        return "finished" if self.closed else "running"

    @property
    def short(self) -> str:
        """Return a short name, unique on a page."""
        first, *others = self.run.removeprefix("Client-").split("-")
        return "-".join((first[:8], *others[-1:]))

    @property
    def pass_seconds_left(self) -> float | None:
        """Return what the pass under way will take at its own speed; None where there is none."""
        current = next((one for one in reversed(self.passes) if not one.done), None)
        if self.closed or current is None or not current.rows_per_second:
            return None
        return (current.n_rows - current.rows_done) / current.rows_per_second

    @property
    def seconds_left(self) -> float | None:
        """Return what all planned passes will take at the speed so far; None where unknown."""
        own, read = self.pass_seconds_left, sum(one.rows_done for one in self.passes)
        elapsed = sum(one.seconds for one in self.passes)
        if own is None or not self.rows_planned or not read or elapsed <= 0:
            return None
        return max(own, (self.rows_planned - read) * elapsed / read)

    @property
    def testers(self) -> dict[str, TesterView]:
        """Return the testers that have results."""
        return tester_views(self.test_results)

    @property
    def slabs(self) -> events.SlabsMeasured | None:
        """Return slabs along the best candidate; of the rows so far while the pass runs."""
        if self.measured is not None or self.counted is None:
            return self.measured
        counted = self.counted
        return events.SlabsMeasured(counted.width, counted.counts, counted.threshold)

    @property
    def slabs_so_far(self) -> bool:
        """Return whether the slabs are of a pass under way."""
        return self.measured is None and self.counted is not None

    def take(self, at: float, event: events.Event | RunClosed) -> None:
        """Take in what happened."""
        if isinstance(event, events.SlabsCounted):
            self._add_slabs(event)
            return
        self.at = at  # that of slabs is a worker's time, which may differ from ours
        match event:
            case events.RunStarted():
                self.command, self.source, self.notices = event.command, event.source, event.notices
                self.n_rows, self.dim = event.n_rows, event.dim
                self.seed, self.who = event.seed, event.who
                self.rows_planned = event.rows_planned
            case events.PassStarted():
                self.passes.append(PassView(event.name, event.detail, event.n_rows, at))
            case events.PassProgress():
                current = self._pass(event.name, event.n_rows)
                current.rows_done, current.seconds = event.rows_done, at - current.started
            case events.PassEnded(record):
                ended = self._pass(record.name, record.rows_read)
                ended.n_rows = ended.rows_done = record.rows_read
                ended.rows_accepted, ended.seconds = record.rows_accepted, record.seconds
                ended.done = True
            case events.TesterJudged(test_result):
                self.test_results.append(test_result)
            case events.SlabsMeasured():
                self.measured = event
            case events.Answered():
                self.answer = event
            case events.Watched():
                self.watched = event
            case events.RunEnded(verdict):
                self.verdict, self.closed = verdict, True
            case RunClosed(error, interrupted):
                self.error, self.interrupted, self.closed = error, interrupted, True

    def _pass(self, name: str, n_rows: int) -> PassView:
        """Return the pass of this name under way; one that was not announced begins now."""
        for known in reversed(self.passes):
            if known.name == name and not known.done:
                return known
        self.passes.append(PassView(name, "", n_rows, self.at))
        return self.passes[-1]

    def _add_slabs(self, event: events.SlabsCounted) -> None:
        """Add rows of the pass under way; what comes after its end is known already."""
        known = self.closed or any(one.name == event.name and one.done for one in self.passes)
        if known or not event.counts:
            return
        before = self.counted
        if before is None or _layout(before) != _layout(event):
            self.counted = event
            return
        pairs = zip(before.counts, event.counts, strict=True)
        self.counted = replace(event, counts=tuple(a + b for a, b in pairs))


def _layout(slabs: events.SlabsCounted) -> tuple[str, float, int, float]:
    """Counts of the same layout may be added."""
    return slabs.name, slabs.width, len(slabs.counts), slabs.threshold


class Board:
    """The latest runs of a cluster, oldest first; `version` grows with every event."""

    def __init__(self) -> None:
        self.runs: dict[str, RunView] = {}
        self.version = 0

    def take(self, message: Any) -> None:
        """Take in a message; foreign ones are ignored."""
        run, happenings = decode(message)
        for at, event in happenings:
            self.happen(run, at, event)

    def lacks_beginning(self, message: Any) -> bool:
        """Return whether a message continues a run whose beginning is unknown."""
        run, happenings = decode(message)
        begins = any(isinstance(event, events.RunStarted | events.SlabsCounted) for _, event in happenings[:1])
        return bool(happenings) and run not in self.runs and not begins

    def happen(self, run: str, at: float, event: events.Event | RunClosed) -> None:
        """Take in an event of a run."""
        if run not in self.runs:
            if isinstance(event, events.SlabsCounted | RunClosed):  # of a run that is forgotten
                return
            self.runs[run] = RunView(run, at)
        self.runs[run].take(at, event)
        while len(self.runs) > _MOST_RUNS:
            oldest = next(iter(self.runs))
            del self.runs[next((name for name, one in self.runs.items() if one.closed), oldest)]
        self.version += 1

    def under_way(self, prefix: str = "") -> list[str]:
        """Return the names of the runs that have not ended and start with a prefix."""
        return [name for name, run in self.runs.items() if name.startswith(prefix) and not run.closed]


# white words on them, and they themselves on a white, black or dark grey page, can be told
COLOURS = {
    "accepted": "#2e7d32",
    "certified": "#00758f",
    "passed": "#2e7d32",
    "finished": "#2e7d32",
    "rejected": "#d32f2f",
    "failed": "#d32f2f",
    "steady": "#2e7d32",
    "drifted": "#d32f2f",
    "inconclusive": "#a56200",
    "interrupted": "#737373",
    "not judged": "#737373",
    "running": "#1976d2",
}
SO_FAR = "slab mass so far"
"""Placeholder of a tester while its pass is under way."""


def _masses(slabs: SlabsMeasured) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Observed and Gaussian share of every slab, the tails included."""
    observed = np.array(slabs.counts, dtype=np.float64) / max(1, sum(slabs.counts))
    return observed, masses_about(slabs.width, len(slabs.counts) // 2 - 1, slabs.threshold)


def slab_densities(slabs: SlabsMeasured) -> list[tuple[float, float, float, float]]:
    """Left edge, right edge, observed and Gaussian density of every slab between the tails."""
    half_count = len(slabs.counts) // 2 - 1
    edges = slabs.width * np.arange(-half_count, half_count + 1)
    densities = (mass[1:-1] / slabs.width for mass in _masses(slabs))
    columns = (edges[:-1], edges[1:], *densities)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def mass_so_far(run: RunView) -> float | None:
    """Distance of the slabs from the Gaussian over its limit, while the pass runs.

    Both at the width that is drawn: one of the scales that the tester itself looks at.
    """
    slabs = run.slabs
    if slabs is None or not run.slabs_so_far or len(slabs.counts) < 4:
        return None
    observed, expected = _masses(slabs)
    limit = slabs.width * math.exp(-(slabs.threshold**2) / 2)
    return float(np.abs(observed - expected).sum()) / limit


def clock(at: float) -> str:
    """A time of day, with its date unless that is today's."""
    then = time.localtime(at)
    today = time.localtime()[:3] == then[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)


def _macro(name: str) -> Callable[..., str]:
    functions = {
        "mass_so_far": mass_so_far,
        "slab_densities": slab_densities,
        "clock": clock,
        "statement_cells": statement_cells,
    }
    return macro("live.html.j2", name, COLOURS=COLOURS, SO_FAR=SO_FAR, **functions)


badge = _macro("badge")
headline = _macro("headline")
pass_table = _macro("pass_table")
run_table = _macro("run_table")
run_html = _macro("run")
slab_title = _macro("slab_title")
slab_width = _macro("slab_width")
