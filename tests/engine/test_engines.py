"""Every engine equals the serial oracle, bit for bit, and fails with the same words."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf import DataError, RunConfig, StreamhalfError, UsageError, open_source
from streamhalf.data.block import RowRanges
from streamhalf.data.source import Source
from streamhalf.data.transforms import Isotropic
from streamhalf.engine import Counted, Engine, Job, lazy_pass, open_engine, plan_pass
from streamhalf.engine.cluster import ClusterEngine, ThreadsEngine, available_cpus
from streamhalf.engine.job import SerialEngine
from streamhalf.engine.plan import run_pass
from streamhalf.engine.run import Run
from streamhalf.events import Event, PassEnded, PassProgress, PassStarted, ignore
from streamhalf.reductions import Bundle, Chow, Covariance, LabelCounts, Moments
from streamhalf.reductions.row_view import Sample, in_space, sampled
from streamhalf.testing import assert_identical, leaves
from tests.conftest import StoreWriter, make_rows

N_ROWS, DIM, CHUNK_ROWS = 5000, 4, 200
N_CHUNKS = N_ROWS // CHUNK_ROWS
X, Y = make_rows(N_ROWS, DIM, seed=7)
BUNDLE = Bundle((Moments(4), Chow(7)))
MEMORY = 1 << 30


@pytest.fixture
def source(write_store: StoreWriter, small_blocks: None) -> Source:
    opened = open_source(write_store(X, Y, chunk_rows=CHUNK_ROWS, label_chunk_rows=333))
    assert len(opened.blocks) == N_CHUNKS
    return opened


@pytest.fixture(params=["serial", "threads", "cluster"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "serial":
        return SerialEngine()
    if request.param == "threads":
        return ThreadsEngine(3)
    return ClusterEngine(request.getfixturevalue("client"))


def reduce(engine: Engine, source: Source, *, split_every: int = 8, reduction: Any = BUNDLE) -> Any:
    plan = plan_pass("bundle", source, reduction, split_every=split_every)
    return run_pass(engine, plan, memory_limit=MEMORY, observer=ignore)[0]


@pytest.mark.parametrize("split_every", [2, 3, 8, 256])
def test_engines__give_identical_bits(engine: Engine, source: Source, split_every: int) -> None:
    expected = reduce(SerialEngine(), source, split_every=split_every)
    assert_identical(reduce(engine, source, split_every=split_every), expected)


def test_engines__give_identical_bits_whitened(engine: Engine, source: Source) -> None:
    def run(chosen: Engine) -> Any:
        state = Run(chosen, MEMORY, 4, ignore)
        estimate = state.reduce("whitening", source, Covariance())
        white = Isotropic.from_moments(estimate.mean, estimate.covariance, n_rows=estimate.n_rows)
        return state.reduce("moments", source, in_space(BUNDLE, white))

    assert_identical(run(engine), run(SerialEngine()))


def test_processes__give_identical_bits(source: Source) -> None:
    with open_engine("processes", RunConfig(n_workers=2)) as engine:
        assert isinstance(engine, ClusterEngine)
        assert engine.n_threads == 1
        result = reduce(engine, source)
    assert_identical(result, reduce(SerialEngine(), source))


@pytest.mark.parametrize("chunk_rows", [1, 37, 5000])
def test_engines__agree_to_rounding_on_other_chunkings(
    write_store: StoreWriter, small_blocks: None, chunk_rows: int
) -> None:
    rows = slice(0, 150 if chunk_rows == 1 else N_ROWS)
    expected = reduce(SerialEngine(), open_source((X[rows], Y[rows])))
    other = open_source(write_store(X[rows], Y[rows], chunk_rows=chunk_rows))
    for got, want in zip(leaves(reduce(ThreadsEngine(2), other)), leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def nest_item(context: str, item: int) -> Counted:
    return Counted(item + 1, f"{context}{item}")


def nest(context: str, parts: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(parts)


def nest_level_by_level(nodes: list[Any], split_every: int) -> Any:
    """The tree as it is specified: neighbours in groups, level by level."""
    while len(nodes) > 1:
        groups = [nodes[i : i + split_every] for i in range(0, len(nodes), split_every)]
        nodes = [tuple(group) if len(group) > 1 else group[0] for group in groups]
    return nodes[0]


def nesting_job(n_items: int, split_every: int) -> Job:
    return Job(
        name="nest",
        context="item-",
        items=tuple(range(n_items)),
        rows=tuple(range(1, n_items + 1)),
        leaf=nest_item,
        combine=nest,
        split_every=split_every,
    )


@given(n_items=st.integers(1, 90), split_every=st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_tree__depends_on_the_number_of_items_alone(n_items: int, split_every: int) -> None:
    job = nesting_job(n_items, split_every)
    expected = nest_level_by_level([f"item-{i}" for i in range(n_items)], split_every)
    for engine in (SerialEngine(), ThreadsEngine(2)):
        seen: list[int] = []
        result = engine.run(job, seen.append)
        assert result.partial == expected
        assert result.n_rows == sum(seen) == n_items * (n_items + 1) // 2


@pytest.mark.parametrize(("n_items", "split_every"), [(1, 2), (2, 2), (9, 2), (10, 3), (73, 8)])
def test_tree__is_the_same_on_a_cluster(client: Client, n_items: int, split_every: int) -> None:
    job = nesting_job(n_items, split_every)
    seen: list[int] = []
    result = ClusterEngine(client).run(job, seen.append)
    assert result.partial == SerialEngine().run(job, lambda rows: None).partial
    assert sorted(filter(None, seen)) == sorted(job.rows)  # 0: a sign of life while waiting


def test_progress__adds_up_to_all_rows(engine: Engine, source: Source) -> None:
    events: list[Event] = []
    plan = plan_pass("labels", source, LabelCounts())
    result, record = run_pass(engine, plan, memory_limit=MEMORY, observer=events.append)
    started, *progress, ended = events
    assert started == PassStarted("labels", N_ROWS, N_CHUNKS)
    assert [event.rows_done for event in progress if isinstance(event, PassProgress)] == [
        CHUNK_ROWS * (i + 1) for i in range(N_CHUNKS)
    ]
    assert ended == PassEnded(record)
    assert (record.name, record.rows_read, record.rows_accepted) == ("labels", N_ROWS, N_ROWS)
    assert record.bytes_read == N_ROWS * (4 * DIM + 1)
    assert (result.positive, result.negative) == (np.sum(Y > 0), np.sum(Y < 0))


def test_run_pass__records_the_rows_that_the_reduction_used(source: Source) -> None:
    run = Run(SerialEngine(), MEMORY, 8, ignore)
    some = sampled(LabelCounts(), Sample(1, 2, 0.0, 0.5))
    found = run.reduce("labels", source, some, blocks=RowRanges.of([*source.blocks][:3]))
    (record,) = run.passes
    assert record.rows_read == 3 * CHUNK_ROWS
    assert 0 < record.rows_accepted == found.n_rows < record.rows_read


class ForgetfulEngine(SerialEngine):
    """Loses the last task."""

    def run(self, job: Job, on_progress: Any) -> Counted:
        return super().run(replace(job, items=job.items[:-1], rows=job.rows[:-1]), on_progress)


def test_run_pass__gives_no_result_on_partial_data(source: Source) -> None:
    with pytest.raises(DataError, match="pass 'bundle': 4800 rows arrived of 5000; no verdict"):
        reduce(ForgetfulEngine(), source)


def test_engines__surface_the_original_error(engine: Engine, write_store: StoreWriter, small_blocks: None) -> None:
    path = write_store(X, Y, chunk_rows=CHUNK_ROWS)
    (path / "X/c/3/0").unlink()
    with pytest.raises(DataError, match=r"X: chunk 3 \(rows 600 to 799\) is missing"):
        reduce(engine, open_source(path))


def lazy_pair(chunk_rows: int = CHUNK_ROWS) -> tuple[da.Array, da.Array]:
    return da.from_array(X, chunks=(chunk_rows, 3)), da.from_array(Y, chunks=333)


def test_engines__take_a_dask_backed_source(engine: Engine, source: Source) -> None:
    lazy = open_source(lazy_pair())
    assert_identical(reduce(engine, lazy), reduce(SerialEngine(), source))


def test_engines__take_empty_dask_chunks(engine: Engine) -> None:
    chunks = (0, 1000, 0, 0, 4000, 0)
    lazy = open_source((da.from_array(X, chunks=(chunks, DIM)), Y))
    counts = reduce(engine, lazy, reduction=LabelCounts())
    assert counts.n_rows == N_ROWS


def test_engines__check_dask_backed_rows(engine: Engine) -> None:
    features = da.from_array(np.where(np.arange(N_ROWS) == 700, np.nan, X.T).T, chunks=(500, DIM))
    with pytest.raises(DataError, match=r"X: row 700 \(.*1 among rows .*, chunk 1\) holds NaN"):
        reduce(engine, open_source((features, Y)))


def test_lazy__results_compute_together_and_equal_the_run(source: Source) -> None:
    plans = [
        plan_pass("a", source, BUNDLE),
        plan_pass("b", open_source(lazy_pair()), BUNDLE),
        plan_pass("c", source, BUNDLE, split_every=2),
    ]
    delayed = [lazy_pass(plan) for plan in plans]
    first, second, third = dask.compute(*delayed, scheduler="threads", num_workers=2)
    assert_identical(first, reduce(SerialEngine(), source))
    assert_identical(second, first)
    assert_identical(third, reduce(SerialEngine(), source, split_every=2))


def test_lazy__results_compute_on_a_cluster(source: Source, client: Client) -> None:
    plans = [plan_pass("a", source, BUNDLE), plan_pass("b", source, LabelCounts())]
    bundle, counts = client.gather(client.compute([lazy_pass(plan) for plan in plans]))
    assert_identical(bundle, reduce(SerialEngine(), source))
    assert counts.n_rows == N_ROWS


@pytest.mark.parametrize(("word", "kind"), [("serial", SerialEngine), ("threads", ThreadsEngine)])
def test_open_engine__opens_local_engines(word: str, kind: type) -> None:
    with open_engine(word, RunConfig(n_workers=2)) as engine:
        assert isinstance(engine, kind)
    with open_engine(word) as engine:
        assert engine.n_threads == (1 if word == "serial" else available_cpus())


def test_open_engine__connects_by_client_address_and_file(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": client.scheduler.address}))
    for scheduler in (client, client.scheduler.address, str(file)):
        with open_engine(scheduler) as engine:
            assert engine.run(nesting_job(3, 2), lambda rows: None).n_rows == 6
    assert client.status == "running"  # a client that was lent is not closed


@pytest.mark.parametrize("word", ["proceses", "", "localhost:8786"])
def test_open_engine__refuses_unknown_words(word: str) -> None:
    with pytest.raises(UsageError, match=f"scheduler: '{word}' is unknown; use serial, threads"), open_engine(word):
        raise AssertionError


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as held:  # bound and not listening: no one else can open it meanwhile
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def unreachable(kind: str, folder: Path, port: int) -> str:
    if kind == "closed":
        return f"tcp://127.0.0.1:{port}"
    text = {"garbage file": "{", "other file": "{}", "null file": '{"address": null}'}[kind]
    file = folder / "scheduler.json"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize("kind", ["closed", "garbage file", "other file", "null file"])
def test_open_engine__names_a_scheduler_out_of_reach(kind: str, tmp_path: Path, closed_port: int) -> None:
    scheduler = unreachable(kind, tmp_path, closed_port)
    message = r"scheduler: cannot reach .* within 0\.3 s"
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.3s"}),
        pytest.raises(StreamhalfError, match=message) as caught,
        open_engine(scheduler),
    ):
        raise AssertionError
    assert scheduler in str(caught.value)
