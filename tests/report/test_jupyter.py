"""Notebooks: text where there is no kernel, renewed outputs in a real one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from distributed import Client
from nbclient import NotebookClient

from streamhalf.events import PassEnded, PassStarted, RunEnded, RunStarted
from streamhalf.records import PassRecord, Verdict
from streamhalf.report.dashboard import DashboardObserver
from streamhalf.report.jupyter import enable, monitor, result_html
from streamhalf.report.live import TOPIC, encode
from tests.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from tests.report.conftest import Results

STORY = (
    RunStarted("fit", "rows.zarr", 1000, 3),
    PassStarted("initial", 400, 4),
    PassEnded(PassRecord("initial", 400, 8000, 400, 2.0)),
    RunEnded(Verdict.ACCEPTED),
)
LINES = [
    "fit rows.zarr: 1,000 rows of 3 features",
    "pass initial: 400 rows in 2.00 s (200 rows/s)",
    "accepted",
]


def execute(*sources: str) -> list[list[Any]]:
    """Run cells in a kernel of their own; returns the outputs of each."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in sources])
    runner = NotebookClient(notebook, timeout=int(PATIENCE), kernel_name="python3")
    with ThreadPoolExecutor(1) as pool:  # a browser test may keep a loop running in this thread
        pool.submit(lambda: asyncio.run(runner.async_execute())).result()
    return [cell.outputs for cell in notebook.cells]


def has_closed(messages: Any) -> bool:
    """Whether a run that begins in these messages ends in them too."""
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


def test_monitor__hears_of_runs_that_others_started(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_monitor__shows_a_run_once_though_it_comes_twice(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_result_html__says_the_verdict_and_the_testers(results: Results) -> None:
    assert not enable()
    expected = {
        "accepted": ("ACCEPTED", "slab mass", "no halfspace"),
        "rejected": ("REJECTED", "largest moment", "--position auto"),
        "certified": ("CERTIFIED", "largest moment", "within a factor"),
        "radial": ("ACCEPTED", "slab mass", "every elliptical law"),
        "inconclusive": ("INCONCLUSIVE", "too few"),
        "demanding": ("INCONCLUSIVE", "slab mass"),
        "certificate": ("FINISHED", "classifier"),
    }
    for name, result in results.every().items():
        text = " ".join(Text(result_html(result)).words)
        for words in expected[name]:
            assert words in text, name


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
        "from streamhalf.records import Verdict\n"
        "watch = streamhalf.monitor()\n"
        "def tell():\n"
        "    watch(RunStarted('fit', 'other.zarr', 10, 2))\n"
        "    watch(RunEnded(Verdict.REJECTED))\n"
        "thread = threading.Thread(target=tell)\n"
        "thread.start()\n"
        "thread.join()",
    )
    assert outputs[0] == []
    live, shown, tested, threaded = (output for (output,) in outputs[1:])
    assert live.output_type == "display_data"
    words = Text(live.data["text/html"]).words
    assert {"ACCEPTED", "initial", "final", "slab mass"} <= set(words)
    assert live.data["text/plain"].endswith("accepted")
    assert "ACCEPTED" in Text(shown.data["text/html"]).words
    assert "PASSED" in Text(tested.data["text/html"]).words
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
        watch._listening = False  # as if the scheduler did not know yet that somebody listens
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
