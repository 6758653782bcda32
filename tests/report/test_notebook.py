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
from streamhalf.report.html import render_report
from streamhalf.report.live import COLOURS
from streamhalf.report.notebook import enable, monitor, result_html
from streamhalf.report.voices import face_of
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


def execute(*sources: str) -> list[list[Any]]:
    """Run cells in a kernel of their own; returns the outputs of each."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in sources])
    runner = NotebookClient(notebook, timeout=int(PATIENCE), kernel_name="python3")
    with ThreadPoolExecutor(1) as pool:  # a browser test may keep a loop running in this thread
        pool.submit(lambda: asyncio.run(runner.async_execute())).result()
    return [cell.outputs for cell in notebook.cells]


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


def test_monitor__prints_lines_without_a_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    watch = monitor()
    for event in STORY:
        watch(event)
    assert capsys.readouterr().out.splitlines() == LINES


def test_monitor__tells_runs_apart(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_button__cancels_a_run_in_the_background(tmp_path: Any) -> None:
    """Message of a pressed button, sent by the kernel to itself."""
    store = str(tmp_path / "rows.zarr")
    data = "rows=120_000, dim=3, chunk_rows=1000, marginal='gaussian', noise='chow', rate=0.05"
    outputs = execute(
        f"import streamhalf\n_ = streamhalf.synth({store!r}, {data})",
        "import threading\n"
        "begun, go_on = threading.Event(), threading.Event()\n"
        "watch = streamhalf.monitor()\n"
        "def observe(event):\n"
        "    watch(event)\n"
        "    begun.set()\n"
        "    go_on.wait()\n"
        f"run = streamhalf.fit({store!r}, observer=observe, wait=False, eps=0.2)\n"
        "_ = begun.wait()\n"
        "button = watch._screen._button._widget\n"
        "button._handle_msg({'content': {'data': {'method': 'update', 'state': {'pressed': True}}},"
        " 'buffers': []})\n"
        "go_on.set()\n"
        "try:\n"
        "    run.result()\n"
        "except streamhalf.RunCancelledError as error:\n"
        "    print(error)",
    )
    said = "".join(one.text for one in outputs[1] if one.output_type == "stream")
    assert said == "the run was cancelled\n"
    shown = [one.data["text/html"] for one in outputs[1] if one.get("data", {}).get("text/html")]
    words = " ".join(Text(shown[0]).words).lower()
    assert "interrupted" in words
    assert "cancelled" in words
    assert "failed" not in words


def test_monitor__says_that_a_run_was_broken_off() -> None:
    (outputs,) = execute(
        "import numpy as np, streamhalf\n"
        "def stop(event):\n"
        "    watch(event)\n"
        "    if type(event).__name__ == 'PassStarted':\n"
        "        raise KeyError('stop')\n"
        "watch = streamhalf.monitor()\n"
        "try:\n"
        "    streamhalf.test(np.zeros((100, 2)), observer=stop)\n"
        "except KeyError:\n"
        "    pass"
    )
    shown = [one.data["text/html"] for one in outputs if one.data["text/html"]]
    assert "broken off" in " ".join(Text(shown[0]).words)


def test_kernel__renews_one_output_and_shows_results(tmp_path: Any) -> None:
    store = str(tmp_path / "rows.zarr")
    data = "rows=120_000, dim=3, chunk_rows=4000, marginal='gaussian', noise='chow', rate=0.05"
    outputs = execute(
        f"%load_ext streamhalf\nimport streamhalf\n_ = streamhalf.synth({store!r}, {data})",
        "watch = streamhalf.monitor()\n"
        f"result = streamhalf.fit({store!r}, observer=watch, eps=0.2, certificate_degree=0)",
        "result",
        f"streamhalf.test({store!r})",
        # drawn from another thread, as messages from a scheduler are
        "import threading\n"
        "from streamhalf.events import RunStarted, RunEnded\n"
        "from streamhalf.results import Verdict\n"
        "watch = streamhalf.monitor()\n"
        "def tell():\n"
        "    watch(RunStarted('fit', 'other.zarr', 10, 2))\n"
        "    watch(RunEnded(Verdict.REJECTED))\n"
        "thread = threading.Thread(target=tell)\n"
        "thread.start()\n"
        "thread.join()",
    )
    assert outputs[0] == []
    # the button of a run that is over has left an output that shows nothing
    live, shown, tested, threaded = (next(one for one in found if one.data["text/html"]) for found in outputs[1:])
    assert all("widget" not in kind for found in outputs for one in found for kind in one.data)
    assert live.output_type == "display_data"
    words = Text(live.data["text/html"]).words
    assert {"ACCEPTED", "initial", "final"} <= set(words)
    assert live.data["text/plain"].endswith("accepted")
    assert "Guessing" in Text(shown.data["text/html"]).words
    assert "✓ Passed:" in Text(tested.data["text/html"]).words
    assert "REJECTED" in Text(threaded.data["text/html"]).words


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


def test_kernel__runs_on_small_workers_without_a_red_box() -> None:
    """Standard error is red in a notebook, in every cell anew."""
    run = "result = streamhalf.{}((X, y), eps=0.2, certificate_degree=0)"
    _, *cells = execute(
        "import numpy as np, streamhalf\nfrom distributed import Client\n"
        "X = np.random.default_rng(0).standard_normal((3000, 2))\n"
        "y = np.where(X[:, 0] > 0, 1, -1)\n"
        "client = Client(n_workers=1, threads_per_worker=1, processes=False, memory_limit='1GiB',"
        " dashboard_address=':0')",
        run.format("fit"),
        run.format("test"),
        "client.close()",
    )
    assert [one for cell in cells[:2] for one in cell if one.output_type != "display_data"] == []
