"""Machines with other numbers of cores than this one: a verdict every time, and the same one."""

import threading
from typing import Any

import numpy as np
import pytest

import streamhalf
from streamhalf.engine.process import task_slot

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40_000, 20)).astype(np.float32)
Y = np.where(X[:, 0] + 0.3 * X[:, 1] >= 0.1, 1, -1)


def said(**parameters: Any) -> tuple[Any, ...]:
    found = streamhalf.fit((X, Y), seed=3, **parameters)
    return found.verdict, found.halfspace, found.error, found.opt


def test_fit__says_the_same_on_any_number_of_threads() -> None:
    expected = said(scheduler="threads", n_workers=2)
    for n_threads in (1, 8, 32, 96):
        assert said(scheduler="threads", n_workers=n_threads) == expected


@pytest.mark.parametrize("at_once", [1, 3])
def test_task_slot__lets_so_many_in_at_once(at_once: int) -> None:
    inside, most, lock = [0], [0], threading.Lock()
    full = threading.Barrier(at_once)

    def work() -> None:
        with task_slot(at_once):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            full.wait(30)  # passes only where so many are inside together
            with lock:
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4 * at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [at_once]
