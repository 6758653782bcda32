"""Progress of a run: one line with a bar on a terminal, plain lines or JSON lines elsewhere."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text

from streamhalf import events
from streamhalf.redact import plural
from streamhalf.report.words import human_count, notice_words, of_limit, pass_words
from streamhalf.results import PassRecord, Role, TestResult, replace, to_json, worst_of

_NAME, _BAR = 11, 20
"""Columns for the name of a pass, and of its bar."""

_SEARCH = "search"
"""The name of the search for the lower bound on a progress line."""

_WIDE = 90
"""Columns of a terminal from which on a share says of what it is."""


@contextmanager
def watch(console: Console) -> Iterator[events.Observer]:
    """Yield an observer that draws a bar on a terminal, and prints plain lines elsewhere."""
    if not console.is_terminal:
        yield _Lines(console).observe
        return
    shown = _Bars(console)
    # what is printed meanwhile goes above it
    with Live(console=console, get_renderable=shown.line, transient=True):
        try:
            yield shown.observe
        finally:
            shown.let_go()


class _Lines:
    """One plain line per pass."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started: set[str] = set()

    def observe(self, event: events.Event) -> None:
        """Print notices and finished passes."""
        if isinstance(event, events.RunStarted):
            for notice in event.notices:
                self._print(f"notice: {notice_words(notice)}")
        elif isinstance(event, events.KernelsCompiled):
            self._print("compiling loops over rows, once per machine")
        elif isinstance(event, events.PassStarted):
            self._started.add(event.name)
        elif isinstance(event, events.PassEnded):
            name, rows = event.record.name, event.record.rows_read
            if name in self._started:
                self._print(pass_words(name, rows, event.record.seconds))
            else:
                self._print(f"pass {name}: {plural(rows, 'row')} from the checkpoint")

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


@dataclass(slots=True)
class _Step:
    """A pass, or another step that takes time: under way until it has a record."""

    name: str
    detail: str
    total: float
    started: float = field(default_factory=time.monotonic)
    done: float = 0
    record: PassRecord | None = None
    found: list[TestResult] = field(default_factory=list)

    def running_line(self, width: int) -> Text:
        """Return its bar, speed and the time that is left."""
        seconds = max(time.monotonic() - self.started, 1e-3)
        rate, share = self.done / seconds, min(1.0, self.done / max(1, self.total))
        left = (self.total - self.done) / rate if rate else math.nan
        full = round(_BAR * share)
        counted = f"{share:.0%} of at most {human_count(self.total)} operations"
        speed = ""
        if self.name != _SEARCH:
            counted = f"{human_count(self.done)} of {human_count(self.total)} rows"
            speed = f"{human_count(rate)} rows/s" if rate else ""
        parts = (
            (self.name.ljust(_NAME), "bold", 0),
            ("━" * full + "╌" * (_BAR - full), "cyan", 2),
            (counted, "", 1),
            (speed, "cyan", 3),
            (f"{left:,.0f} s left" if math.isfinite(left) else "", "", 4),
            (self.detail, "dim", 5),
        )
        return _fitted(parts, width)

    def finished_line(self, record: PassRecord, width: int) -> Text:
        """Return how fast it was, and how close its testers came to their limits."""
        rate = human_count(record.rows_read / max(record.seconds, 1e-9))
        parts = (
            (self.name.ljust(_NAME), "bold", 0),
            (f"{human_count(record.rows_read):>6} rows", "", 1),
            (f"{record.seconds:6.2f} s", "", 3),
            (f"{rate:>6} rows/s", "cyan", 2),
            (self._remark(record, " of its limit" if width >= _WIDE else ""), "dim", 4),
        )
        return _fitted(parts, width)

    def _remark(self, record: PassRecord, of_what: str) -> str:
        # an early warning is all that there is of a pass that learns
        told = (replace(one, role=Role.REQUIRED) if one.role is Role.EARLY else one for one in self.found)
        if (worst := worst_of(told)) is not None:
            return f"{worst.tester} at {of_limit(worst.share)}{of_what}"
        if record.rows_accepted < record.rows_read:
            return f"kept {human_count(record.rows_accepted)} rows"
        return ""


class _Bars(_Lines):
    """One line for each step: with a bar while it runs, then its speed and its testers.

    A finished pass is let go when the next one begins: its testers speak after its end.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._step: _Step | None = None

    def observe(self, event: events.Event) -> None:
        """Draw what has happened; what has no bar is printed."""
        under_way = self._step
        if isinstance(event, events.PassStarted):
            self._begin(_Step(event.name, event.detail, event.n_rows))
        elif isinstance(event, events.SearchProgress):
            if under_way is None or under_way.name != _SEARCH:
                self._begin(_Step(_SEARCH, "for the lower bound", event.total))
            elif event.done >= event.total:
                self.let_go()
            else:
                under_way.done = event.done
        elif under_way is None:
            super().observe(event)
        elif isinstance(event, events.PassProgress) and event.name == under_way.name:
            under_way.done = event.rows_done
        elif isinstance(event, events.PassEnded) and event.record.name == under_way.name:
            under_way.record = event.record
        elif isinstance(event, events.TesterJudged):
            if event.test_result.pass_name == under_way.name:
                under_way.found.append(event.test_result)
        else:
            super().observe(event)

    def _begin(self, step: _Step) -> None:
        self.let_go()
        self._step = step

    def let_go(self) -> None:
        """Print the line of a pass that is over, once; of one that was broken off, none."""
        over, self._step = self._step, None
        if over is not None and over.record is not None:
            self._console.print(over.finished_line(over.record, self._console.width))

    def line(self) -> Text:
        """Return the line of the step under way."""
        if (now := self._step) is None:
            return Text()
        if now.record is not None:
            return now.finished_line(now.record, self._console.width)
        return now.running_line(self._console.width)


def _fitted(parts: Iterable[tuple[str, str, int]], width: int) -> Text:
    """Return (words, style, rank) on one line, without those of the highest ranks if need be."""
    kept = [one for one in parts if one[0]]
    while len(kept) > 1 and sum(cell_len(words) + 2 for words, _, _ in kept) > width:
        kept.remove(max(kept, key=lambda one: one[2]))
    line = Text("  ").join(Text(words, style) for words, style, _ in kept)
    line.truncate(max(1, width - 1), overflow="ellipsis")
    return line


def log_json(stream: TextIO) -> events.Observer:
    """Return an observer that writes every event as one line of JSON, with its kind and time."""

    def observe(event: events.Event) -> None:
        line = {**to_json(event), "time": time.time()}
        print(json.dumps(line, allow_nan=False), file=stream, flush=True)

    return observe
