"""Notebooks: cards of results, and a live view of runs, here or on a cluster."""

from __future__ import annotations

import base64
import contextlib
import contextvars
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from streamhalf.engine.live_messages import TOPIC, RunClosed
from streamhalf.errors import RunCancelledError
from streamhalf.events import Event, RunEnded, RunStarted
from streamhalf.redact import plural
from streamhalf.report import live, watching
from streamhalf.report.audit import audit_details, audit_headline, render_audit, suspect_table
from streamhalf.report.first_screen import face_of
from streamhalf.report.html import macro, render_report
from streamhalf.report.live import Board, RunView, tester_views
from streamhalf.report.tables import label_table
from streamhalf.report.words import Names, count, number, pass_words
from streamhalf.results import AuditResult, CertifyResult, FitResult, MomentTestResult, WatchResult

if TYPE_CHECKING:
    from distributed import Client

Result: TypeAlias = MomentTestResult | FitResult | CertifyResult
_SECONDS_BETWEEN_DRAWINGS = 0.25
_MOST_WEIGHTS = 8
_MOST_SUSPECTS = 10
_NOTHING = {"text/plain": "", "text/html": ""}


def enable() -> bool:
    """Let notebooks show results as HTML; return whether there is a notebook or IPython."""
    shell = _shell()
    if shell is None:
        return False
    formatter = shell.display_formatter.formatters["text/html"]
    for kind in (MomentTestResult, FitResult, CertifyResult):
        formatter.for_type(kind, result_html)
    formatter.for_type(AuditResult, audit_html)
    formatter.for_type(WatchResult, watch_html)
    return True


# cards


def _card(name: str, result: Any, page: Callable[..., str] | None, *values: Any) -> str:
    """Return a card of card.html.j2, with a link that holds the page of the result."""
    file = f"streamhalf-{'report' if name == 'result' else name}.html"
    link = None
    if page is not None:
        content = base64.b64encode(page(result).encode("utf-8")).decode("ascii")
        link = file, f"data:text/html;base64,{content}"
    return macro("card.html.j2", name, COLOURS=live.COLOURS)(result, link, *values)


def result_html(result: Result) -> str:
    """Return the card of a result: quality, promise, advice, weights, and a link to the report."""
    face, positive = face_of(result), Names.of(result).label(1)
    judged = [] if isinstance(result, CertifyResult) else list(tester_views(result.testers).values())
    if isinstance(result, MomentTestResult):
        return _card("result", result, None, face, (), positive, judged, ())
    labels = label_table(result).rows
    return _card("result", result, render_report, face, _weights(result), positive, judged, labels)


def audit_html(result: AuditResult) -> str:
    """Return the card of an audit: its counts, and the first suspects."""
    tiles = [("label issues", count(result.n_issues), f"of {count(result.data.rows)} rows")]
    if result.review is not None:
        wrong = result.review.rows
        tiles.insert(0, ("wrong labels", f"{count(wrong.low)} to {count(wrong.high)}", "by reviews"))
    elif result.least_wrong:
        tiles.insert(0, ("contradicted by every linear rule", f"≥ {count(result.least_wrong)}", "labels"))
    if result.gatherings:
        first = result.gatherings[0]
        name = f"{first.column}: {first.value}" if first.column else first.value
        tiles.append((name, count(first.n_issues), f"issues; chance: {number(first.expected)}"))
    headline, details = audit_headline(result), audit_details(result).splitlines()
    listed = suspect_table(result, _MOST_SUSPECTS)
    return _card("audit", result, render_audit, headline, details, tiles, listed)


def watch_html(result: WatchResult) -> str:
    """Return the card of a watch: its outcome, every kind of quantity, and a link to its page."""
    said = (watching.headline(result), watching.verdict(result), watching.details(result))
    statements = watching.statement_table("Compared", result.statements).rows
    return _card("watch", result, watching.render_watch, *said, statements)


def _weights(result: FitResult | CertifyResult) -> list[tuple[str, str]]:
    """Return names and weights of the features that weigh most, the offset, and the rest."""
    halfspace, names = result.halfspace, result.data.feature_names
    if halfspace is None:
        return []
    order = sorted(range(len(names)), key=lambda j: -abs(halfspace.normal[j]))[:_MOST_WEIGHTS]
    shown = [(names[j], number(halfspace.normal[j])) for j in order] + [("offset", number(halfspace.offset))]
    rest = len(names) - len(order)
    return [*shown, (f"and {rest} more", "result.halfspace")] if rest else shown


# the live view


def monitor(client: Client | None = None) -> Monitor:
    """Show runs while they run: in a notebook as one picture that renews itself, else as text.

    Use it as a context manager, or as the `observer` of one run. One in the background,
    `fit(data, observer=monitor(), wait=False)`, has a button to cancel it where anywidget is
    installed; a cell that waits for its run is interrupted as any other.

    Parameters
    ----------
    client
        A `distributed` client: all runs on its cluster are shown. Without one,
        only runs that have the monitor as their `observer`.
    """
    return Monitor(client)


