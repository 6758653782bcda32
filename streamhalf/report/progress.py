"""Progress of a run: one line with a bar on a terminal, plain lines or JSON lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text

from streamhalf import events
from streamhalf.redact import plural
from streamhalf.report.live import PassView, RunView
from streamhalf.report.words import human_count, notice_words, of_limit, pass_words
from streamhalf.results import PassRecord, Role, replace, to_json, worst_of

_NAME, _BAR = 11, 20  # Columns for the name of a pass, and of its bar
_SEARCH = "search"  # The name of the search for the lower bound on a progress line
_WIDE = 90  # Columns of a terminal from which on a share says of what it is


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
        self._run = RunView("", time.time())

    def observe(self, event: events.Event) -> None:
        """Take an event in, and print notices and finished passes."""
        match event:
            case events.RunStarted():
                for notice in event.notices:
                    self._print(f"notice: {notice_words(notice)}")
            case events.KernelsCompiled():
                self._print("compiling loops over rows, once per machine")
            case events.PassEnded(record) if self._run.is_reading(record.name):
                self._pass_ended(record)
            case events.PassEnded(record):
                self._print(f"pass {record.name}: {plural(record.rows_read, 'row')} from the checkpoint")
        self._run.take(time.time(), event)

    def _pass_ended(self, record: PassRecord) -> None:
        self._print(pass_words(record.name, record.rows_read, record.seconds))

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


class _Bars(_Lines):
    """One line for each step: with a bar while it runs, then its speed and its testers.

    A finished pass is let go when the next step begins: its testers speak after its end.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._step: PassView | None = None

    def observe(self, event: events.Event) -> None:
        """Take an event in; what has no bar is printed."""
        if isinstance(event, events.SearchProgress):
            self._search(event)
            return
        if isinstance(event, events.PassStarted):
            self.let_go()
        super().observe(event)
        if isinstance(event, events.PassStarted):
            self._step = self._run.under_way

    def _search(self, event: events.SearchProgress) -> None:
        if self._step is None or self._step.name != _SEARCH:
            self.let_go()
            self._step = PassView(_SEARCH, "for the lower bound", int(event.total), time.time())
        self._step.rows_done, self._step.seconds = int(event.done), time.time() - self._step.started
        if event.done >= event.total:
            self._step = None

    def _pass_ended(self, record: PassRecord) -> None:
        """Print nothing yet: `let_go` does."""

    def let_go(self) -> None:
        """Print the line of a pass that is over, once; of one that was broken off, none."""
        over, self._step = self._step, None
        if over is not None and over.done:
            self._console.print(self._finished(over))

    def line(self) -> Text:
        """Return the line of the step under way."""
        if self._step is None:
            return Text()
        return self._finished(self._step) if self._step.done else self._running(self._step)

    def _running(self, step: PassView) -> Text:
        """Return the bar, the speed and the time that is left."""
        full, left = round(_BAR * step.share), step.seconds_left
        counted = f"{step.share:.0%} of at most {human_count(step.n_rows)} operations"
        speed = ""
        if step.name != _SEARCH:
            counted = f"{human_count(step.rows_done)} of {human_count(step.n_rows)} rows"
            speed = f"{human_count(step.rows_per_second)} rows/s" if step.rows_done else ""
        parts = (
            (step.name.ljust(_NAME), "bold", 0),
            ("━" * full + "╌" * (_BAR - full), "cyan", 2),
            (counted, "", 1),
            (speed, "cyan", 3),
            ("" if left is None else f"{left:,.0f} s left", "", 4),
            (step.detail, "dim", 5),
        )
        return _fitted(parts, self._console.width)

    def _finished(self, step: PassView) -> Text:
        """Return how fast a pass was, and how close its testers came to their limits."""
        parts = (
            (step.name.ljust(_NAME), "bold", 0),
            (f"{human_count(step.rows_done):>6} rows", "", 1),
            (f"{step.seconds:6.2f} s", "", 3),
            (f"{human_count(step.rows_per_second):>6} rows/s", "cyan", 2),
            (self._remark(step), "dim", 4),
        )
        return _fitted(parts, self._console.width)

    def _remark(self, step: PassView) -> str:
        found = (one for one in self._run.test_results if one.pass_name == step.name)
        # an early warning is all that there is of a pass that learns
        told = (replace(one, role=Role.REQUIRED) if one.role is Role.EARLY else one for one in found)
        if (worst := worst_of(told)) is not None:
            of_what = " of its limit" if self._console.width >= _WIDE else ""
            return f"{worst.tester} at {of_limit(worst.share)}{of_what}"
        if step.rows_accepted is not None and step.rows_accepted < step.rows_done:
            return f"kept {human_count(step.rows_accepted)} rows"
        return ""


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
