"""Graphs of tasks, and what they rely on in Dask's private specification of graphs."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import dask
import pytest
from dask import threaded
from dask.base import key_split
from dask.highlevelgraph import HighLevelGraph
from distributed import Client

from streamhalf.data.block import RowRange
from streamhalf.engine import Counted, Job
from streamhalf.engine.job import Packed, SharedRows, build_graph
from tests.canary import relying_on

relying = functools.partial(relying_on, "dask", mend="streamhalf/engine/job.py")

N_ITEMS, SPLIT_EVERY = 9, 4


def leaf(context: int, item: Any) -> Counted:
    first, second = item
    return Counted(1, (context * first, second))


def combine(context: int, parts: Sequence[Any]) -> Any:
    return functools.reduce(operator.add, parts)


def make_job(second: Callable[[int], Any] = int) -> Job:
    items = tuple((i, second(i)) for i in range(N_ITEMS))
    return Job("first-pass", 10, items, (1,) * N_ITEMS, leaf, combine, SPLIT_EVERY)


EXPECTED = tuple(number for i in range(N_ITEMS) for number in (10 * i, i))


def test_build_graph__names_tasks_after_pass_and_run() -> None:
    keys = set(build_graph(make_job(), "1a").tasks)
    assert {key for key in keys if len(key) == 2} == {("streamhalf-first-pass-1a", i) for i in range(N_ITEMS)}
    assert sum(key[0] == "streamhalf-combine-first-pass-1a" for key in keys) == 3
    assert len(keys) == N_ITEMS + 3
    one, other = (set(build_graph(make_job()).tasks) for _ in range(2))
    assert not one & other  # a pass that runs again must not meet results of another run


@pytest.mark.parametrize("n_contexts", [0, 1, 2, 9])
def test_build_graph__leaves_share_nothing_but_large_contexts(n_contexts: int) -> None:
    graph = build_graph(make_job(), n_contexts=n_contexts)
    needed = [tuple(graph.tasks[key].dependencies) for key in graph.leaves]
    assert len({key for keys in needed for key in keys}) == n_contexts
    assert all(len(keys) == min(1, n_contexts) for keys in needed)
    assert threaded.get(graph.tasks, graph.root).partial == EXPECTED


def test_packed__is_unpacked_once_in_a_process() -> None:
    packed = Packed.of([1, 2])
    assert packed.unpack() == [1, 2]
    assert packed.unpack() is packed.unpack()
    graph = build_graph(replace(make_job(), context=Packed.of(10)))
    assert threaded.get(graph.tasks, graph.root).partial == EXPECTED


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


def test_keys__are_grouped_by_pass_and_by_run() -> None:
    graph = build_graph(make_job(), "1a2b")
    with relying("key_split ends a task's shown prefix at the first part that is no word"):
        assert {key_split(key) for key in graph.leaves} == {"streamhalf-first-pass"}
    with relying("key_split_group of a tuple is its first element"):
        from distributed.utils import key_split_group

        assert {key_split_group(key) for key in graph.leaves} == {"streamhalf-first-pass-1a2b"}


def test_rows__that_workers_hold_are_referred_to_by_key(client: Client) -> None:
    owner, rows = object(), [RowRange(i, i + 1) for i in range(N_ITEMS)]
    job = make_job()
    items = tuple((i, SharedRows(owner, one, i)) for i, one in enumerate(rows))
    with relying("scatter takes a dict, and tasks may refer to keys outside of their graph"):
        futures = client.scatter({("streamhalf-rows-1a", i): i for i in range(N_ITEMS)})
        sent = {one[1].name: key for one, key in zip(items, futures, strict=True)}
        graph = build_graph(replace(job, items=items), sent=sent)
        final = client.get(graph.layers(), graph.root, sync=False)
        assert final.result().partial == EXPECTED
    graph = build_graph(replace(job, items=items))  # without them, tasks carry the rows
    assert threaded.get(graph.tasks, graph.root).partial == EXPECTED
