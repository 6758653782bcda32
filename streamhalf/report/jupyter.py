"""Notebooks: a live view of runs, here or on a cluster, and results that show themselves."""

from __future__ import annotations

import contextlib
import contextvars
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamhalf.errors import RunCancelledError
from streamhalf.events import Event, RunEnded, RunStarted
from streamhalf.redact import plural
from streamhalf.report import live_html
from streamhalf.report.codes import pass_words
from streamhalf.report.live import TOPIC, Board, RunClosed, RunView
from streamhalf.report.widget import CancelButton
from streamhalf.results import AuditResult, CertifyResult, FitResult, MomentTestResult

if TYPE_CHECKING:
    from distributed import Client

_SECONDS_BETWEEN_DRAWINGS = 0.25


def enable() -> bool:
    """Let notebooks show results as HTML; returns whether there is a notebook or IPython."""
    shell = _shell()
    if shell is None:
        return False
    from streamhalf.report.card import audit_html, result_html  # the whole report comes with them

    formatter = shell.display_formatter.formatters["text/html"]
    for kind in (MomentTestResult, FitResult, CertifyResult):
        formatter.for_type(kind, result_html)
    formatter.for_type(AuditResult, audit_html)
    return True


def monitor(client: Client | None = None) -> Monitor:
    """Show runs while they run: in a notebook as one picture that renews itself, else as text.

    Use it as a context manager, or as the `observer` of one run. One in the background,
    `fit(data, observer=monitor(), wait=False)`, has a button to cancel it where anywidget is
    installed; a cell that waits for its run is interrupted as any other.

    Parameters
    ----------
    client
        A `distributed` client: every run on its cluster is shown, whoever started it. Without one,
        only runs that have the monitor as their `observer`.
    """
    return Monitor(client)


class Monitor:
    """What `monitor` returns."""

    def __init__(self, client: Client | None = None) -> None:
        self._client = client
        self._board = Board()
        self._local = ""
        self._lock = threading.Lock()
        self._thread = 0
        self._seen: set[int] = set()
        self._listening = False
        self._screen: _Notebook | _Text = _Notebook() if _has_kernel() else _Text()
        self._due = 0.0
        enable()

    def __enter__(self) -> Monitor:
        if self._client is not None:
            self._catch_up()
            known = self._board.runs
            self._board.runs = {name: known[name] for name in self._board.under_way()}
            self._listening = True
            self._client.subscribe_topic(TOPIC, self._hear)
        return self

    def __exit__(self, *error: object) -> None:
        self._listening = False
        if self._client is not None and self._client.status == "running":
            with contextlib.suppress(OSError, TimeoutError):  # the scheduler may go just now
                self._client.unsubscribe_topic(TOPIC)
                self._catch_up()  # the last messages of a run that has just ended are under way
        with self._lock:
            self._draw()

    def _catch_up(self) -> None:
        """Take in what the scheduler's log has and nobody has told."""
        if self._client is not None:
            for event in self._client.get_events(TOPIC):
                self._take(event)

    def _take(self, event: tuple[float, Any]) -> None:
        """A message with the scheduler's time, unless it is known or of a run shown already."""
        # heard and read in the log it is the same text; its time alone may be that of others too
        known_by = hash(json.dumps(event, default=str))
        with self._lock:
            if known_by not in self._seen and not self._local:
                self._seen.add(known_by)
                self._board.take(event[1])

    def __call__(self, event: Event) -> None:
        """Show an event of a run in this process."""
        with self._lock:
            if isinstance(event, RunStarted) or not self._local:
                self._local = f"here-{self._board.version}"
                self._screen.begin(self._end_with_cell)
            if self._screen.cancelled:
                self._settle(RunClosed("cancelled", interrupted=True))
                raise RunCancelledError("the run was cancelled")
            self._thread = threading.get_ident()
            self._board.happen(self._local, time.time(), event)
            if isinstance(event, RunEnded):
                self._screen.end()
            if isinstance(event, RunEnded) or time.monotonic() >= self._due:
                self._draw()

    def _settle(self, closed: RunClosed) -> None:
        """The run here is over without a verdict."""
        self._board.happen(self._local, time.time(), closed)
        self._screen.end()
        self._draw()

    def _end_with_cell(self, *_: object) -> None:
        """After a cell: a run that it waited for and that has not ended was broken off."""
        with self._lock:
            if self._local in self._board.under_way() and self._thread == threading.get_ident():
                self._settle(RunClosed("broken off"))

    def _hear(self, event: tuple[float, Any]) -> None:
        """A message from the scheduler, in the client's own thread."""
        if not self._listening:  # the scheduler learns a little later that nobody does
            return
        with self._lock:
            missed = self._board.lacks_beginning(event[1])
        if missed:  # told before the scheduler knew that somebody listens; this thread cannot ask
            threading.Thread(target=self._fetch, daemon=True).start()
            return
        self._take(event)
        with self._lock:
            if time.monotonic() >= self._due or not self._board.under_way():
                self._draw()

    def _fetch(self) -> None:
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):  # all may be over just now
            self._catch_up()
        with self._lock:
            if self._listening:
                self._draw()

    def _draw(self) -> None:
        self._due = time.monotonic() + _SECONDS_BETWEEN_DRAWINGS
        if self._board.runs:
            self._screen.show(list(self._board.runs.values()))


