"""A page /streamhalf on the Dask scheduler's own dashboard, fed through its event log; metrics for Prometheus.

The page comes up when a run on a cluster begins (`install`), or with the scheduler:

    dask scheduler --preload streamhalf.report.dashboard
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from distributed.diagnostics.plugin import SchedulerPlugin

from streamhalf.engine.live_messages import SECONDS_BETWEEN_COUNTS, TOPIC, ClusterSlabs, Happening, RunClosed, encode
from streamhalf.errors import RunCancelledError, StreamhalfError
from streamhalf.events import Event, Observer, PassProgress, RunStarted, fan_out
from streamhalf.redact import one_line, printable
from streamhalf.report import distributed_private as private
from streamhalf.report import live
from streamhalf.report.live import Board, RunView
from streamhalf.results import Drift

if TYPE_CHECKING:
    from bokeh.document import Document
    from distributed import Client, Scheduler

# The page of the dashboard, and the same without its frame: what a lab extension lists
MENU, BARE = "/streamhalf", "/individual-streamhalf"
SECONDS_BETWEEN_MESSAGES = 0.4
_COUNTS_PER_SECOND = 3  # Messages of all workers together, at most
_REDRAW_MS = 500
_CLOSE_SECONDS = 2.0
_COMPLETE = RunClosed()
_CLIENT_LEFT = RunClosed("the process that drove it has left", interrupted=True)
_run_numbers = itertools.count(1)
_LATEST = "latest"
_NO_RUN = "<h3>No run yet</h3>Runs of streamhalf on this cluster appear here while they run."


@dataclass(frozen=True, slots=True)
class Installation:
    """The page's address if it is there, and why not otherwise."""

    url: str
    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


class PagePlugin(SchedulerPlugin):
    """Folds messages into a board on the scheduler and serves the page that shows it."""

    name = "streamhalf-page"
    idempotent = True

    def __init__(self) -> None:
        self.board = Board()
        self.metrics = Metrics(self.board)
        self._serving = False

    async def start(self, scheduler: Scheduler) -> None:
        """Take in what is in the log already, and serve page and metrics.

        A scheduler that is just starting starts its plugins too, after the preload has.
        """
        if self._serving:
            return
        self._serving = True
        for message in private.logged(scheduler, TOPIC):
            self.board.take(message)
        self.metrics.register()
        pages = {path: functools.partial(_draw, self.board, path == MENU) for path in (MENU, BARE)}
        private.serve_pages(scheduler, pages, menu=MENU.strip("/"))

    def log_event(self, topic: str, msg: Any) -> None:
        if topic == TOPIC:
            self.board.take(msg)

    async def close(self) -> None:
        self.metrics.unregister()

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Close the runs of a client that left in their midst, here and for all who listen."""
        for run in self.board.under_way(client):
            scheduler.log_event(TOPIC, encode(run, [(time.time(), _CLIENT_LEFT)]))


def install(client: Client) -> Installation:
    """Put the page on the dashboard of the client's scheduler, unless it is there.

    Where the scheduler lacks streamhalf, bokeh or a dashboard, what is returned is false and says why.
    """
    try:
        if reason := client.run_on_scheduler(_add_page):
            return Installation("", reason)
        return Installation(client.dashboard_link.removesuffix("/status") + MENU)
    except Exception as error:  # whatever the scheduler lacks, a run goes on without its page
        return Installation("", f"the scheduler refused it ({type(error).__name__}: {error})")


async def _add_page(dask_scheduler: Scheduler) -> str:
    """Add the page; returns why it cannot be, in words."""
    try:
        private.find_dashboard(dask_scheduler)
        await private.add_plugin(dask_scheduler, PagePlugin(), PagePlugin.name)
    except ImportError as error:
        return f"the scheduler has no bokeh to draw with ({error})"
    except LookupError as error:
        return str(error.args[0])
    return ""


dask_setup = _add_page  # Entry point of `dask scheduler --preload`


def _draw(board: Board, framed: bool, scheduler: Scheduler, extra: dict[str, Any], doc: Document) -> None:
    """Fill a document with the page, perhaps under the dashboard's menu."""
    page = Page(board)
    private.dress(doc, page, extra if framed else None, milliseconds=_REDRAW_MS)
    doc.title = "streamhalf"
    doc.add_root(page.root)


class Page:
    """One viewer's page: a run that is chosen, and all runs; renewed only when the board has changed."""

    def __init__(self, board: Board) -> None:
        from bokeh.layouts import column
        from bokeh.models.widgets.inputs import Select
        from bokeh.models.widgets.markups import Div

        self._board = board
        self._drawn = (0, _LATEST)
        wide: Any = {"sizing_mode": "stretch_width", "styles": {"overflow-x": "auto"}}
        self._choice = Select(title="run", value=_LATEST, options=self._options([]), width=300)
        self._run, self._others = Div(name="run", text=_NO_RUN, **wide), Div(text="", **wide)
        style = {"padding": "8px", "font-family": "sans-serif", "max-width": "100vw", "box-sizing": "border-box"}
        parts = (self._choice, self._run, self._others)
        self.root = column(*parts, styles=style, sizing_mode="stretch_width")
        self.update()

    def update(self) -> None:
        """Draw the chosen run, unless nothing has happened since the last time."""
        state = (self._board.version, self._choice.value)
        if state == self._drawn:
            return
        self._drawn = state
        runs = list(self._board.runs.values())
        self._choice.options = self._options(runs)
        self._run.text = live.run_html(self._board.runs.get(self._choice.value, runs[-1]), fold=False)
        self._others.text = f"<h3>Runs</h3>{live.run_table(reversed(runs))}"

    @staticmethod
    def _options(runs: list[RunView]) -> list[str | tuple[Any, str]]:
        """Values and labels to choose a run by, the latest first: when it started, command and user."""
        options: list[str | tuple[Any, str]] = [_LATEST]
        for run in reversed(runs):
            begun, by = run.begun, f", {run.begun.who}" if run.begun.who else ""
            at = live.clock(run.started)
            options.append((run.run, f"{at} {begun.command} {begun.source} ({run.short}{by})"))
        return options


