"""The page on the scheduler's dashboard: real schedulers, real runs, a real browser."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from bokeh.models.widgets.inputs import Select
from distributed import Client

import streamhalf
from streamhalf._session import who
from streamhalf.engine.live_messages import TOPIC, RunClosed, decode, encode
from streamhalf.errors import DataError, RunCancelledError
from streamhalf.events import PassProgress, PassStarted, RunEnded, RunStarted, SlabsCounted, SlabsMeasured
from streamhalf.report import dashboard
from streamhalf.report.dashboard import DashboardObserver, Page, PagePlugin, install, mirrored
from streamhalf.report.live import Board, RunView
from streamhalf.results import Verdict
from tests.waiting import PATIENCE, fetch, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

QUICK = {"certificate_degree": 0, "eps": 0.2}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("data") / "rows.zarr")
    streamhalf.synth(path, rows=120_000, dim=3, chunk_rows=4_000, marginal="gaussian", noise="chow", rate=0.05)
    return path


def last_run(client: Client) -> RunView:
    """The latest run on the page, which has ended; its last message may be under way."""
    wait_until(lambda: runs_on(client)[-1].closed, "the end of the run")
    return runs_on(client)[-1]


def runs_on(client: Client) -> list[RunView]:
    """The runs that the page of a client's scheduler shows."""

    def read(dask_scheduler: Any) -> list[RunView]:
        return list(dask_scheduler.plugins[PagePlugin.name].board.runs.values())

    found: list[RunView] = client.run_on_scheduler(read)
    return found


class FakeClient:
    """Records what is logged; `log` may fail."""

    id = "Client-fake"
    status = "running"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.times: list[float] = []
        self.messages: list[Any] = []

    def log_event(self, topic: str, message: Any) -> None:
        assert topic == TOPIC
        self.times.append(time.monotonic())
        if self.error is not None:
            raise self.error
        self.messages.append(message)


def test_page__draws_the_run_that_is_chosen() -> None:
    board = Board()
    page = Page(board)
    run = page.root.select_one({"name": "run"})
    assert "No run yet" in run.text
    for name, slabs in (("one", SlabsMeasured(0.5, (1, 9, 9, 1))), ("two", SlabsMeasured(0.5, (2, 9, 9, 2), 1.25))):
        board.take(encode(name, [(1.0, RunStarted("fit", f"{name}.zarr", 20, 2)), (2.0, slabs), (3.0, RunClosed())]))
    page.update()
    assert "two.zarr" in run.text
    assert "boundary, t = 1.25" in run.text
    page.root.select_one({"type": Select}).value = "one"
    page.update()
    assert "one.zarr" in run.text
    assert "Margins of 20 rows along" in run.text
    assert "boundary, t = 0" in run.text


def test_install__puts_the_page_on_a_running_cluster(client: Client) -> None:
    found = install(client)
    assert found
    assert install(client) == found
    assert "streamhalf" in fetch(found.url)
    base = found.url.removesuffix("/streamhalf")
    listed = json.loads(fetch(f"{base}/individual-plots.json"))
    assert listed["Individual Streamhalf"] == "/individual-streamhalf"
    assert "Bokeh" in fetch(f"{base}/individual-streamhalf")
    assert '<a href="streamhalf">' in fetch(f"{base}/status")


def test_fit__appears_on_the_page_with_few_messages(client: Client, store: str) -> None:
    known = len(client.get_events(TOPIC))
    started = time.monotonic()
    result = streamhalf.fit(store, client=client, **QUICK)
    seconds = time.monotonic() - started
    run = last_run(client)
    messages = [message for _, message in client.get_events(TOPIC)[known:]]
    assert 2 <= len(messages) <= 6 * seconds + 4  # of the run, and of its two workers
    assert len(json.dumps(messages)) < 60_000  # the path and the bound by angle are among them
    assert (run.begun.command, run.begun.source, run.status) == ("fit", store, result.verdict)
    assert [one.name for one in run.passes] == [one.name for one in result.passes]
    assert all(one.done for one in run.passes)
    assert set(run.testers) == {one.tester for one in result.testers}
    assert run.slabs is not None
    assert (run.begun.seed, run.begun.who) == (result.seed, who())
    answer = run.answer
    assert answer is not None
    assert result.error is not None
    assert (answer.error, answer.eps) == (result.error.empirical, result.eps)
    assert answer.path == tuple(one.error for one in result.candidates)
    assert answer.chosen == result.chosen
    assert run.seconds_left is None  # it is over