class _Notebook:
    """One output of the cell in which the monitor was made, renewed in place."""

    def __init__(self) -> None:
        # an output belongs to a cell by a context variable, which other threads do not have
        self._context = contextvars.copy_context()
        self._handle: Any = None
        self._button = CancelButton()
        self._after_cell: Callable[..., None] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether somebody pressed the button."""
        return self._button.pressed

    def begin(self, after_cell: Callable[..., None]) -> None:
        """A run begins: a button in the background, a look at it when its cell has ended."""
        self.end()
        self._button = CancelButton()
        if threading.current_thread() is not threading.main_thread():
            self._context.run(self._button.show)  # a cell that waits would not hear it
        self._after_cell = after_cell
        _shell().events.register("post_run_cell", after_cell)

    def end(self) -> None:
        """It has ended."""
        self._context.run(self._button.hide)
        if self._after_cell is not None:
            _shell().events.unregister("post_run_cell", self._after_cell)
            self._after_cell = None

    def show(self, runs: list[RunView]) -> None:
        """Draw every run, the latest first."""
        html = "<hr>".join(live_html.run_html(run) for run in reversed(runs))
        text = "\n".join(line for run in runs for line in run_lines(run))
        self._context.run(self._publish, {"text/html": html, "text/plain": text})

    def _publish(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class _Text:
    """Lines on standard output, each printed once."""

    cancelled = False

    def __init__(self) -> None:
        self._printed: dict[str, int] = {}

    def begin(self, after_cell: Callable[..., None]) -> None:
        """There is no button here: Ctrl-C will do."""

    def end(self) -> None:
        """Nothing to take away."""

    def show(self, runs: list[RunView]) -> None:
        """Print what is new."""
        for run in runs:
            lines = run_lines(run)
            for line in lines[self._printed.get(run.run, 0) :]:
                print(line, flush=True)
            self._printed[run.run] = len(lines)


def run_lines(run: RunView) -> list[str]:
    """What is settled about a run, a line each: later calls only add lines."""
    lines = [
        f"{run.command} {run.source}: {plural(run.n_rows, 'row')} of {plural(run.dim, 'feature')}"
    ]
    lines += [pass_words(one.name, one.rows_done, one.seconds) for one in run.passes if one.done]
    if run.closed:
        lines.append(f"{run.status} {run.error}".strip())
    return lines


def _shell() -> Any:
    """The IPython shell of this process, if there is one; IPython is not loaded to find out."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _has_kernel() -> bool:
    """Whether outputs go to a notebook: the shell of a terminal has no kernel."""
    return getattr(_shell(), "kernel", None) is not None