class DashboardObserver:
    """An observer whose events appear on the dashboard and in `monitor` of any client, until it is closed.

    They go to the scheduler's log, a few messages a second at most, from a thread of their own, so
    the run never waits for one; the first that fails is the last, for a view is no reason to fail.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.run = f"{client.id}-{next(_run_numbers)}"
        self._news = threading.Condition()
        self._waiting: list[Happening] = []
        self._over = False
        self._thread = threading.Thread(target=self._deliver, daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Take an event; of progress only the latest waits."""
        with self._news:
            if self._over:
                return
            if isinstance(event, PassProgress) and self._waiting:
                latest = self._waiting[-1][1]
                if isinstance(latest, PassProgress) and latest.name == event.name:
                    del self._waiting[-1]
            self._waiting.append((time.time(), event))
            self._news.notify()

    def close(self, end: RunClosed = _COMPLETE) -> None:
        """Send what waits and say that this was all, or what ended the run early."""
        with self._news:
            if self._over:
                return
            self._over = True
            self._waiting.append((time.time(), end))
            self._news.notify()
        self._thread.join(_CLOSE_SECONDS)

    def _deliver(self) -> None:
        over = False
        while not over:
            with self._news:
                self._news.wait_for(lambda: self._waiting)
                waiting, self._waiting, over = self._waiting, [], self._over
            try:
                if self._client.status == "running":
                    self._client.log_event(TOPIC, encode(self.run, waiting))
            except Exception:  # the scheduler may be gone or refuse; the run will notice by itself
                self._over = True
                return
            with self._news:
                self._news.wait_for(lambda: self._over, SECONDS_BETWEEN_MESSAGES)


@contextmanager
def mirrored(
    client: Client, observer: Observer, started: RunStarted | None = None, *, page: bool = True
) -> Iterator[tuple[Observer, ClusterSlabs]]:
    """The observer joined with one for the dashboard, and what lets workers tell of the slabs they count.

    The observer has heard of `started` already. With `page` the scheduler gets the page, if it can have one.
    """
    if page:
        install(client)
    n_workers = len(client.scheduler_info(n_workers=-1)["workers"])
    between = max(SECONDS_BETWEEN_COUNTS, n_workers / _COUNTS_PER_SECOND)
    mirror = DashboardObserver(client)
    if started is not None:
        mirror(started)
    try:
        yield fan_out(observer, mirror), ClusterSlabs(mirror.run, between)
    except BaseException as error:
        mirror.close(_early_end(error))
        raise
    mirror.close()


def _early_end(error: BaseException) -> RunClosed:
    """Return the closing event of a run that failed or was cancelled."""
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return RunClosed("interrupted by the user", interrupted=True)
    if isinstance(error, RunCancelledError):
        return RunClosed("cancelled by the user", interrupted=True)
    said = " ".join(str(error).split()) if isinstance(error, StreamhalfError) else one_line(error)
    return RunClosed(printable(said))


class Metrics:
    """The totals of a board for Prometheus; the latest of a process is the one that is asked."""

    latest: ClassVar[Metrics | None] = None

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily as Counters
        from prometheus_client.core import GaugeMetricFamily as Gauges

        board, watched = self._board, self._board.watched
        yield Counters("streamhalf_rows", "Rows that passes have read", value=board.rows)
        yield Counters("streamhalf_passes", "Passes that are complete", value=board.passes)
        yield _filled(
            Counters("streamhalf_runs", "Runs that are over", labels=["verdict"]), sorted(board.ended.items())
        )
        yield Gauges("streamhalf_runs_under_way", "Runs under way", value=len(board.under_way()))
        if watched is None:
            return
        said = "Outcome of the latest watch"
        outcomes = ((str(one), float(watched.outcome is one)) for one in Drift)
        yield _filled(Gauges("streamhalf_watch_outcome", said, labels=["outcome"]), outcomes)
        said = "Distance from the rows behind the result over its tolerance"
        apart = ((one.kind, one.distance / one.tolerance) for one in watched.statements)
        yield _filled(Gauges("streamhalf_watch_distance", said, labels=["kind"]), apart)
        drifted = ((one.kind, one.n_drifted) for one in watched.statements)
        yield _filled(Gauges("streamhalf_watch_drifted", "Quantities that have drifted", labels=["kind"]), drifted)
        for one in watched.statements:
            if one.kind == "errors":
                yield Gauges("streamhalf_watch_error", "Error on the rows of the latest watch", value=one.new)

    def register(self) -> None:
        """Have Prometheus ask this one of all in the process, unless its library is not there."""
        try:
            from prometheus_client import REGISTRY
        except ModuleNotFoundError:
            return
        if Metrics.latest is not None:
            Metrics.latest.unregister()
        REGISTRY.register(self)
        Metrics.latest = self

    def unregister(self) -> None:
        if Metrics.latest is self:
            from prometheus_client import REGISTRY

            REGISTRY.unregister(self)
            Metrics.latest = None


def _filled(family: Any, values: Iterable[tuple[str, float]]) -> Any:
    """Return a metric with its values by label."""
    for label, value in values:
        family.add_metric([label], value)
    return family
