"""A job: items mapped to partials and combined in a fixed tree, whoever runs it.

The tree depends on the number of items and on `split_every` alone. Every engine combines the same
partials in the same order, so equal items give equal bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from streamhalf.errors import DataError
from streamhalf.events import Observer, PassProgress, PassStarted


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """A partial and the number of rows that went into it."""

    n_rows: int
    partial: Any


OnProgress: TypeAlias = Callable[[int], None]
"""Called in the driving process with the rows of each task that is done."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """Work for an engine.

    Parameters
    ----------
    name
        Readable prefix of the task names.
    context
        What every task needs; sent to a worker once.
    items
        What one task each works on; may hold Dask Delayed objects.
    rows
        Rows of each item, for progress.
    leaf
        leaf(context, item) gives the partial of an item.
    combine
        combine(context, left, right) gives the partial of both.
    split_every
        Partials combined by one task.
    detail
        What else to say of it while it runs.
    """

    name: str
    context: Any
    items: tuple[Any, ...]
    rows: tuple[int, ...]
    leaf: Callable[[Any, Any], Counted]
    combine: Callable[[Any, Any, Any], Any]
    split_every: int = 8
    detail: str = ""


def merge(context: Any, combine: Callable[[Any, Any, Any], Any], parts: list[Counted]) -> Counted:
    """Combine neighbouring partials, left to right."""
    total = parts[0]
    for part in parts[1:]:
        total = Counted(total.n_rows + part.n_rows, combine(context, total.partial, part.partial))
    return total


class Engine(Protocol):
    """Runs jobs; `n_threads` tasks share the memory of one worker."""

    @property
    def n_threads(self) -> int:
        """Tasks that run at once in one worker process."""
        ...

    @property
    def lazy(self) -> bool:
        """Whether items may hold Dask Delayed objects."""
        ...

    def run(self, job: Job, on_progress: OnProgress) -> Counted:
        """Run a job to its end."""
        ...


def fold_tree(job: Job, parts: Iterable[Counted]) -> Counted:
    """Combine a stream of partials in the fixed tree, holding only one path of it in memory."""
    levels: list[list[Counted]] = []

    def push(level: int, part: Counted) -> None:
        if level == len(levels):
            levels.append([])
        levels[level].append(part)
        if len(levels[level]) == job.split_every:
            group, levels[level] = levels[level], []
            push(level + 1, merge(job.context, job.combine, group))

    for part in parts:
        push(0, part)
    level = 0
    while level < len(levels) - 1:
        if levels[level]:
            group, levels[level] = levels[level], []
            push(level + 1, merge(job.context, job.combine, group))
        level += 1
    return merge(job.context, job.combine, levels[-1])


def run_job(engine: Engine, job: Job, observer: Observer) -> Counted:
    """Run a job to its end, with its progress as events; no answer is given on partial data."""
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
            f"pass {job.name!r}: {counted.n_rows} rows arrived of {n_rows}; no verdict is given on "
            "partial data"
        )
    return counted
