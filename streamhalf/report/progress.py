"""What a run says while it runs: bars on a terminal, plain lines or JSON lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TimeRemainingColumn
from rich.text import Text

from streamhalf import events
from streamhalf.names import plural
from streamhalf.records import Judgement, PassRecord, Role, replace, to_json, worst_of
from streamhalf.report.codes import human_count, notice_words, pass_words


class _Words(ProgressColumn):
    """What a function says about a pass."""

    def __init__(self, write: Callable[[Task], str], style: str = "") -> None:
        super().__init__()
        self._write, self._style = write, style

    def render(self, task: Task) -> Text:
        """The words of now."""
        return Text(self._write(task), self._style)


@contextmanager
def watch(console: Console) -> Iterator[events.Observer]:
    """An observer that draws bars on a terminal, and prints plain lines elsewhere."""
    if not console.is_terminal:
        yield _Lines(console).observe
        return
    with Progress(
        _Words(lambda task: task.description, "bold"),
        BarColumn(bar_width=24),
        _Words(lambda task: f"{human_count(task.completed)} / {human_count(task.total or 0)} rows"),
        _Words(lambda task: f"{human_count(task.speed or 0)} rows/s", "cyan"),
        TimeRemainingColumn(compact=True),
        _Words(lambda task: task.fields["margin"], "dim"),
        console=console,
    ) as progress:
        yield _Bars(console, progress).observe


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


class _Bars(_Lines):
    """One bar per pass; beside it, once judged, how close its worst tester came to its limit."""

    def __init__(self, console: Console, progress: Progress) -> None:
        super().__init__(console)
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._judged: dict[str, list[Judgement]] = {}

    def observe(self, event: events.Event) -> None:
        """Draw what has happened; what has no bar is printed."""
        if isinstance(event, events.PassStarted):
            words = f"{event.name} {event.detail}".strip()
            task = self._progress.add_task(words, total=event.n_rows, margin="")
            self._tasks[event.name] = task
        elif isinstance(event, events.PassProgress):
            self._progress.update(self._tasks[event.name], completed=event.rows_done)
        elif isinstance(event, events.PassEnded) and event.record.name in self._tasks:
            record = event.record
            if record.rows_accepted < record.rows_read:
                share = record.rows_accepted / record.rows_read
                self._progress.update(self._tasks[record.name], margin=f"accepted {share:.2%}")
        elif isinstance(event, events.TesterJudged):
            self._show_margin(event.judgement)
        else:
            super().observe(event)

    def _show_margin(self, judgement: Judgement) -> None:
        name = judgement.pass_name
        own = self._judged.setdefault(name, [])
        own.append(judgement)
        # an early warning is all that there is of a pass that learns
        told = (replace(one, role=Role.REQUIRED) if one.role is Role.EARLY else one for one in own)
        if name in self._tasks and (worst := worst_of(told)) is not None:
            words = f"{worst.tester} at {worst.share:.0%} of its limit"
            self._progress.update(self._tasks[name], margin=words)


def log_json(stream: TextIO) -> events.Observer:
    """An observer that writes every event as one line of JSON, with its kind and time."""

    def observe(event: events.Event) -> None:
        line = {**to_json(event), "time": time.time()}
        print(json.dumps(line, allow_nan=False), file=stream, flush=True)

    return observe
