"""A run while it runs, as a value to draw: events folded into passes, testers, slabs and a verdict.

Whoever watches from another process gets the same events as messages: `encode` here, `Board` there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from streamhalf import events
from streamhalf.errors import DataError
from streamhalf.report.tables import by_tester
from streamhalf.report.test_results import deciding
from streamhalf.results import Notice, Record, TestResult, Verdict, from_json, replace, to_json

TOPIC = "streamhalf"
"""Topic of a Dask scheduler's event log that the messages go to."""

_MOST_RUNS = 20
_MOST_SLABS = 80


class RunClosed(Record, frozen=True, tag=True, tag_field="event"):
    """Nothing more will come; `error` says what ended a run that did not come to its end.

    `interrupted` if that was somebody's will, or the end of the process that drove it.
    """

    error: str = ""
    interrupted: bool = False


Happening: TypeAlias = tuple[float, events.Event | RunClosed]
"""An event, and the time at which it happened in seconds since the epoch."""


class Message(Record, frozen=True):
    """Events of one run, on their way to those who watch from another process."""

    run: str
    events: tuple[Happening, ...]


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
        """How much of it is done, between 0 and 1."""
        return min(1.0, self.rows_done / max(1, self.n_rows))

    @property
    def rows_per_second(self) -> float:
        """Speed so far."""
        return self.rows_done / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class TesterView:
    """The test_result of a tester that came closest to its limit, or went furthest beyond."""

    worst: TestResult
    n_judged: int


def tester_views(test_results: Iterable[TestResult]) -> dict[str, TesterView]:
    """What became of every tester, by its name; early warnings until something else is said."""
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
    closed: bool = False
    error: str = ""
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.started = self.at

    @property
    def status(self) -> str:
        """The verdict, or how far the run is."""
        if self.interrupted:
            return "interrupted"
        if self.error:
            return "failed"
        if self.verdict is not None:
            return str(self.verdict)
        return "finished" if self.closed else "running"

    @property
    def short(self) -> str:
        """A name that tells it from others on the same page."""
        first, *others = self.run.removeprefix("Client-").split("-")
        return "-".join((first[:8], *others[-1:]))

    @property
    def pass_seconds_left(self) -> float | None:
        """Of the pass under way, at its own speed; None where there is none."""
        current = next((one for one in reversed(self.passes) if not one.done), None)
        if self.closed or current is None or not current.rows_per_second:
            return None
        return (current.n_rows - current.rows_done) / current.rows_per_second

    @property
    def seconds_left(self) -> float | None:
        """Of all passes that are planned, at the speed so far; None where nobody knows."""
        own, read = self.pass_seconds_left, sum(one.rows_done for one in self.passes)
        elapsed = sum(one.seconds for one in self.passes)
        if own is None or not self.rows_planned or not read or elapsed <= 0:
            return None
        return max(own, (self.rows_planned - read) * elapsed / read)

    @property
    def testers(self) -> dict[str, TesterView]:
        """The testers that have spoken."""
        return tester_views(self.test_results)

    @property
    def slabs(self) -> events.SlabsMeasured | None:
        """Slabs along the best candidate; while the pass runs, the last one, of the rows so far."""
        if self.measured is not None or self.counted is None:
            return self.measured
        counted = self.counted
        return events.SlabsMeasured(counted.width, counted.counts, counted.threshold)

    @property
    def slabs_so_far(self) -> bool:
        """Whether the slabs are of a pass under way."""
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
            case events.RunEnded(verdict):
                self.verdict, self.closed = verdict, True
            case RunClosed(error, interrupted):
                self.error, self.interrupted, self.closed = error, interrupted, True

    def _pass(self, name: str, n_rows: int) -> PassView:
        """The pass of this name under way; one that nobody announced begins now."""
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


def encode(run: str, happenings: Iterable[Happening]) -> dict[str, Any]:
    """A message that msgpack and JSON take; only what a view draws is in it."""
    message = Message(run, tuple((at, _slim(event)) for at, event in happenings))
    plain: dict[str, Any] = to_json(message)
    return plain


def decode(message: Any) -> tuple[str, tuple[Happening, ...]]:
    """Back from a message; one that another version wrote may raise DataError."""
    if not isinstance(message, dict):
        raise DataError(f"message: {type(message).__name__} is none of a run")
    # Dask says beside it which worker sent it
    ours = {key: value for key, value in message.items() if key in Message.__struct_fields__}
    found = from_json(Message, ours, where="message")
    return found.run, found.events


def _slim(event: events.Event | RunClosed) -> events.Event | RunClosed:
    """Without what no view draws: evidence is in the result, and a screen has few pixels."""
    if isinstance(event, events.TesterJudged):
        return events.TesterJudged(replace(event.test_result, evidence=()))
    if isinstance(event, events.SlabsMeasured):
        return coarsen(event)
    return event


def coarsen(slabs: events.SlabsMeasured) -> events.SlabsMeasured:
    """Neighbouring slabs joined until there are few enough to draw; 0 stays an edge."""
    tails, inner = (slabs.counts[0], slabs.counts[-1]), slabs.counts[1:-1]
    half = len(inner) // 2
    factor = max(1, -(-2 * half // _MOST_SLABS))
    kept = half // factor * factor  # what is left over on either side goes into the tails
    low, high = half - kept, half + kept
    joined = [sum(inner[i : i + factor]) for i in range(low, high, factor)]
    return events.SlabsMeasured(
        slabs.width * factor,
        (tails[0] + sum(inner[:low]), *joined, tails[1] + sum(inner[high:])),
        slabs.threshold,
    )


def decode_quietly(message: Any) -> tuple[str, tuple[Happening, ...]]:
    """What a message says; nothing if it is none of ours."""
    try:
        return decode(message)
    except DataError:
        return "", ()


class Board:
    """The latest runs of a cluster, oldest first; `version` grows with every event."""

    def __init__(self) -> None:
        self.runs: dict[str, RunView] = {}
        self.version = 0

    def take(self, message: Any) -> None:
        """Take in a message; what is none of ours is passed over."""
        run, happenings = decode_quietly(message)
        for at, event in happenings:
            self.happen(run, at, event)

    def lacks_beginning(self, message: Any) -> bool:
        """Whether a message goes on with a run whose beginning nobody has told."""
        run, happenings = decode_quietly(message)
        begins = any(
            isinstance(event, events.RunStarted | events.SlabsCounted)
            for _, event in happenings[:1]
        )
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
        """Names of the runs that have not ended and whose name begins so."""
        return [
            name for name, run in self.runs.items() if name.startswith(prefix) and not run.closed
        ]
