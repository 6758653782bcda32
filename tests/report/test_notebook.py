"""Notebooks: text where there is no kernel, renewed outputs in a real one."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from distributed import Client
from nbclient import NotebookClient

from streamhalf.engine.live_messages import TOPIC, encode
from streamhalf.events import PassEnded, PassStarted, RunEnded, RunStarted
from streamhalf.report.dashboard import DashboardObserver
from streamhalf.report.first_screen import face_of
from streamhalf.report.html import render_report
from streamhalf.report.live import COLOURS
from streamhalf.report.notebook import enable, monitor, result_html
from streamhalf.report.words import number
from streamhalf.results import MomentTestResult, PassRecord, Verdict
from tests.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from tests.report.results import Results

STORY = (
    RunStarted("fit", "rows.zarr", 1000, 3),
    PassStarted("initial", 400, 4),
    PassEnded(PassRecord("initial", 400, 8000, 400, 2.0)),
    RunEnded(Verdict.ACCEPTED),
)
LINES = ["fit rows.zarr: 1,000 rows of 3 features", "pass initial: 400 rows in 2.00 s (200 rows/s)", "accepted"]


def has_closed(messages: Any) -> bool:
    """True if a run that begins in these messages ends in them too."""
    kinds = [(one["run"], event["event"]) for _, one in messages for _, event in one["events"]]
    begun, ended = ({run for run, kind in kinds if kind == k} for k in ("RunStarted", "RunClosed"))
    return bool(begun & ended)


class Text(HTMLParser):
    """The words of a fragment; every element that begins must end."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_monitor__prints_lines_without_a_kernel_and_tells_runs_apart(capsys: pytest.CaptureFixture[str]) -> None:
    with monitor() as watch:
        for event in (*STORY, *STORY):
            watch(event)
    assert capsys.readouterr().out.splitlines() == [*LINES, *LINES]