class Monitor:
    """A live view of runs, made by `monitor`."""

    def __init__(self, client: Client | None = None) -> None:
        self._client = client
        self._board = Board()
        self._local = ""
        self._lock = threading.Lock()
        self._thread = 0
        self._seen: set[int] = set()
        self._listening = False
        # the shell of a terminal has no kernel
        self._screen = _Notebook() if getattr(_shell(), "kernel", None) is not None else _Text()
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
        """Take in messages of the scheduler's log that were not heard."""
        if self._client is not None:
            for event in self._client.get_events(TOPIC):
                self._take(event)

    def _take(self, event: tuple[float, Any]) -> None:
        """Take in a message, unless it is known or of a run shown already."""
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
            if self._screen.cancelled.is_set():
                self._settle(RunClosed("cancelled", interrupted=True))
                raise RunCancelledError("the run was cancelled")
            self._thread = threading.get_ident()
            if isinstance(event, RunEnded):
                self._settle(event)
                return
            self._board.happen(self._local, time.time(), event)
            self._draw_if_due()

    def _settle(self, end: RunEnded | RunClosed) -> None:
        """Close the run of this process."""
        self._board.happen(self._local, time.time(), end)
        self._screen.end()
        self._draw()

    def _end_with_cell(self, *_: object) -> None:
        """Close the run that the cell waited for, if it has not ended."""
        with self._lock:
            if self._local in self._board.under_way() and self._thread == threading.get_ident():
                self._settle(RunClosed("broken off"))

    def _hear(self, event: tuple[float, Any]) -> None:
        """Take in a message from the scheduler, in the client's own thread."""
        if not self._listening:  # the scheduler learns of it a little later
            return
        with self._lock:
            missed = self._board.lacks_beginning(event[1])
        if missed:  # sent before the subscription was known; this thread cannot ask
            threading.Thread(target=self._fetch, daemon=True).start()
            return
        self._take(event)
        with self._lock:
            self._draw_if_due()

    def _fetch(self) -> None:
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):  # all may be over just now
            self._catch_up()
        with self._lock:
            if self._listening:
                self._draw()

    def _draw_if_due(self) -> None:
        if time.monotonic() >= self._due or not self._board.under_way():
            self._draw()

    def _draw(self) -> None:
        self._due = time.monotonic() + _SECONDS_BETWEEN_DRAWINGS
        if self._board.runs:
            self._screen.show(list(self._board.runs.values()))


class _Text:
    """Lines on standard output, each printed once; Ctrl-C interrupts."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._printed: dict[str, int] = {}

    def begin(self, after_cell: Callable[..., None]) -> None:
        """Begin with a run of this process; `after_cell` is called when the cell has ended."""

    def end(self) -> None:
        """End with it."""

    def show(self, runs: list[RunView]) -> None:
        """Show what is new."""
        for run in runs:
            lines = run_lines(run)
            for line in lines[self._printed.get(run.run, 0) :]:
                print(line, flush=True)
            self._printed[run.run] = len(lines)


class _Notebook(_Text):
    """One output of the cell in which the monitor was made, renewed in place."""

    def __init__(self) -> None:
        super().__init__()
        # an output belongs to a cell by a context variable, which other threads do not have
        self._context = contextvars.copy_context()
        self._handle: Any = None
        self._over: dict[tuple[str, float], str] = {}
        self._button = CancelButton()
        self._after_cell: Callable[..., None] | None = None

    def begin(self, after_cell: Callable[..., None]) -> None:
        """Show a button for a run in the background, and look at it when its cell has ended."""
        self.end()
        self._button = CancelButton()
        self.cancelled = self._button.pressed
        if threading.current_thread() is not threading.main_thread():
            self._context.run(self._button.show)  # a cell that waits would not hear it
        self._after_cell = after_cell
        _shell().events.register("post_run_cell", after_cell)

    def end(self) -> None:
        """Remove the button."""
        self._context.run(self._button.hide)
        if self._after_cell is not None:
            _shell().events.unregister("post_run_cell", self._after_cell)
            self._after_cell = None

    def show(self, runs: list[RunView]) -> None:
        """Draw every run, the latest first."""
        html = "<hr>".join(map(self._html, reversed(runs)))
        text = "\n".join(line for run in runs for line in run_lines(run))
        self._context.run(self._publish, {"text/html": html, "text/plain": text})

    def _html(self, run: RunView) -> str:
        if not run.closed:
            return live.run_html(run)
        if (key := (run.run, run.at)) not in self._over:
            self._over[key] = live.run_html(run)
        return self._over[key]

    def _publish(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class CancelButton:
    """A button that is there while a run goes on; without anywidget there is none."""

    def __init__(self) -> None:
        self.pressed = threading.Event()
        self._handle: Any = None
        self._widget: Any = None

    def show(self) -> None:
        """Put the button into the output of this cell."""
        try:
            from anywidget import AnyWidget
            from traitlets import Bool
        except ImportError:
            return
        from IPython.display import display

        script = Path(__file__).with_name("templates") / "cancel.js"
        members = {"_esm": script.read_text("utf-8"), "pressed": Bool(False).tag(sync=True)}
        self._widget = type("CancelWidget", (AnyWidget,), members)()
        self._widget.observe(lambda change: self.pressed.set(), "pressed")
        view = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
        # a view without widgets shows nothing
        bundle = {"application/vnd.jupyter.widget-view+json": view, **_NOTHING}
        self._handle = display(bundle, raw=True, display_id=True)

    def hide(self) -> None:
        """Remove the button."""
        if self._handle is not None:
            self._handle.update(_NOTHING, raw=True)
            self._widget.close()
            self._handle = self._widget = None


def run_lines(run: RunView) -> list[str]:
    """Return one line for each settled fact of a run; later calls only add lines."""
    begun = run.begun
    lines = [f"{begun.command} {begun.source}: {plural(begun.n_rows, 'row')} of {plural(begun.dim, 'feature')}"]
    lines += [pass_words(one.name, one.rows_done, one.seconds) for one in run.passes if one.done]
    if run.closed:
        lines.append(f"{run.status} {run.end.error if run.end else ''}".strip())
    return lines


def _shell() -> Any:
    """Return the IPython shell of this process, if there is one, without loading IPython."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
