"""A run while it runs: events folded into a value, and that value as HTML without scripts."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streamhalf import events
from streamhalf.engine.live_messages import RunClosed, decode
from streamhalf.report.figures import bound_plot, candidate_plot, slab_plot, slab_shares
from streamhalf.report.html import macro
from streamhalf.report.svg import Plot
from streamhalf.report.tables import by_tester, deciding
from streamhalf.report.watching import statement_table
from streamhalf.report.words import count
from streamhalf.results import TestResult, Verdict, replace

_MOST_RUNS = 20
_UNKNOWN = events.RunStarted("run", "", 0, 0)


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
        return min(1.0, self.rows_done / max(1, self.n_rows))

    @property
    def rows_per_second(self) -> float:
        return self.rows_done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the rest takes at the speed so far; None where that is unknown, or nothing is left."""
        if self.done or not self.rows_per_second:
            return None
        return (self.n_rows - self.rows_done) / self.rows_per_second


class TesterView(NamedTuple):
    """The test result of a tester that came closest to its limit, or went furthest beyond."""

    worst: TestResult
    n_judged: int


def tester_views(test_results: Iterable[TestResult]) -> dict[str, TesterView]:
    """Return the state of every tester; early warnings until a deciding test has a result."""
    counted = {name: deciding(own) for name, own in by_tester(test_results).items()}
    return {
        name: TesterView(max(own, key=lambda one: (one.has_say, one.severity)), len(own))
        for name, own in counted.items()
    }


@dataclass(slots=True)
class RunView:
    """Everything known of one run, that began at `started`; `at` is the time of its latest event."""

    run: str
    at: float
    begun: events.RunStarted = _UNKNOWN
    started: float = field(init=False)
    passes: list[PassView] = field(default_factory=list)
    test_results: list[TestResult] = field(default_factory=list)
    slabs: events.SlabsMeasured | events.SlabsCounted | None = None
    verdict: Verdict | None = None
    answer: events.Answered | None = None
    watched: events.Watched | None = None
    end: RunClosed | None = None

    def __post_init__(self) -> None:
        self.started = self.at

    @property
    def closed(self) -> bool:
        return self.verdict is not None or self.end is not None

    @property
    def status(self) -> str:
        """The verdict, or the state of a run without one."""
        if self.end is not None and self.end.interrupted:
            return "interrupted"
        if self.end is not None and self.end.error:
            return "failed"
        if self.verdict is not None:
            return str(self.verdict)
        if self.watched is not None:
            return str(self.watched.outcome)
        return "finished" if self.closed else "running"

    @property
    def short(self) -> str:
        """A short name, unique on a page."""
        first, *others = self.run.removeprefix("Client-").split("-")
        return "-".join((first[:8], *others[-1:]))

    @property
    def under_way(self) -> PassView | None:
        """The pass under way."""
        return next((one for one in reversed(self.passes) if not one.done), None)

    @property
    def pass_seconds_left(self) -> float | None:
        """Seconds that the pass under way will take at its own speed; None where there is none."""
        return None if self.closed or self.under_way is None else self.under_way.seconds_left

    @property
    def seconds_left(self) -> float | None:
        """Seconds that all planned passes will take at the speed so far; None where unknown."""
        own, read = self.pass_seconds_left, sum(one.rows_done for one in self.passes)
        elapsed = sum(one.seconds for one in self.passes)
        if own is None or not self.begun.rows_planned or not read or elapsed <= 0:
            return None
        return max(own, (self.begun.rows_planned - read) * elapsed / read)

    @property
    def testers(self) -> dict[str, TesterView]:
        return tester_views(self.test_results)

    @property
    def slabs_so_far(self) -> bool:
        """Return whether the slabs are of a pass under way."""
        return isinstance(self.slabs, events.SlabsCounted)

    def take(self, at: float, event: events.Event | RunClosed) -> None:
        """Take in what happened."""
        if isinstance(event, events.SlabsCounted):
            self._add_slabs(event)
            return
        self.at = at  # that of slabs is a worker's time, which may differ from ours
        match event:
            case events.RunStarted():
                self.begun = event
            case events.PassStarted():
                self.passes.append(PassView(event.name, event.detail, event.n_rows, at))
            case events.PassProgress():
                current = self._pass(event.name, event.n_rows)
                current.rows_done, current.seconds = event.rows_done, at - current.started
            case events.PassEnded(record):
                ended = self._pass(record.name, record.rows_read)
                ended.n_rows = ended.rows_done = record.rows_read
                ended.rows_accepted, ended.seconds, ended.done = record.rows_accepted, record.seconds, True
            case events.TesterJudged(test_result):
                self.test_results.append(test_result)
            case events.SlabsMeasured():
                self.slabs = event
            case events.Answered():
                self.answer = event
            case events.Watched():
                self.watched = event
            case events.RunEnded(verdict):
                self.verdict = verdict
            case RunClosed():
                self.end = event

    def is_reading(self, name: str) -> bool:
        """Return whether a pass of this name is under way."""
        return any(one.name == name and not one.done for one in self.passes)

    def _pass(self, name: str, n_rows: int) -> PassView:
        """Return the pass of this name under way; one that was not announced begins now."""
        if not self.is_reading(name):
            self.passes.append(PassView(name, "", n_rows, self.at))
        return next(one for one in reversed(self.passes) if one.name == name and not one.done)

    def _add_slabs(self, event: events.SlabsCounted) -> None:
        """Add rows of the pass under way; what comes after its end is known already."""
        known = self.closed or any(one.name == event.name and one.done for one in self.passes)
        if known or isinstance(self.slabs, events.SlabsMeasured) or not event.counts:
            return
        before = self.slabs.counts if self.slabs else ()
        if self.slabs == replace(event, counts=before) and len(before) == len(event.counts):
            event = replace(event, counts=tuple(a + b for a, b in zip(before, event.counts, strict=True)))
        self.slabs = event


