"""Runs in the background, and that a cluster is left as it was, however a run ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import streamhalf
from streamhalf import RunCancelledError
from streamhalf.events import PassProgress, PassStarted
from tests.comparing import comparable
from tests.waiting import PATIENCE, wait_until

OPTIONS: dict[str, Any] = {"eps": 0.25, "certificate_degree": 0}

pytestmark = pytest.mark.usefixtures("small_blocks")  # a pass has a middle


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "rows.zarr"
    spec: dict[str, Any] = {"rows": 60 * 1024, "dim": 2, "marginal": "gaussian", "noise": "none"}
    streamhalf.synth(path, chunk_rows=3072, scheduler="serial", **spec)
    return path


def own_tasks(dask_scheduler: Any = None) -> list[str]:
    return [str(key) for key in dask_scheduler.tasks if "streamhalf-" in str(key)]


def is_clean(client: Client) -> bool:
    return client.run_on_scheduler(own_tasks) == []


def test_handle__gives_the_result_and_says_how_far_it_is(store: Path) -> None:
    go_on, seen = threading.Event(), threading.Event()

    def observer(event: Any) -> None:
        if isinstance(event, PassProgress) and not seen.is_set():
            seen.set()
            assert go_on.wait(PATIENCE)

    handle = streamhalf.fit(store, wait=False, observer=observer, scheduler="serial", **OPTIONS)
    assert seen.wait(PATIENCE)
    assert not handle.done()
    assert handle.progress.name != ""
    assert 0 < handle.progress.rows_done < handle.progress.n_rows
    with pytest.raises(TimeoutError, match="not done after"):
        handle.result(timeout=0.01)
    go_on.set()
    result = handle.result(PATIENCE)
    assert comparable(result) == comparable(streamhalf.fit(store, scheduler="serial", **OPTIONS))
    assert handle.progress.n_passes == len(result.passes)


@pytest.mark.parametrize("place", ["threads", "client"])
def test_handle__that_is_cancelled_leaves_nothing_behind(store: Path, client: Client, place: str) -> None:
    where: Any = {"client": client} if place == "client" else {"scheduler": "threads"}
    started = threading.Event()

    def observer(event: Any) -> None:
        if isinstance(event, PassStarted):
            started.set()

    handle = streamhalf.fit(store, wait=False, observer=observer, **where, **OPTIONS)
    assert started.wait(PATIENCE)
    handle.cancel()
    with pytest.raises(RunCancelledError):
        handle.result(PATIENCE)
    assert handle.done()
    assert handle.cancelled()
    assert isinstance(handle.exception(), RunCancelledError)
    wait_until(lambda: is_clean(client), "the end of the cancelled run's tasks")


def run_apart(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """In a thread of its own: a browser's tests leave an event loop in the main one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result(PATIENCE)


def test_handle__can_be_awaited_as_dasks_futures_can(store: Path) -> None:
    ended: list[Any] = []

    async def both() -> tuple[Any, Any]:
        handle = streamhalf.fit(store, wait=False, scheduler="serial", **OPTIONS)
        handle.add_done_callback(ended.append)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle, 1e-3)  # which leaves the run alone
        result = await handle
        assert handle.done()
        assert not handle.cancelled()
        assert handle.exception() is None
        with pytest.raises(streamhalf.DataError, match="no such store"):
            await streamhalf.fit(store / "none.zarr", wait=False)
        return result, ended

    result, (handle,) = run_apart(both())
    assert result is handle.result(0)


def test_fits__of_three_clients_at_once_give_the_same_and_leave_nothing(store: Path, client: Client) -> None:
    before = client.run_on_scheduler(lambda dask_scheduler: sorted(dask_scheduler.plugins))
    expected = comparable(streamhalf.fit(store, scheduler="serial", **OPTIONS))
    clients = [Client(client.scheduler.address, set_as_default=False) for _ in range(3)]
    handles = [streamhalf.fit(store, client=one, wait=False, **OPTIONS) for one in clients]
    found = [comparable(handle.result(PATIENCE)) for handle in handles]
    for one in clients:
        one.close()
    assert found == [expected] * 3
    wait_until(lambda: is_clean(client), "the end of all tasks")
    after = client.run_on_scheduler(lambda dask_scheduler: sorted(dask_scheduler.plugins))
    assert set(after) - set(before) <= {"streamhalf-page"}


def test_handle__awaits_a_run_on_an_asynchronous_client(store: Path, client: Client) -> None:
    async def fit() -> Any:
        async with Client(client.scheduler.address, asynchronous=True, set_as_default=False) as own:
            return await streamhalf.fit(store, client=own, wait=False, **OPTIONS)

    expected = comparable(streamhalf.fit(store, scheduler="serial", **OPTIONS))
    assert comparable(run_apart(fit())) == expected


def test_fit__that_fails_leaves_no_task_behind(store: Path, client: Client) -> None:
    def observer(event: Any) -> None:
        if isinstance(event, PassProgress):
            raise BlockingIOError

    with pytest.raises(BlockingIOError):
        streamhalf.fit(store, client=client, observer=observer, **OPTIONS)
    wait_until(lambda: is_clean(client), "the end of the failed run's tasks")
