"""The memory model: what a process may use, what a task holds, how many tasks run at once.

Sizes that an answer depends on come from `TASK_NBYTES`, the same on every machine. How much memory
there is decides only how many tasks run at once; a task that does not fit alone is an error.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from streamhalf.data.raw_chunks import drop_buffers
from streamhalf.data.source import Source
from streamhalf.errors import MemoryBudgetError
from streamhalf.results import Notice, NoticeCode

if TYPE_CHECKING:
    from streamhalf.engine.job import Engine

TASK_NBYTES = 512 << 20  # Limit of the partials of one task: sizes of samples, slabs and batches follow from it
# Blocks of rows that a task holds: stored bytes, decoded rows, a transformed copy, scratch, and the rows to come
TASK_COPIES = 5
# A process beside its tasks: interpreter, libraries, compiled kernels (250 MiB before the first pass, 315 with those
# of the search for L), messages
PROCESS_NBYTES = 320 << 20
KEPT_SHARE = 0.5  # Of the memory that tasks leave, for chunks from remote stores; the rest is a margin
_USED = 0.8  # of the available memory, for tasks of this process; Dask's workers pause there
_UNKNOWN = 2 << 30  # memory of a process where nothing says how much there is
_UNLIMITED = 1 << 60  # what control groups of version 1 say where there is no limit
_GROUPS, _OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@dataclass(frozen=True, slots=True)
class WorkerLimit:
    """Tasks that a worker runs at once, and the bytes of memory at which it pauses."""

    address: str
    n_threads: int
    nbytes: int

    @property
    def room(self) -> int:
        """Bytes for the tasks that it runs at once."""
        return max(0, self.nbytes - PROCESS_NBYTES)


def own_room(memory_limit: int | str) -> int:
    """Return the bytes that tasks in this process may take together, `memory_limit` at most."""
    return own_memory() if isinstance(memory_limit, str) else min(own_memory(), memory_limit)


def room_of(engine: Engine, memory_limit: int | str) -> int:
    """Return the bytes that tasks in one process of an engine may take, `memory_limit` at most."""
    if not engine.remote:
        return own_room(memory_limit)
    rooms = [worker.room for worker in engine.worker_limits()]
    asked = [] if isinstance(memory_limit, str) else [memory_limit]
    return min([*rooms, *asked], default=_UNKNOWN)


def own_memory() -> int:
    """Return the bytes that this process may take beside what it has.

    Half of the machine's memory, or of a limit, at least: what others hold for now does not turn
    a run away.
    """
    found = [*_of_machine(), *_of_groups(), *_of_address_space()]
    return int(_USED * min(found)) if found else _UNKNOWN


def _of_machine() -> Iterator[int]:
    with suppress(Exception):  # no /proc
        memory = psutil.virtual_memory()
        yield max(int(memory.available), int(memory.total) // 2)


def _of_groups() -> Iterator[int]:
    """Yield what is left of the limits of this process's control groups, of version 2 or 1."""
    with suppress(OSError, ValueError):
        for line in _OWN_GROUP.read_text("utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds in ("", "memory"):
                yield from _limits(_GROUPS / kinds, path)


def _limits(root: Path, path: str) -> Iterator[int]:
    """Yield what is left of the limits of a group and of those around it."""
    names = ("memory.max", "memory.current", "inactive_file")
    if root.name == "memory":
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    group = root / path.strip("/")
    for folder in (group, *group.parents):
        with suppress(OSError, ValueError):  # "max", or a path of another name space
            limit = int((folder / names[0]).read_text("utf-8"))
            used = int((folder / names[1]).read_text("utf-8"))
            stat = (folder / "memory.stat").read_text("utf-8").splitlines()
            cached = sum(int(line.split()[1]) for line in stat if line.split()[0] == names[2])
            if limit < _UNLIMITED:
                yield max(limit - used + cached, limit // 2)
        if folder == root:
            return


def _of_address_space() -> Iterator[int]:
    """Yield half of the address space, where it is limited: libraries and threads reserve some."""
    with suppress(ImportError):  # not POSIX
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if 0 < limit != resource.RLIM_INFINITY:
            yield limit // 2


def rows_nbytes(row_nbytes: int, n_rows: int) -> int:
    return TASK_COPIES * n_rows * row_nbytes


def largest_block(source: Source) -> int:
    """Return the memory that the rows of the largest block of a source take in a task."""
    return rows_nbytes(source.row_nbytes, int(source.blocks.sizes.max()))


def partial_limit(split_every: int) -> int:
    """Return what one partial may take, so that a task has room for all that it combines."""
    return TASK_NBYTES // (split_every + 2)


def at_once(engine: Engine, name: str, task_nbytes: int, memory_limit: int | str, *, partials: int = 0) -> int:
    """Return how many tasks run at once in one process; refuse where a single one does not fit.

    `name` is that of the pass or command, `partials` how much of a task is not for rows.
    """
    room = room_of(engine, memory_limit)
    if task_nbytes <= room:
        return min(engine.n_threads, room // task_nbytes)
    needs = f"{name} needs about {mib(task_nbytes)} for one task"
    smallest = next((one for one in engine.worker_limits() if one.room == room), None)
    if memory_limit == room:
        why = f"the limit memory_limit is {mib(room)}; raise it"
    elif smallest is not None:
        why = (
            f"and worker {smallest.address}, which pauses at {mib(smallest.nbytes)}, has "
            f"{mib(room)} for tasks; raise its --memory-limit"
        )
    elif engine.remote:
        why = f"and workers without a limit are taken to have {mib(room)}; give memory_limit"
    else:
        why = f"and this process has {mib(room)}; use a machine or container with more memory"
    less = ", or lower degree or certificate_memory" if 2 * partials > task_nbytes else ""
    raise MemoryBudgetError(f"{needs}, {why}, or store smaller chunks{less}")


def fewer_at_once(
    engine: Engine, name: str, task_nbytes: int, memory_limit: int | str, *, partials: int = 0
) -> tuple[Notice, ...]:
    """Return the notice where not all threads can work at once; refuse as `at_once`."""
    count, threads = at_once(engine, name, task_nbytes, memory_limit, partials=partials), engine.n_threads
    if count >= threads:
        return ()
    room = room_of(engine, memory_limit)
    return (Notice.of(NoticeCode.FEWER_AT_ONCE, at_once=count, threads=threads, size=task_nbytes, room=room),)


def process_nbytes(engine: Engine, task_nbytes: int, memory_limit: int | str) -> int:
    """Return what one process takes at most, where no task takes more than so many bytes."""
    return PROCESS_NBYTES + at_once(engine, "", task_nbytes, memory_limit) * task_nbytes


def cache_nbytes(room: int, n_tasks: int, task_nbytes: int) -> int:
    """Return the memory for fetched chunks beside so many tasks."""
    return int(max(0, room - n_tasks * task_nbytes) * KEPT_SHARE)


_PATIENCE = 600.0  # seconds
_turns = threading.Condition()
_line: deque[object] = deque()
_held = [0]  # bytes of the tasks that run in this process
_inside = threading.local()


@contextmanager
def task_memory(nbytes: int, room: int) -> Iterator[None]:
    """Wait, in order of arrival, until the tasks of this process leave `nbytes` of `room`.

    A task that is alone never waits, nor does one inside another, and none waits for ever: where
    nothing moves for `_PATIENCE`, the running task may itself wait for this one. The wait is in the
    thread of the task, so that a worker's event loop goes on. Without a `room` there is no limit. A
    worker that has less has joined later.
    """
    room = min(room, _of_worker(room))
    if not room or getattr(_inside, "task", False):
        yield
        return
    own = object()
    with _turns:
        _line.append(own)
        try:
            while _line[0] is not own or 0 < _held[0] > room - nbytes:
                if not _turns.wait(_PATIENCE) and _line[0] is own:
                    break
            _held[0] += nbytes
        finally:
            _line.remove(own)
            _turns.notify_all()
    _inside.task = True
    _trim_for(nbytes, room)
    try:
        yield
    finally:
        _inside.task = False
        with _turns:
            _held[0] -= nbytes
            _turns.notify_all()


def _trim_for(nbytes: int, room: int) -> None:
    """Give freed memory back where the process would else grow beyond its room.

    The C library keeps what each thread has freed, which many threads add up to a worker's pause.
    """
    with suppress(Exception):  # no /proc
        used = psutil.Process().memory_info().rss
        if used + nbytes > PROCESS_NBYTES + room:
            trim_memory()


def _of_worker(room: int) -> int:
    """Return what the Dask worker of this thread has for tasks; else `room`."""
    distributed = sys.modules.get("distributed")  # a worker has it; it takes a second to import
    with suppress(ValueError, AttributeError, TypeError):  # no worker's thread, or one of its own
        manager = distributed.get_worker().memory_manager if distributed else None
        if manager is not None and manager.memory_limit:
            pause = manager.memory_pause_fraction or 1.0
            return WorkerLimit("", 1, int(pause * manager.memory_limit)).room or 1
    return room


def trim_memory() -> None:
    """Give memory that is free back to the system, that of the C library where it is glibc."""
    drop_buffers()
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:,.0f} MiB"
