"""What a run says while it runs: a bar on a terminal, plain lines or JSON lines elsewhere."""

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
from streamhalf.report.codes import human_count, pass_words
from streamhalf.report.notices import notice_words
from streamhalf.results import PassRecord, Role, TestResult, replace, to_json, worst_of

_NAME, _BAR = 11, 20
"""Columns for the name of a pass, and of its bar."""

_WIDE = 90
"""Columns of a terminal from which on a share says of what it is."""


@contextmanager
def watch(console: Console) -> Iterator[events.Observer]:
    """An observer that draws a bar on a terminal, and prints plain lines elsewhere."""
    if not console.is_terminal:
        yield _Lines(console).observe
        return
    shown = _Bars(console)
    # what is printed while it lives goes above it
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
        """Print what has happened."""
        if isinstance(event, events.RunStarted):
            for notice in event.notices:
                self._print(f"notice: {notice_words(notice)}")
        elif isinstance(event, events.KernelsCompiled):
            self._print("compiling loops over rows, once per machine")
        elif isinstance(event, events.PassStarted):
            self._started.add(event.name)
        elif isinstance(event, events.PassEnded):
            self._print_pass(event.record)

    def _print_pass(self, record: PassRecord) -> None:
        name, rows = record.name, record.rows_read
        if name in self._started:
            self._print(pass_words(name, rows, record.seconds))
        else:
            self._print(f"pass {name}: {plural(rows, 'row')} from the checkpoint")

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


@dataclass(slots=True)
class _Pass:
    """What is known of a pass: under way until it has a record."""

    name: str
    detail: str
    n_rows: int
    started: float
    rows_done: int = 0
    record: PassRecord | None = None
    judged: list[TestResult] = field(default_factory=list)


class _Bars(_Lines):
    """One line for each pass: with a bar while it runs, then how fast it was and how close it came.

    A finished pass is let go when the next one begins: its testers speak after its end.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._pass: _Pass | None = None

    def observe(self, event: events.Event) -> None:
        """Draw what has happened; what has no bar is printed."""
        under_way = self._pass
        if isinstance(event, events.PassStarted):
            self.let_go()
            self._pass = _Pass(event.name, event.detail, event.n_rows, time.monotonic())
        elif under_way is None:
            super().observe(event)
        elif isinstance(event, events.PassProgress) and event.name == under_way.name:
            under_way.rows_done = event.rows_done
        elif isinstance(event, events.PassEnded) and event.record.name == under_way.name:
            under_way.record = event.record
        elif isinstance(event, events.TesterJudged):
            if event.test_result.pass_name == under_way.name:
                under_way.judged.append(event.test_result)
        else:
            super().observe(event)

    def let_go(self) -> None:
        """Print the line of a pass that is over, once; of one that was broken off, none."""
        over, self._pass = self._pass, None
        if over is not None and over.record is not None:
            self._console.print(_finished_line(over, over.record, self._console.width))

    def line(self) -> Text:
        """The pass of now."""
        if (now := self._pass) is None:
            return Text()
        if now.record is not None:
            return _finished_line(now, now.record, self._console.width)
        return _running_line(now, self._console.width)


def _running_line(now: _Pass, width: int) -> Text:
    seconds = max(time.monotonic() - now.started, 1e-3)
    rate = now.rows_done / seconds
    left = (now.n_rows - now.rows_done) / rate if rate else math.nan
    parts = (
        (now.name.ljust(_NAME), "bold", 0),
        (_bar(now.rows_done / max(1, now.n_rows)), "cyan", 2),
        (f"{human_count(now.rows_done)} of {human_count(now.n_rows)} rows", "", 1),
        (f"{human_count(rate)} rows/s" if rate else "", "cyan", 3),
        (f"{left:,.0f} s left" if math.isfinite(left) else "", "", 4),
        (now.detail, "dim", 5),
    )
    return _fitted(parts, width)


def _finished_line(over: _Pass, record: PassRecord, width: int) -> Text:
    rate = human_count(record.rows_read / max(record.seconds, 1e-9))
    parts = (
        (over.name.ljust(_NAME), "bold", 0),
        (f"{human_count(record.rows_read):>6} rows", "", 1),
        (f"{record.seconds:6.2f} s", "", 3),
        (f"{rate:>6} rows/s", "cyan", 2),
        (_remark(over.judged, record, " of its limit" if width >= _WIDE else ""), "dim", 4),
    )
    return _fitted(parts, width)


def _remark(judged: list[TestResult], record: PassRecord, of_what: str) -> str:
    """How close the worst tester came to its limit, or which rows were accepted."""
    # an early warning is all that there is of a pass that learns
    told = (replace(one, role=Role.REQUIRED) if one.role is Role.EARLY else one for one in judged)
    if (worst := worst_of(told)) is not None:
        return f"{worst.tester} at {worst.share:.0%}{of_what}"
    if record.rows_accepted < record.rows_read:
        return f"accepted {record.rows_accepted / record.rows_read:.2%}"
    return ""


def _bar(share: float) -> str:
    full = round(_BAR * min(1.0, share))
    return "━" * full + "╌" * (_BAR - full)


def _fitted(parts: Iterable[tuple[str, str, int]], width: int) -> Text:
    """On one line: of (words, style, rank), those of the highest rank go until the others fit."""
    kept = [one for one in parts if one[0]]
    while len(kept) > 1 and sum(cell_len(words) + 2 for words, _, _ in kept) > width:
        kept.remove(max(kept, key=lambda one: one[2]))
    line = Text("  ").join(Text(words, style) for words, style, _ in kept)
    line.truncate(max(1, width - 1), overflow="ellipsis")
    return line


def log_json(stream: TextIO) -> events.Observer:
    """An observer that writes every event as one line of JSON, with its kind and time."""

    def observe(event: events.Event) -> None:
        line = {**to_json(event), "time": time.time()}
        print(json.dumps(line, allow_nan=False), file=stream, flush=True)

    return observe
