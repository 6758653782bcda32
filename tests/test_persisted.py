"""Persisted collections in every function, with a client and without, active or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from distributed import Client

import streamhalf
from streamhalf.estimator import HalfspaceTesterLearner
from tests.conftest import make_rows

X, Y = make_rows(2000, 2, dtype="float64")
WEIGHTS: dict[str, Any] = {"weights": [1.0, 0.0], "certificate_degree": 2}
UNTESTED = HalfspaceTesterLearner(seed=1)

Where = dict[str, Any]


@pytest.fixture(params=["active", "not active", "client="])
def where(request: pytest.FixtureRequest, client: Client) -> Iterator[tuple[Client, Where]]:
    """A client that holds data, and what a function is given to find it."""
    named = {"client": client} if request.param == "client=" else {}
    if request.param != "active":
        yield client, named
        return
    with Client(client.scheduler.address) as active:
        yield active, named


def arrays(client: Client) -> Any:
    lazy = da.from_array(X, chunks=(500, 2)), da.from_array(Y, chunks=300)
    return tuple(client.persist([*lazy]))


def dataset(client: Client) -> xr.Dataset:
    features, labels = da.from_array(X, chunks=(500, 2)), da.from_array(Y, chunks=300)
    lazy = xr.Dataset({"X": (("row", "feature"), features), "y": ("row", labels)})
    return lazy.persist(scheduler=client)


def audited(found: Any) -> tuple[list[Any], Any]:
    """Return the listed rows with all that is said of each, and the counts."""
    rows = found.suspects.rows.tolist()
    assert rows
    one = found.result
    return rows, (one.n_wrong, one.n_agreed, one.n_issues, one.segments, one.gatherings)


CALLS: dict[str, Callable[[Any, Where], Any]] = {
    "test": lambda data, where: [one.statistic for one in streamhalf.test(data, seed=1, **where).testers],
    "fit": lambda data, where: streamhalf.fit(data, seed=1, **where).halfspace,
    "certify": lambda data, where: streamhalf.certify(data, **WEIGHTS, **where).error.empirical,
    "audit": lambda data, where: audited(streamhalf.audit(data, model=[1.0, 0.0], **where)),
    "threads": lambda data, where: streamhalf.fit(data, seed=1, scheduler="threads").halfspace,
}


@pytest.mark.parametrize(("name", "build"), [("fit", dataset), *((name, arrays) for name in CALLS)])
def test_persisted__gives_what_lazy_rows_give(
    name: str, build: Callable[[Client], Any], where: tuple[Client, Where]
) -> None:
    client, named = where
    lazy = (da.from_array(X, chunks=(500, 2)), da.from_array(Y, chunks=300))
    found = CALLS[name](build(client), named)
    assert found == CALLS[name](lazy, {} if name == "threads" else {"scheduler": "serial"})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::streamhalf.UnverifiedWarning")
def test_persisted__in_lazy_estimator_and_accessor(where: tuple[Client, Where]) -> None:
    client, named = where
    features, labels = arrays(client)
    counts = streamhalf.lazy((features, labels), "labels").compute(scheduler=client)
    assert counts.positive == np.count_nonzero(Y > 0)
    model = UNTESTED.fit(features, labels, **named)
    expected = UNTESTED.fit(X, Y).coef_
    model = HalfspaceTesterLearner(seed=1).fit(features, labels, **named)
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9)
    assert model.score(features, labels) == pytest.approx(np.mean(model.predict(X) == Y))
    audited = model.audit(features, labels, misclassified=True, **named)
    assert sorted(audited.suspects.column("row")) == np.flatnonzero(model.predict(X) != Y).tolist()
    streamhalf.register_accessor()
    try:
        held = dataset(client)
        assert held.streamhalf.test(**named).data.rows == len(X)
        assert held.streamhalf.audit(model=[1.0, 0.0], **named).result.data.rows == len(X)
        assert held.streamhalf.certify(**WEIGHTS, **named).data.rows == len(X)
    finally:
        del xr.Dataset.streamhalf  # type: ignore[attr-defined]


def test_persisted__stays_where_it_was(client: Client) -> None:
    held = arrays(client)

    def keys(dask_scheduler: Any = None) -> set[str]:
        return {str(key) for key in dask_scheduler.tasks}

    before = client.run_on_scheduler(keys)
    streamhalf.fit(held)
    assert client.run_on_scheduler(keys) >= before