def test_monitor__hears_of_runs_that_others_started(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(client.scheduler.address, set_as_default=False) as elsewhere:
        observe = DashboardObserver(elsewhere)
        before = len(client.get_events(TOPIC))
        with monitor(client):
            for event in STORY:
                observe(event)
            observe.close()
            # messages of another client travel by themselves
            wait_until(lambda: has_closed(client.get_events(TOPIC)[before:]), "the run's end")
        assert capsys.readouterr().out.splitlines() == LINES
        after = DashboardObserver(elsewhere)
        after(STORY[0])
        after.close()
    assert capsys.readouterr().out == ""


def test_monitor__shows_a_run_once_though_it_comes_twice(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    mirror = DashboardObserver(client)
    with monitor(client) as watch:
        for event in STORY:
            watch(event)
            mirror(event)
        mirror.close()
    assert capsys.readouterr().out.splitlines() == LINES


def test_import__leaves_ipython_and_distributed_alone() -> None:
    code = (
        "import sys, streamhalf; streamhalf.monitor(); "
        "print([name for name in ('IPython', 'distributed', 'bokeh') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_result_html__has_quality_promise_and_the_report(results: Results) -> None:
    assert not enable()
    for name, result in results.every().items():
        html = result_html(result)
        text, face = " ".join(" ".join(Text(html).words).split()), face_of(result)
        for tile in face.tiles:
            assert " ".join(f"{tile.name} {tile.value}".split()) in text, name
        assert " ".join(str(face.promise).split()) in text, name
        if isinstance(result, MomentTestResult):
            continue
        address = html.split('href="data:text/html;base64,')[1].split('"')[0]
        assert base64.b64decode(address).decode("utf-8") == render_report(result)
        assert number(result.halfspace.offset) in text


def luminance(colour: str) -> float:
    """Relative luminance of a colour (WCAG 2)."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", sorted(set(COLOURS.values())))
def test_colours__are_told_from_light_and_dark_pages(colour: str) -> None:
    assert contrast(colour, "#ffffff") >= 4.5  # white words on a badge
    for page in ("#ffffff", "#111111", "#1e1e1e"):  # JupyterLab and VS Code, light and dark
        assert contrast(colour, page) >= 3  # bars and dots; words have the page's own colour


CELLS = {
    "load": "%load_ext streamhalf\nimport numpy as np, streamhalf\n"
    "data = {'rows': 60_000, 'dim': 3, 'chunk_rows': 1000, 'marginal': 'gaussian', 'noise': 'chow', 'rate': 0.05}\n"
    "_ = streamhalf.synth('rows.zarr', **data)",
    "fit": "watch = streamhalf.monitor()\n"
    "result = streamhalf.fit('rows.zarr', observer=watch, eps=0.2, certificate_degree=0)",
    "result": "result",
    "test": "streamhalf.test('rows.zarr')",
    # a message of a pressed button, sent by the kernel to itself
    "cancel": "import threading\n"
    "begun, go_on = threading.Event(), threading.Event()\n"
    "watch = streamhalf.monitor()\n"
    "def observe(event):\n"
    "    watch(event)\n"
    "    begun.set()\n"
    "    go_on.wait()\n"
    "run = streamhalf.fit('rows.zarr', observer=observe, wait=False, eps=0.2)\n"
    "_ = begun.wait()\n"
    "button = watch._screen._button._widget\n"
    "button._handle_msg({'content': {'data': {'method': 'update', 'state': {'pressed': True}}}, 'buffers': []})\n"
    "go_on.set()\n"
    "try:\n"
    "    run.result()\n"
    "except streamhalf.RunCancelledError as error:\n"
    "    print(error)",
    "broken off": "def stop(event):\n"
    "    watch(event)\n"
    "    if type(event).__name__ == 'PassStarted':\n"
    "        raise KeyError('stop')\n"
    "watch = streamhalf.monitor()\n"
    "try:\n"
    "    streamhalf.test(np.zeros((100, 2)), observer=stop)\n"
    "except KeyError:\n"
    "    pass",
    # drawn from another thread, as messages from a scheduler are
    "thread": "from streamhalf.events import RunStarted, RunEnded\n"
    "from streamhalf.results import Verdict\n"
    "watch = streamhalf.monitor()\n"
    "def tell():\n"
    "    watch(RunStarted('fit', 'other.zarr', 10, 2))\n"
    "    watch(RunEnded(Verdict.REJECTED))\n"
    "thread = threading.Thread(target=tell)\n"
    "thread.start()\n"
    "thread.join()",
    # standard error is red in a notebook, in every cell anew
    "small worker": "from distributed import Client\n"
    "client = Client(n_workers=1, threads_per_worker=1, processes=False, memory_limit='1GiB', dashboard_address=':0')\n"
    "X = np.random.default_rng(0).standard_normal((3000, 2))\n"
    "_ = streamhalf.fit((X, np.where(X[:, 0] > 0, 1, -1)), eps=0.2, certificate_degree=0)\n"
    "client.close()",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Outputs of the cells by name, all in one kernel."""
    folder = str(tmp_path_factory.mktemp("notebook"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in CELLS.values()])
    resources = {"metadata": {"path": folder}}
    runner = NotebookClient(notebook, timeout=int(PATIENCE), kernel_name="python3", resources=resources)
    with ThreadPoolExecutor(1) as pool:  # a browser test may keep a loop running in this thread
        pool.submit(lambda: asyncio.run(runner.async_execute())).result()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("fit", {"ACCEPTED", "initial", "final"}),
        ("result", {"Error of guessing"}),
        ("test", {"✓ Passed:"}),
        ("cancel", {"INTERRUPTED", "cancelled"}),
        ("broken off", {"broken off"}),
        ("thread", {"REJECTED"}),
    ],
)
def test_kernel__shows_results_and_runs(outputs: dict[str, list[Any]], cell: str, words: set[str]) -> None:
    (shown,) = (one for one in outputs[cell] if one.get("data", {}).get("text/html"))
    assert words <= set(Text(shown.data["text/html"]).words)


def test_kernel__has_one_output_for_a_run_and_no_red_box(outputs: dict[str, list[Any]]) -> None:
    assert outputs["load"] == []
    (live,) = (one for one in outputs["fit"] if one.data["text/html"])
    assert live.data["text/plain"].endswith("accepted")
    assert [one.text for one in outputs["cancel"] if one.output_type == "stream"] == ["the run was cancelled\n"]
    # the button of a run that is over has left an output that shows nothing
    shown = [one for name, found in outputs.items() for one in found if name != "cancel"]
    assert {one.output_type for one in shown} <= {"display_data", "execute_result"}
    assert all("widget" not in kind for one in shown for kind in one.data)


def wait_for_delivery(client: Client) -> None:
    """Wait until the client has heard all that the scheduler has told it: news come in order."""
    heard: list[Any] = []
    client.subscribe_topic("marker", heard.append)

    def hears() -> bool:
        client.log_event("marker", "here")
        return bool(heard)

    wait_until(hears, "the marker")
    client.unsubscribe_topic("marker")


def test_monitor__fetches_the_beginning_of_a_run_that_it_missed(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    with monitor(client) as watch:
        watch._listening = False  # as if the scheduler did not know yet of a listener
        observe = DashboardObserver(client)
        before = len(client.get_events(TOPIC))
        observe(STORY[0])
        wait_until(lambda: len(client.get_events(TOPIC)) > before, "the beginning")
        wait_for_delivery(client)
        watch._listening = True
        for event in STORY[1:]:
            observe(event)
        observe.close()
        wait_until(lambda: has_closed(client.get_events(TOPIC)[before:]), "the run's end")
    assert capsys.readouterr().out.splitlines() == LINES


def test_monitor__messages_of_one_moment_are_all_taken() -> None:
    """A clock may give one time to two messages; one message that comes twice is taken once."""
    watch = monitor()
    at = 1_700_000_000.0
    for i, event in enumerate(STORY):
        message = encode("run", [(float(i), event)])
        watch._take((at, message))
        watch._take((at, {**message, "events": tuple(message["events"])}))
    (run,) = watch._board.runs.values()
    assert [one.name for one in run.passes] == ["initial"]
    assert run.passes[0].done
    assert run.verdict is Verdict.ACCEPTED
    assert watch._board.version == len(STORY)
