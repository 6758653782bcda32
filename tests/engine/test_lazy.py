"""Lazy Dask arrays are computed once in a run, where there is room for their rows."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

import streamhalf
from streamhalf.engine import run
from streamhalf.events import Event, RunStarted
from streamhalf.results import Notice, NoticeCode, RowsKept
from tests.comparing import comparable
from tests.conftest import make_rows

CHUNKS, CHUNK_ROWS = 4, 500
RUN: dict[str, Any] = {"eps": 0.2, "certificate_degree": 0, "seed": 0, "n_workers": 2}


class Rows:
    """Lazy rows that count how often a chunk of theirs is computed."""

    def __init__(self) -> None:
        self.computed, self._lock = 0, threading.Lock()
        X, y = make_rows(CHUNKS * CHUNK_ROWS, 2)
        self.y = da.from_array(y, chunks=CHUNK_ROWS)
        stored = da.from_array(X, chunks=(CHUNK_ROWS, 2))
        self.X = stored.map_blocks(self._compute, dtype=X.dtype, meta=X[:0])

    def _compute(self, chunk: np.ndarray) -> np.ndarray:
        with self._lock:
            self.computed += 1
        return chunk + 0


def fit(X: da.Array, y: da.Array, **parameters: Any) -> tuple[str, tuple[Notice, ...]]:
    """A fit of several passes, and what was said of lazy rows."""
    said: list[Notice] = []

    def observer(event: Event) -> None:
        if isinstance(event, RunStarted):
            said.extend(one for one in event.notices if one.code is NoticeCode.LAZY_ROWS)

    result = streamhalf.fit((X, y), observer=observer, **RUN, **parameters)
    assert len(result.passes) >= 2
    return comparable(result), tuple(said)


@pytest.fixture
def opening() -> int:
    """Chunks that are computed before a run begins: a few rows are looked at."""
    rows = Rows()
    streamhalf.data.opening.open_source((rows.X, rows.y))
    return rows.computed


def test_lazy_rows__that_fit_are_computed_once(opening: int) -> None:
    rows = Rows()
    found, (said,) = fit(rows.X, rows.y)
    assert rows.computed == opening + CHUNKS
    size = rows.X.nbytes + rows.y.nbytes
    assert said == Notice.of(NoticeCode.LAZY_ROWS, size=size, kept=RowsKept.MEMORY, place="")
    in_memory = rows.X.persist(scheduler="synchronous")
    assert fit(in_memory, rows.y) == (found, ())


def test_lazy_rows__that_do_not_fit_go_to_the_folder(
    opening: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Rows()
    found, _ = fit(rows.X, rows.y)
    monkeypatch.setattr(run, "_SHARE", 1 << 40)
    spilling, cache = Rows(), tmp_path / "cache"
    again, (said,) = fit(spilling.X, spilling.y, cache=cache)
    assert again == found
    assert (said["kept"], said["place"]) == (RowsKept.FOLDER, str(cache))
    assert spilling.computed == opening + CHUNKS
    assert list(cache.iterdir()) == []
    recomputing = Rows()
    anew, (told,) = fit(recomputing.X, recomputing.y)
    assert (anew, told["kept"]) == (found, RowsKept.NOWHERE)
    assert recomputing.computed >= opening + 2 * CHUNKS


def test_lazy_rows__are_kept_by_the_cluster_of_a_client() -> None:
    from distributed import Client

    rows = Rows()
    X, _ = make_rows(CHUNKS * CHUNK_ROWS, 2)
    found, _ = fit(rows.X, rows.y)
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        again, (said,) = fit(da.from_array(X, chunks=(CHUNK_ROWS, 2)) + 0, rows.y, client=client)
    assert (again, said["kept"]) == (found, RowsKept.CLUSTER)
