"""Slabs of a pass under way: what tasks count is told a few times, whole and to the right run."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from distributed import Client

import streamhalf
from streamhalf.data.block import Block
from streamhalf.engine import live_messages as slab_watch
from streamhalf.engine.live_messages import TOPIC, ClusterSlabs, LocalSlabs, Tally, coarsen, decode, find_slabs
from streamhalf.events import Event, PassEnded, PassProgress, SlabsCounted, SlabsMeasured
from streamhalf.kernels.plane import Plane
from streamhalf.reductions import LabelCounts
from streamhalf.reductions.candidates import CandidateSlabs
from streamhalf.reductions.row_view import Bundle, Sample, sampled
from streamhalf.report.live import RunView

SLABS = CandidateSlabs(tuple(Plane(axis) for axis in np.eye(2)), 0.5, 4)
ROWS, DIM = 120_000, 3


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("data") / "rows.zarr")
    streamhalf.synth(path, rows=ROWS, dim=DIM, chunk_rows=4_000, marginal="gaussian", noise="chow", rate=0.05)
    return path


def block(n_rows: int, seed: int = 0) -> Block:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 2))
    return Block(X, np.where(X[:, 0] >= 0, 1, -1).astype(np.int8), np.arange(n_rows))


def test_find_slabs__looks_inside() -> None:
    whole = sampled(Bundle((LabelCounts(), SLABS)), Sample(0, 0))
    partial = whole.map(block(50))
    found = find_slabs(whole, partial)
    assert found is not None
    assert found[0] is SLABS
    assert found[1] is partial[1]
    assert find_slabs(Bundle((LabelCounts(),))) is None


def test_tally__tells_all_rows_once_and_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(slab_watch.time, "monotonic", lambda: now[0])
    tally, told = Tally("final", SLABS, 1.0), []
    for i in range(5_000):
        tally.add(SLABS.map(block(2, i)))
        if (counted := tally.take()) is not None:
            told.append(counted)
        now[0] += 0.1
    now[0] += 100.0
    last = tally.take()
    assert last is not None
    assert tally.take() is None
    assert sum(sum(one.counts) for one in (*told, last)) == 10_000
    # 500 s: every second up to the 50th, then 50 times for each factor e of the time
    assert 100 < len(told) < 50 + 50 * np.log(10) + 5


def live_slabs(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(slab_watch, "SECONDS_BETWEEN_COUNTS", seconds)
    monkeypatch.setattr(LocalSlabs.__init__, "__defaults__", (seconds,))


def test_fit__tells_of_slabs_while_the_final_pass_runs(
    monkeypatch: pytest.MonkeyPatch, store: str, small_blocks: None
) -> None:
    live_slabs(monkeypatch, 0.0)
    events: list[Event] = []
    streamhalf.fit(store, eps=0.2, certificate_degree=0, observer=events.append, scheduler="serial")
    ended = [isinstance(one, PassEnded) and one.record.name == "final" for one in events]
    counted = [i for i, one in enumerate(events) if isinstance(one, SlabsCounted)]
    assert len(counted) >= 3
    assert counted[-1] < ended.index(True)
    view = RunView("run", 0.0)
    for i in counted:
        assert isinstance(events[i - 1], PassProgress)
        view.take(1.0, events[i])
    (measured,) = (one for one in events if isinstance(one, SlabsMeasured))
    assert view.slabs_so_far
    whole = coarsen(measured)  # every row, and the candidate that won
    assert view.slabs == SlabsCounted("final", whole.width, whole.counts, whole.threshold)


def test_cluster__workers_tell_of_slabs_before_the_pass_ends(
    monkeypatch: pytest.MonkeyPatch, client: Client, store: str, small_blocks: None
) -> None:
    from streamhalf.report import dashboard

    monkeypatch.setattr(dashboard, "SECONDS_BETWEEN_COUNTS", 0.0)
    monkeypatch.setattr(dashboard, "_COUNTS_PER_SECOND", np.inf)  # every task is told of
    known = len(client.get_events(TOPIC))
    result = streamhalf.fit(store, eps=0.2, certificate_degree=0, client=client)
    messages = [decode(message) for _, message in client.get_events(TOPIC)[known:]]
    assert len({run for run, _ in messages}) == 1
    happened = [event for _, events in messages for _, event in events]
    view, ended = RunView("run", 0.0), False
    for event in happened:
        ended = ended or (isinstance(event, PassEnded) and event.record.name == "final")
        if isinstance(event, SlabsCounted):
            assert not ended
            view.take(1.0, event)
    assert view.slabs is not None
    assert sum(view.slabs.counts) == result.error.n_rows  # type: ignore[union-attr]


def test_worker_tell__never_fails_and_travels() -> None:
    tell = ClusterSlabs("run-1").listen("final", Bundle((SLABS,)))
    assert tell is not None
    copy: Any = pickle.loads(pickle.dumps(tell))
    copy((SLABS.map(block(10)),))  # there is no worker here to log with
    copy("no partial at all")
    assert ClusterSlabs("run-1").listen("initial", LabelCounts()) is None


def test_tallies__of_old_passes_go() -> None:
    for i in range(50):
        tell = ClusterSlabs(f"run-{i}").listen("final", SLABS)
        assert tell is not None
        tell(SLABS.map(block(3)))
    assert len(slab_watch._tallies) <= 8


def test_local_slabs__wait_for_their_time() -> None:
    events: list[Event] = []
    watch = LocalSlabs(events.append, seconds=1000.0)
    tell = watch.listen("final", SLABS)
    assert tell is not None
    for i in range(20):
        tell(SLABS.map(block(5, i)))
        watch(PassProgress("final", 5 * (i + 1), 100))
    assert sum(isinstance(one, SlabsCounted) for one in events) == 1
    assert watch.listen("certificate", LabelCounts()) is None
