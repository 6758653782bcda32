"""The simulation of passes on many workers."""

from __future__ import annotations

import pytest

from scripts.programs.scaling import Machine, simulate, tree
from streamhalf.engine.job import Counted, Job, build_graph

FREE = {"task_seconds": 0.0, "latency": 0.0, "link": 1e30, "merge": 1e30}


@pytest.mark.parametrize(("n_leaves", "fan"), [(1, 8), (2, 2), (9, 8), (73, 3), (512, 8)])
def test_tree__has_the_tasks_of_the_package(n_leaves: int, fan: int) -> None:
    ones = (1,) * n_leaves
    job = Job("x", None, ones, ones, lambda *_: Counted(1, 1), lambda *_: 1, split_every=fan)
    combining = [key for key in build_graph(job).tasks if "combine" in str(key)]
    assert len(tree(n_leaves, fan)) == len(combining)
    held = [child for children in tree(n_leaves, fan) for child in children]
    assert sorted(held) == list(range(n_leaves + len(combining) - 1))  # all but the last


def test_simulate__the_scheduler_handles_one_task_at_a_time() -> None:
    found = simulate(Machine(1000, **{**FREE, "task_seconds": 1e-3}), [0.0] * 1600, 8, 8)
    n_tasks = 1600 + len(tree(1600, 8))
    assert found.seconds == pytest.approx(1e-3 * n_tasks)
    assert found.scheduler == pytest.approx(found.seconds)


def test_simulate__every_partial_but_the_last_is_received_once_at_most() -> None:
    partial = 22 << 20
    shares = {}
    for fan in (3, 8):
        found = simulate(Machine(200), [0.1] * 1600, fan, partial)
        received = sum(found.received.values()) // partial
        assert received <= 1600 + len(tree(1600, fan))
        shares[fan] = max(found.received.values()), found.peak
    assert shares[3] < shares[8]  # of one worker
