"""Where a run runs, and where its settings come from, in the documented order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import streamhalf
from streamhalf import UsageError
from streamhalf._session import make_config
from streamhalf.data.clients import active_client
from streamhalf.data.opening import open_source
from streamhalf.engine.scheduler import choose
from streamhalf.estimator import HalfspaceTesterLearner
from streamhalf.events import RunStarted
from streamhalf.results import Notice, NoticeCode
from tests.conftest import make_rows

X, Y = make_rows(300, 2)


@pytest.fixture
def active(client: Client) -> Iterator[Client]:
    """The session's cluster through a client that is the active one."""
    with Client(client.scheduler.address) as connected:
        yield connected


def notices_of(command: Any, *arguments: Any, **parameters: Any) -> list[Notice]:
    """The notice of a command about where it runs."""
    seen: list[Any] = []
    command(*arguments, observer=seen.append, **parameters)
    (started,) = (event for event in seen if isinstance(event, RunStarted))
    return [one for one in started.notices if one.code is NoticeCode.RUNS_ON]


def test_choose__takes_what_was_named_before_what_is_active(active: Client) -> None:
    for word in ("threads", "serial", "tcp://somewhere:8786"):
        chosen = choose(word)
        assert (chosen.target, chosen.notices) == (word, ())
    assert choose("threads", active).target is active
    assert choose("auto").target is active


def test_choose__without_a_client_is_threads() -> None:
    assert active_client() is None
    assert choose("auto").target == "threads"


def test_choose__takes_the_address_in_dasks_configuration() -> None:
    with dask.config.set({"scheduler-address": "tcp://somewhere:8786"}):
        chosen = choose("auto")
    assert chosen.target == "tcp://somewhere:8786"
    assert len(chosen.notices) == 1


@pytest.mark.parametrize(("word", "ours"), [("synchronous", "serial"), ("threads", "threads")])
def test_choose__takes_dasks_own_word_before_the_active_client(active: Client, word: str, ours: str) -> None:
    with dask.config.set(scheduler=word):
        assert choose("auto").target == ours


def test_choose__runs_where_persisted_data_are(client: Client, active: Client) -> None:
    features = client.persist(da.from_array(X, chunks=(100, 2)))
    source = open_source((features, Y))
    assert choose("auto", None, source).target is client
    assert choose("threads", None, source).target == "threads"


@pytest.mark.filterwarnings("ignore::streamhalf.UnverifiedWarning")
def test_active_client__is_told_in_one_notice_by_every_command(active: Client, tmp_path: Any) -> None:
    expected = [Notice.of(NoticeCode.RUNS_ON, place=active.scheduler.address, why="the active client")]
    store = tmp_path / "rows.zarr"
    spec = {"rows": 300, "dim": 2, "marginal": "gaussian", "noise": "none"}
    assert notices_of(streamhalf.synth, store, **spec) == expected
    assert notices_of(streamhalf.test, store) == expected
    assert notices_of(streamhalf.fit, store) == expected
    weights: dict[str, Any] = {"weights": [1.0, 0.0], "certificate_degree": 2}
    assert notices_of(streamhalf.certify, store, **weights) == expected
    model: dict[str, Any] = {"model": streamhalf.Halfspace((1.0, 0.0))}
    assert notices_of(streamhalf.predict, store, out=tmp_path / "p.zarr", **model) == expected
    assert notices_of(streamhalf.fit, store, scheduler="threads") == []
    untested = HalfspaceTesterLearner()
    assert notices_of(untested.fit, X, Y) == expected


def test_active_client__inside_a_task_is_left_alone(client: Client) -> None:
    def look() -> bool:
        return choose("auto").target == "threads"

    assert client.submit(look, pure=False).result()


def test_client__of_another_cluster_than_the_data_is_refused(client: Client) -> None:
    features = client.persist(da.from_array(X, chunks=(100, 2)))
    inside = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with (
        LocalCluster(**inside, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as other,
        pytest.raises(UsageError, match=r"the run is on .*, but the data are persisted on tcp://"),
    ):
        streamhalf.test((features, Y), client=other)


def test_persisted__whose_client_is_closed_is_told(client: Client) -> None:
    with Client(client.scheduler.address, set_as_default=False) as short:
        features = short.persist(da.from_array(X, chunks=(100, 2)))
    with pytest.raises(streamhalf.DataError, match="persist"):
        streamhalf.test((features, Y))


def test_asynchronous_client__is_refused_with_a_way_out_that_works(client: Client) -> None:
    async def run() -> Any:
        address = client.scheduler.address
        async with Client(address, asynchronous=True, set_as_default=False) as waiting:
            with pytest.raises(UsageError, match=r"asynchronous .*`await asyncio\.to_thread\(") as e:
                streamhalf.test((X, Y), client=waiting)
            assert len(str(e.value).splitlines()) == 1
            return await asyncio.to_thread(streamhalf.test, (X, Y), client=waiting)

    assert asyncio.run(run()).testers == streamhalf.test((X, Y), scheduler="serial").testers


def test_settings__come_from_arguments_then_variables_then_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    section = {"streamhalf": {"tau": 0.2, "eps": 0.2, "memory-limit": "1GiB", "degree": 2}}
    monkeypatch.setenv("STREAMHALF_EPS", "0.1")
    monkeypatch.setenv("STREAMHALF_TAU", "1e-1")
    monkeypatch.setenv("STREAMHALF_WHITEN", "true")
    monkeypatch.setenv("STREAMHALF_DEBUG", "1")
    with dask.config.set(section):
        config = make_config({"tau": 0.05})
    assert (config.tau, config.eps, config.degree) == (0.05, 0.1, 2)
    assert (config.whiten, config.memory_limit) == (True, 1 << 30)


@pytest.mark.filterwarnings("ignore::streamhalf.UnverifiedWarning")
def test_settings__of_an_estimator_that_are_not_the_default_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMHALF_TAU", "0.3")
    rows = np.concatenate([X, X]), np.concatenate([Y, Y])
    untested = HalfspaceTesterLearner()
    assert untested.fit(*rows).result_.tau == 0.3
    assert untested.set_params(tau=0.2).fit(*rows).result_.tau == 0.2


def test_seed__of_the_environment_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMHALF_SEED", "7")
    result = streamhalf.fit((X, Y), scheduler="serial")
    assert (result.seed, result.seed_drawn) == (7, False)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("STREAMHALF_EPS", "7", "STREAMHALF_EPS: 7.0 is out of range"),
        ("STREAMHALF_WHITEN", "perhaps", "STREAMHALF_WHITEN: 'perhaps' is not True or False"),
    ],
)
def test_variable__that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, name: str, text: str, words: str) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(UsageError, match=words):
        make_config({})


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"epz": 1}, r"section `streamhalf` of Dask.*'epz'; did you mean 'eps'"),
        ("eps", "expected 'name: value' lines, got str"),
    ],
)
def test_section__that_is_wrong_is_named(section: Any, words: str) -> None:
    with dask.config.set(streamhalf=section), pytest.raises(UsageError, match=words):
        make_config({})
