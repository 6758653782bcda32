"""Private interfaces of `distributed` that we rely upon: its dashboard and its log."""

from __future__ import annotations

import functools
import inspect
import json
import queue
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client, Scheduler, Worker
from distributed.diagnostics.plugin import SchedulerPlugin

from streamhalf.report.distributed_private import add_plugin, dress, find_dashboard, logged, serve_pages
from tests.canary import relying_on
from tests.waiting import fetch, wait_until

relying = functools.partial(relying_on, "distributed", mend="streamhalf/report/distributed_private.py")
TOPIC = "canary"


def test_log__gives_time_and_message_to_the_log_and_to_those_who_listen(client: Client) -> None:
    heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with relying("Client.subscribe_topic, log_event and get_events tell (time, message) alike"):
        client.subscribe_topic(TOPIC, heard.put)  # the scheduler learns of it a little later

        def hears() -> bool:
            client.log_event(TOPIC, {"run": "a", "events": [1, 2]})
            return not heard.empty()

        wait_until(hears, "a message heard")
        at, message = heard.get()
        client.unsubscribe_topic(TOPIC)
        assert isinstance(at, float)
        kept = [json.dumps(one) for one in client.get_events(TOPIC)]
        assert json.dumps([at, message]) in kept
    with relying("Scheduler.get_events(topic) gives pairs of a time and a message"):
        found = client.run_on_scheduler(lambda dask_scheduler: logged(dask_scheduler, TOPIC))
        assert json.dumps(found[-1]) == json.dumps(message)
    with relying("Worker.log_event(topic, message) tells the scheduler"):
        assert list(inspect.signature(Worker.log_event).parameters) == ["self", "topic", "msg"]


class Listener(SchedulerPlugin):
    """Keeps what it hears."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.started = False
        self.heard: list[Any] = []

    async def start(self, scheduler: Scheduler) -> None:
        self.started = True

    def log_event(self, topic: str, msg: Any) -> None:
        self.heard.append((topic, msg))


def test_plugin__is_known_by_name_and_hears_of_messages(client: Client) -> None:
    name = "canary-plugin"

    async def add(number: int, dask_scheduler: Scheduler) -> tuple[bool, bool]:
        before = name in dask_scheduler.plugins
        await add_plugin(dask_scheduler, Listener(number), name)
        return before, name in dask_scheduler.plugins

    with relying("register_scheduler_plugin(plugin, name, idempotent=True) adds to .plugins once"):
        assert client.run_on_scheduler(add, 1) == (False, True)
        assert client.run_on_scheduler(add, 2) == (True, True)
    with relying("a plugin is started, and hears of every message by log_event(topic, message)"):
        client.log_event(TOPIC, "news")
        found = client.run_on_scheduler(lambda dask_scheduler: vars(dask_scheduler.plugins[name]))
        assert (found["number"], found["started"]) == (1, True)
        assert (TOPIC, "news") in found["heard"]
    with relying("plugins hear of clients that leave by remove_client(scheduler, client)"):
        parameters = list(inspect.signature(SchedulerPlugin.remove_client).parameters)
        assert parameters[:3] == ["self", "scheduler", "client"]
    client.unregister_scheduler_plugin(name)


class Still:
    """A page on which nothing changes."""

    def update(self) -> None:
        pass


def test_dashboard__takes_pages_beside_its_own(client: Client) -> None:
    def draw(name: str, scheduler: Scheduler, extra: dict[str, Any], doc: Any) -> None:
        dress(doc, Still(), extra if name == "framed" else None, milliseconds=1000)

    def serve(dask_scheduler: Scheduler) -> None:
        pages = {"/canary": "framed", "/individual-canary": "bare"}
        serve_pages(
            dask_scheduler, {path: functools.partial(draw, name) for path, name in pages.items()}, menu="canary"
        )

    with relying("http_application.applications holds a BokehTornado with prefix, _applications"):
        own = client.run_on_scheduler(
            lambda dask_scheduler: [
                find_dashboard(dask_scheduler).prefix,
                *find_dashboard(dask_scheduler)._applications,
            ]
        )
        assert isinstance(own[0], str)
        assert "/status" in own
    with relying("BokehApplication, template_variables and add_application serve a new page"):
        client.run_on_scheduler(serve)
        base = client.dashboard_link.removesuffix("/status")
        assert "Bokeh" in fetch(f"{base}/individual-canary")
    with relying("components.scheduler.env has simple.html, which shows the dashboard's menu"):
        assert '<a href="status">' in fetch(f"{base}/canary")
    with relying("individual-plots.json lists the first application's pages by path"):
        listed = json.loads(fetch(f"{base}/individual-plots.json"))
        assert listed["Individual Canary"] == "/individual-canary"


def test_find_dashboard__without_one() -> None:
    bare: Any = SimpleNamespace(http_application=SimpleNamespace(applications=[]))
    with pytest.raises(LookupError, match="without a dashboard"):
        find_dashboard(bare)
