from __future__ import annotations

import sys

import numpy as np
import psutil
import pytest
from distributed import Client

import streamhalf
from tests.conftest import make_rows


def test_tasks__leave_a_worker_as_it_was(client: Client) -> None:
    def settings() -> tuple[float, float]:
        """The switch interval, and what freed buffers of 24 MiB leave in use, in MiB."""
        process = psutil.Process()
        before = process.memory_info().rss
        for _ in range(3):
            np.ones(24 << 20, dtype=np.uint8)
        return sys.getswitchinterval(), (process.memory_info().rss - before) / 2**20

    X, y = make_rows(400, 2)
    streamhalf.test((X, y), client=client)
    for interval, kept in client.run(settings).values():
        assert interval == pytest.approx(0.005)
        assert kept < 12


def test_tasks__leave_the_process_of_the_caller_as_it_was() -> None:
    before = sys.getswitchinterval()
    X, y = make_rows(400, 2)
    for scheduler in ("serial", "threads"):
        streamhalf.test((X, y), scheduler=scheduler)
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        streamhalf.test((X, y), client=client)
    assert sys.getswitchinterval() == before
