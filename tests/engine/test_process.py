from __future__ import annotations

import sys

import numpy as np
import pytest
from distributed import Client

import streamhalf
from streamhalf.engine import open_engine, process
from streamhalf.engine.process import eager_switching, settle_worker
from tests.conftest import make_rows


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes what would be settled for good in this process."""
    done: list[str] = []
    monkeypatch.setattr(process, "_keep_buffers", lambda: done.append("malloc"))
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: done.append("turns"))
    monkeypatch.setattr(process, "_settle", process._settle.__wrapped__)
    return done


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc only")
def test_settle_worker__large_buffers_come_again_in_a_worker(client: Client) -> None:
    def reuse() -> tuple[bool, bool, bool]:
        is_worker = settle_worker()
        first = np.empty(24 << 20, dtype=np.uint8)
        where = first.ctypes.data
        del first
        # below the threshold of 32 MB a freed buffer stays with the process and is handed out again
        again = any(np.empty(24 << 20, dtype=np.uint8).ctypes.data == where for _ in range(3))
        return is_worker, sys.getswitchinterval() < 0.001, again

    if not client.submit(process._keep_buffers, pure=False).result():
        pytest.skip("another C library than glibc")
    assert client.submit(reuse, pure=False).result() == (True, True, True)


def test_settle_worker__leaves_the_process_of_the_caller_alone(settled: list[str]) -> None:
    assert not settle_worker()
    X, y = make_rows(400, 2)
    for scheduler in ("serial", "threads"):
        streamhalf.test((X, y), scheduler=scheduler)
    assert "malloc" not in settled


def test_settle_worker__leaves_the_process_of_an_in_process_cluster_alone(
    settled: list[str],
) -> None:
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        assert not client.submit(settle_worker, pure=False).result()
    assert settled == []


def test_eager_switching__ends_with_the_engine() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    try:
        with open_engine("threads", 2):
            assert sys.getswitchinterval() < 0.001
        assert sys.getswitchinterval() == pytest.approx(0.004)
        sys.setswitchinterval(1e-5)  # whoever wants it faster still keeps that
        with eager_switching():
            assert sys.getswitchinterval() == pytest.approx(1e-5)
    finally:
        sys.setswitchinterval(before)