@pytest.mark.parametrize("command", ["synth", "predict"])
def test_other_commands__appear_too(client: Client, store: str, tmp_path: Path, command: str) -> None:
    if command == "synth":
        spec = {"rows": 1000, "dim": 2, "marginal": "gaussian", "noise": "none", "rate": 0.0}
        streamhalf.synth(tmp_path / "new.zarr", client=client, **spec)
    else:
        model = streamhalf.Halfspace((1.0, 0.0, 0.0))
        streamhalf.predict(store, model=model, out=tmp_path / "signs.zarr", client=client)
    run = last_run(client)
    assert (run.begun.command, run.end) == (command, RunClosed())


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (DataError("no such rows"), RunClosed("no such rows")),
        (KeyboardInterrupt(), RunClosed("interrupted by the user", interrupted=True)),
        (RunCancelledError("stop"), RunClosed("cancelled by the user", interrupted=True)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_mirrored__tells_interrupted_from_failed(client: Client, error: BaseException, end: RunClosed) -> None:
    def stop() -> None:
        with mirrored(client, lambda event: None, RunStarted("fit", "stopped.zarr", 10, 2)):
            raise error

    with pytest.raises(type(error)):
        stop()
    run = last_run(client)
    assert (run.begun.source, run.end) == ("stopped.zarr", end)
    assert run.status == ("interrupted" if end.interrupted else "failed")


def test_page__closes_the_runs_of_a_client_that_left(client: Client) -> None:
    install(client)
    with Client(client.scheduler.address, set_as_default=False) as other:
        DashboardObserver(other)(RunStarted("fit", "left.zarr", 10, 2))
        wait_until(lambda: runs_on(client)[-1].begun.source == "left.zarr", "the run's beginning")
    assert last_run(client).status == "interrupted"
    _, events = decode(client.get_events(TOPIC)[-1][1])  # monitors hear of it too
    assert events[-1][1] == RunClosed("the process that drove it has left", interrupted=True)


def test_observer__sends_few_messages_and_the_latest_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    between = 0.1
    assert dashboard.SECONDS_BETWEEN_MESSAGES > 1 / 3
    monkeypatch.setattr(dashboard, "SECONDS_BETWEEN_MESSAGES", between)
    fake = FakeClient()
    observe = DashboardObserver(fake)
    observe(PassStarted("initial", 10**9, 10**6))
    done = 0

    def go_on() -> bool:
        nonlocal done
        for _ in range(1000):
            done += 1
            observe(PassProgress("initial", done, 10**9))
        return len(fake.messages) >= 4

    wait_until(go_on, "four messages")
    observe(RunEnded(Verdict.ACCEPTED))
    observe.close()
    regular = fake.times[:-1]  # the last one, at the end of the run, does not wait
    assert min(b - a for a, b in itertools.pairwise(regular)) > 0.9 * between
    happened = [event for message in fake.messages for _, event in decode(message)[1]]
    assert len(happened) <= 1 + len(fake.messages) + 2  # of progress, only the latest is told
    assert isinstance(happened[0], PassStarted)
    progress = [event.rows_done for event in happened if isinstance(event, PassProgress)]
    assert progress == sorted(progress)
    assert progress[-1] == done
    observe(RunEnded(Verdict.ACCEPTED))  # after the end nothing is sent
    assert sum(isinstance(event, RunEnded) for event in happened) == 1


def test_observer__gives_up_silently() -> None:
    fake = FakeClient(OSError("the scheduler is gone"))
    observe = DashboardObserver(fake)
    observe(RunStarted("fit", "rows.zarr", 10, 2))
    wait_until(lambda: len(fake.times) == 1 and observe._over, "the first message")
    observe(RunEnded(Verdict.ACCEPTED))
    observe.close()
    assert len(fake.times) == 1


def test_install__says_why_not() -> None:
    class Refusing:
        def run_on_scheduler(self, function: Any) -> str:
            raise ModuleNotFoundError("No module named 'streamhalf'")

    found = install(Refusing())
    assert not found
    assert "No module named 'streamhalf'" in found.reason


def test_add_page__needs_a_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> str:
        bare = SimpleNamespace(plugins={}, http_application=SimpleNamespace(applications=[]))
        coroutine = dashboard._add_page(bare)
        with pytest.raises(StopIteration) as stopped:
            coroutine.send(None)
        answer: str = stopped.value.value
        return answer

    assert ask() == "the scheduler runs without a dashboard"
    monkeypatch.setitem(sys.modules, "bokeh.server.tornado", None)
    assert "no bokeh" in ask()


@contextmanager
def programs(folder: Path) -> Iterator[str]:
    """`dask scheduler` with the page preloaded, and a worker; yields the address."""
    file = folder / "scheduler.json"
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
    page = ["--dashboard-address", "127.0.0.1:0", "--preload", "streamhalf.report.dashboard"]
    worker = ["worker", "--scheduler-file", str(file), "--host", "127.0.0.1", "--no-nanny"]
    quiet = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = []
    try:
        for arguments in ([*scheduler, *page], [*worker, *quiet]):
            with open(folder / f"{arguments[0]}.log", "wb") as log:
                command = [sys.executable, "-m", "dask", *arguments]
                started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment))
        wait_until(lambda: file.exists() and file.stat().st_size > 0, "the scheduler's start")
        yield json.loads(file.read_text())["address"]
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


@pytest.mark.slow
def test_preload__the_page_follows_a_run_in_a_browser(browser: Browser, store: str, tmp_path: Path) -> None:
    with programs(tmp_path) as address, Client(address, set_as_default=False) as client:
        url = client.dashboard_link.replace("/status", "/streamhalf")
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.set_default_timeout(1000 * PATIENCE)
        said: list[str] = []
        requests: list[str] = []
        page.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(url)
        page.get_by_text("No run yet").wait_for()

        part = SlabsCounted("final", 0.5, (10, 60, 80, 85, 70, 15))
        watched = DashboardObserver(client)
        watched(RunStarted("fit", "under-way.zarr", 1000, 2))
        wait_until(lambda: bool(runs_on(client)), "the run's beginning")
        client.log_event(TOPIC, encode(watched.run, [(time.time(), part)]))
        page.get_by_text("320 rows so far").first.wait_for()
        watched.close()

        result = streamhalf.fit(store, client=client, **QUICK)
        assert result.verdict is Verdict.ACCEPTED
        page.get_by_text("ACCEPTED").first.wait_for()
        for name in ("initial", "update-1", "final", "delta 0.5"):  # parts are drawn one by one
            page.get_by_text(name, exact=True).first.wait_for()
        page.get_by_text("slab mass", exact=True).first.wait_for()
        page.get_by_text(f"seed {result.seed}").first.wait_for()
        page.get_by_role("img", name="Errors of the candidates").wait_for()
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_function("document.documentElement.scrollWidth <= 390")
        page.close()
    assert said == []
    assert requests
    assert all(one.split("/")[2].startswith("127.0.0.1:") for one in requests)
