"""What a dry run found: who would work, whether all can read, and what the run would take."""

from __future__ import annotations

from streamhalf.results.base import Record
from streamhalf.results.notices import Notice
from streamhalf.results.results import PlanRecord


class WorkerRecord(Record, frozen=True):
    """A process that would work on tasks, and how it read one block of rows.

    `memory_nbytes` is what its tasks may take (None: unlimited, or not known). `work` are the
    seconds that a row takes in each kind of statistic, `versions` what is installed there.
    """

    address: str
    n_threads: int
    memory_nbytes: int | None
    versions: dict[str, str]
    rows_read: int
    bytes_read: int
    seconds: float
    work: dict[str, float]


class DryRunResult(Record, frozen=True, kw_only=True):
    """What `fit --dry-run` says; nothing was written and no task is left.

    `memory_limit` is what the tasks of one process may take together, of the smallest one, and
    `process_nbytes` what one would take at most: its tasks, the interpreter and its libraries.
    `place` is where the run would be. `seconds` is about what its passes would take there, none of
    the search for the certificate's bound among it.
    """

    source: str
    place: str
    versions: dict[str, str]
    workers: tuple[WorkerRecord, ...]
    plan: PlanRecord
    n_tasks: int
    seconds: float
    memory_limit: int
    process_nbytes: int
    notices: tuple[Notice, ...] = ()

    @property
    def n_threads(self) -> int:
        """Tasks that would run at once."""
        return sum(one.n_threads for one in self.workers)

    @property
    def differences(self) -> tuple[tuple[str, str, str, str], ...]:
        """Worker, package, its version there and its version here, where the two differ."""
        return tuple(
            (one.address, name, one.versions.get(name, "none"), here)
            for one in self.workers
            for name, here in self.versions.items()
            if one.versions.get(name) != here
        )
