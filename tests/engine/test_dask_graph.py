"""Graphs of tasks, and what they rely on in Dask's private specification of graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import dask
import pytest
from dask import threaded
from dask.base import key_split
from dask.highlevelgraph import HighLevelGraph

from streamhalf.engine import Counted, Job
from streamhalf.engine.dask_graph import build_graph
from tests.canary import relying_on

relying = functools.partial(relying_on, "dask", mend="streamhalf/engine/dask_graph.py")

N_ITEMS, SPLIT_EVERY = 9, 4


def leaf(context: int, item: Any) -> Counted:
    first, second = item
    return Counted(1, (context * first, second))


def combine(context: int, left: Any, right: Any) -> Any:
    return left + right


def make_job(second: Callable[[int], Any] = int) -> Job:
    items = tuple((i, second(i)) for i in range(N_ITEMS))
    return Job("first-pass", 10, items, (1,) * N_ITEMS, leaf, combine, SPLIT_EVERY)


EXPECTED = tuple(number for i in range(N_ITEMS) for number in (10 * i, i))


def test_build_graph__names_tasks_after_the_pass() -> None:
    keys, again = (set(build_graph(make_job()).tasks) for _ in range(2))
    for kind, n_tasks in (("context", 1), ("map", N_ITEMS), ("combine", 3)):
        assert sum(key.startswith(f"first_pass-{kind}-") for key in keys) == n_tasks
    assert len(keys) == 1 + N_ITEMS + 3
    assert not keys & again  # a pass that runs again must not meet results of another run


@pytest.mark.parametrize("lazy", [False, True])
def test_build_graph__runs_on_dask(lazy: bool) -> None:
    """Once as a dict of tasks, once as the lazy object that users compute with their own."""
    graph = build_graph(make_job(dask.delayed(int) if lazy else int))
    assert threaded.get(graph.tasks, graph.root).partial == EXPECTED
    assert dask.compute(graph.delayed(), scheduler="sync")[0].partial == EXPECTED


def test_task_spec__task_data_list_and_reference() -> None:
    with relying("dask._task_spec has DataNode, List, Task and TaskRef"):
        from dask._task_spec import DataNode, List, Task, TaskRef
    with relying("DataNode(key, value) and Task(key, function, *arguments) have .key and .ref()"):
        data = DataNode("data-0", 3)
        task = Task("task-1", pow, data.ref(), 2)
        assert (data.key, task.key) == ("data-0", "task-1")
    with relying("references in arguments and in List(...) are replaced by what was computed"):
        total = Task("total-2", sum, List(data.ref(), TaskRef(task.key), 1))
        tasks = {node.key: node for node in (data, task, total)}
        assert set(total.dependencies) == {"data-0", "task-1"}
        assert threaded.get(tasks, "total-2") == 3 + 9 + 1


def test_task_spec__a_dict_of_tasks_is_a_layer_as_it_is() -> None:
    graph = build_graph(make_job())
    with relying("HighLevelGraph.from_collections(name, tasks) keeps the tasks as they are"):
        layers = graph.layers()
        assert isinstance(layers, HighLevelGraph)
        found = dict(layers)
        assert all(found[key] is task for key, task in graph.tasks.items())
    with relying("Delayed(key, graph, layer=name) is computed as the task of that key"):
        assert graph.delayed().key == graph.root
        assert graph.delayed().compute(scheduler="sync").partial == EXPECTED


def test_delayed__tells_its_key_and_its_graph() -> None:
    with relying("Delayed has .key, and __dask_graph__() whose items are tasks by key"):
        one = dask.delayed(int)(5)
        tasks = dict(one.__dask_graph__().items())
        assert threaded.get(tasks, one.key) == 5


def test_key_split__shows_the_pass_and_the_kind_of_task() -> None:
    graph = build_graph(make_job())
    with relying("key_split ends a task's shown prefix at the first part that is no word"):
        assert {key_split(key) for key in graph.leaves} == {"first_pass-map"}
