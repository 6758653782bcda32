"""Jobs: items mapped to partials and combined in a fixed tree, by any engine.

The tree depends on the number of items and on `split_every` alone. Every engine combines the same
partials in the same order, so equal items give equal bits. The serial engine is the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from streamhalf.data.block import RowRange
from streamhalf.data.chunk_cache import NOTHING, Moved
from streamhalf.engine.memory import WorkerLimit
from streamhalf.errors import DataError
from streamhalf.events import Observer, PassProgress, PassStarted


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """A partial, the number of rows that went into it, and what they took over the network."""

    n_rows: int
    partial: Any
    moved: Moved = NOTHING


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """Rows in this process's memory, as part of an item: a cluster is sent them once in a run."""

    owner: object
    rows: RowRange
    value: Any

    @property
    def name(self) -> tuple[int, RowRange]:
        """Equal for the same rows of the same owner, as long as that lives."""
        return id(self.owner), self.rows


OnProgress: TypeAlias = Callable[[int], None]
"""Called in the driving process with the rows of each task that is done."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Work for an engine: one task for each item, combined in a tree of `split_every` partials.

    leaf(context, item) gives a partial, combine(context, partials) that of neighbours, in their order. Items that are
    tuples may hold Dask Delayed objects and `SharedRows`; `rows` are those of each item. Memory has
    room for `at_once` tasks in one process (None: one on every thread). `detail` is shown beside
    the name.
    """

    name: str
    context: Any
    items: tuple[Any, ...]
    rows: tuple[int, ...]
    leaf: Callable[[Any, Any], Counted]
    combine: Callable[[Any, Sequence[Any]], Any]
    split_every: int = 8
    detail: str = ""
    at_once: int | None = None


def merge(context: Any, combine: Callable[[Any, Sequence[Any]], Any], parts: list[Counted]) -> Counted:
    """Combine neighbouring partials, all at once."""
    if len(parts) == 1:
        return parts[0]
    partial = combine(context, [part.partial for part in parts])
    return Counted(sum(part.n_rows for part in parts), partial, sum((part.moved for part in parts), NOTHING))


class Engine(Protocol):
    """Runs jobs, whose items may hold Dask Delayed objects if it is `lazy`.

    If it is `remote`, their graphs may hold futures of its cluster.
    """

    lazy: bool
    remote: bool

    @property
    def n_threads(self) -> int:
        """Tasks that run at once in one worker process, and share its memory."""
        ...

    @property
    def n_processes(self) -> int:
        """Processes that tasks run in."""
        return 1

    def everywhere(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call a function once in every process that tasks run in; lost ones are left out."""
        call(*arguments)

    def worker_limits(self) -> tuple[WorkerLimit, ...]:
        """Limits of the workers of a cluster that have any."""
        return ()

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        """Run a job to its end."""
        ...


class SerialEngine(Engine):
    """One task after the other, in this thread."""

    n_threads = 1
    lazy = remote = False

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        """Run a job to its end, holding one path of the fixed tree in memory."""
        levels: list[list[Counted]] = [[]]
        for item, rows in zip(job.items, job.rows, strict=True):
            levels[0].append(job.leaf(job.context, item))
            on_progress(rows)
            for level, parts in enumerate(levels):
                if len(parts) < job.split_every:
                    break
                if level + 1 == len(levels):
                    levels.append([])
                levels[level + 1].append(merge(job.context, job.combine, parts))
                parts.clear()
        rest: list[Counted] = []
        for parts in levels:
            if parts or rest:
                rest = [merge(job.context, job.combine, [*parts, *rest])]
        return rest[0]


def run_job(engine: Engine, job: Job, observer: Observer) -> Counted:
    """Run a job with its progress as events; raise unless all rows arrived."""
    n_rows = sum(job.rows)
    observer(PassStarted(job.name, n_rows, len(job.items), job.detail))
    done = 0

    def on_progress(rows: int) -> None:
        nonlocal done
        done += rows
        observer(PassProgress(job.name, done, n_rows))

    counted = engine.run(job, on_progress)
    if counted.n_rows != n_rows:
        raise DataError(
            f"pass {job.name!r}: {counted.n_rows} rows arrived of {n_rows}; no verdict is given on partial data"
        )
    return counted
