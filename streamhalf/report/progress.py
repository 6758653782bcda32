"""What a run says while it runs: bars on a terminal, plain lines or JSON lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from streamhalf.events import (
    Event,
    Observer,
    PassEnded,
    PassProgress,
    PassStarted,
    RunStarted,
    TesterJudged,
)
from streamhalf.names import plural
from streamhalf.records import Judgement, Outcome, PassRecord, to_json


def human_count(value: float) -> str:
    """12,345,678 as 12.3 M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{value:,.0f}"


class _RateColumn(ProgressColumn):
    """Rows per second."""

    def render(self, task: Task) -> Text:
        """The speed so far."""
        return Text(f"{human_count(task.speed or 0)} rows/s", style="cyan")


class _RowsColumn(ProgressColumn):
    """Rows done of all rows."""

    def render(self, task: Task) -> Text:
        """How far the pass is."""
        return Text(f"{human_count(task.completed)} / {human_count(task.total or 0)} rows")


@contextmanager
def watch(console: Console) -> Iterator[Observer]:
    """An observer that draws bars on a terminal, and prints plain lines elsewhere."""
    if not console.is_terminal:
        yield _Lines(console).observe
        return
    progress = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        _RowsColumn(),
        _RateColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("[dim]{task.fields[margin]}"),
        console=console,
    )
    with progress:
        yield _Bars(progress, console).observe


class _Bars:
    """One bar per pass; beside it, once judged, how close its worst tester came to its limit."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self._progress = progress
        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._worst: dict[str, Judgement] = {}

    def observe(self, event: Event) -> None:
        """Draw what has happened."""
        if isinstance(event, RunStarted):
            _print_notices(self._console, event)
        elif isinstance(event, PassStarted):
            words = f"{event.name} {event.detail}".strip()
            self._tasks[event.name] = self._progress.add_task(
                escape(words), total=event.n_rows, margin=""
            )
        elif isinstance(event, PassProgress):
            self._progress.update(self._tasks[event.name], completed=event.rows_done)
        elif isinstance(event, PassEnded):
            self._show_acceptance(event)
        elif isinstance(event, TesterJudged):
            self._show_margin(event.judgement)

    def _show_acceptance(self, event: PassEnded) -> None:
        record = event.record
        task = self._tasks.get(record.name)
        if task is None:
            _print_pass(self._console, record, ran=False)
        elif record.rows_accepted < record.rows_read:
            share = record.rows_accepted / record.rows_read
            self._progress.update(task, margin=f"accepted {share:.2%}")

    def _show_margin(self, judgement: Judgement) -> None:
        task = self._tasks.get(judgement.pass_name)
        worst = self._worst.get(judgement.pass_name)
        if task is None or judgement.outcome is Outcome.NOT_JUDGED:
            return
        if worst is None or _closeness(judgement) > _closeness(worst):
            self._worst[judgement.pass_name] = judgement
            words = f"{judgement.tester} at {_closeness(judgement):.0%} of its limit"
            self._progress.update(task, margin=words)


def _closeness(judgement: Judgement) -> float:
    return judgement.statistic / judgement.limit


class _Lines:
    """One plain line per pass."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started: set[str] = set()

    def observe(self, event: Event) -> None:
        """Print what has happened."""
        if isinstance(event, RunStarted):
            _print_notices(self._console, event)
        elif isinstance(event, PassStarted):
            self._started.add(event.name)
        elif isinstance(event, PassEnded):
            _print_pass(self._console, event.record, ran=event.record.name in self._started)


def _print_pass(console: Console, record: PassRecord, *, ran: bool) -> None:
    rows = plural(record.rows_read, "row")
    rate = human_count(record.rows_read / max(record.seconds, 1e-9))
    how = f"in {record.seconds:.2f} s ({rate} rows/s)" if ran else "from the checkpoint"
    console.print(
        f"pass {record.name}: {rows} {how}", highlight=False, markup=False, soft_wrap=True
    )


def _print_notices(console: Console, event: RunStarted) -> None:
    for notice in event.notices:
        console.print(f"notice: {notice}", highlight=False, markup=False, soft_wrap=True)


def log_json(stream: TextIO) -> Observer:
    """An observer that writes every event as one line of JSON, with its kind and time."""

    def observe(event: Event) -> None:
        line = {**to_json(event), "time": time.time()}
        print(json.dumps(line, allow_nan=False), file=stream, flush=True)

    return observe