class Board:
    """The latest runs, oldest first, and totals of all so far; `version` grows with every event."""

    def __init__(self) -> None:
        self.runs: dict[str, RunView] = {}
        self.version = 0
        self.rows = self.passes = 0
        self.ended: Counter[str] = Counter()
        self.watched: events.Watched | None = None

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
        view = self.runs[run]
        if isinstance(event, events.PassEnded) and view.is_reading(event.record.name):
            self.rows += event.record.rows_read  # not those that come from a checkpoint
            self.passes += 1
        view.take(at, event)
        if isinstance(event, RunClosed):
            self.ended[view.status] += 1
        if isinstance(event, events.Watched):
            self.watched = event
        while len(self.runs) > _MOST_RUNS:
            oldest = next(iter(self.runs))
            del self.runs[next((name for name, one in self.runs.items() if one.closed), oldest)]
        self.version += 1

    def under_way(self, prefix: str = "") -> list[str]:
        """Return the names of the runs that have not ended and start with a prefix."""
        return [name for name, run in self.runs.items() if name.startswith(prefix) and not run.closed]


# white words on them, and they themselves on a white, black or dark grey page, can be told
COLOURS = {
    **dict.fromkeys(("accepted", "passed", "finished", "steady"), "#2e7d32"),
    **dict.fromkeys(("rejected", "failed", "drifted"), "#d32f2f"),
    **dict.fromkeys(("interrupted", "not judged"), "#737373"),
    "certified": "#00758f",
    "inconclusive": "#a56200",
    "running": "#1976d2",
}


def mass_so_far(run: RunView) -> float | None:
    """Distance of the slabs from the Gaussian over its limit, while the pass runs.

    Both at the width that is drawn: one of the scales that the tester itself looks at.
    """
    slabs = run.slabs
    if slabs is None or not run.slabs_so_far or len(slabs.counts) < 4:
        return None
    observed, expected = slab_shares(slabs.counts, slabs.width, slabs.threshold)
    limit = slabs.width * math.exp(-(slabs.threshold**2) / 2)
    return float(np.abs(observed - expected).sum()) / limit


def pictures(run: RunView) -> Iterator[tuple[str, Plot]]:
    """Yield what there is to draw of a run, each with its title."""
    slabs, answer = run.slabs, run.answer
    if slabs is not None and (plot := slab_plot(slabs.counts, slabs.width, slabs.threshold)) is not None:
        rows = f"{count(sum(slabs.counts))} rows{' so far' if run.slabs_so_far else ''}"
        yield f"Margins of {rows} along the halfspace (line: Gaussian)", plot
    if answer is None:
        return
    if (path := candidate_plot(answer.path, answer.chosen)) is not None:
        yield "Errors of the candidates (ring: returned)", path
    if answer.profile and answer.lower is not None:
        yield "Lower bound by angle", bound_plot(answer.profile, answer.upper, answer.lower)


def clock(at: float) -> str:
    """A time of day, with its date unless that is today's."""
    then = time.localtime(at)
    today = time.localtime()[:3] == then[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)


def _macro(name: str) -> Callable[..., str]:
    functions = (mass_so_far, pictures, clock, statement_table)
    return macro("live.html.j2", name, COLOURS=COLOURS, **{one.__name__: one for one in functions})


run_html = _macro("run")
run_table = _macro("run_table")
