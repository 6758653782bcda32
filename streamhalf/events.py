"""Events of a run for its observers; nothing in the package reads an event back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from streamhalf.results import Drift, DriftStatement, Notice, PassRecord, Record, TestResult, Verdict


class RunStarted(Record, frozen=True, tag=True, tag_field="event"):
    """A command has opened its data; `notices` are things the user should know about them.

    `who` started it, and `rows_planned` are read by all of its passes (0: not known).
    """

    command: str
    source: str
    n_rows: int
    dim: int
    notices: tuple[Notice, ...] = ()
    seed: int | None = None
    who: str = ""
    rows_planned: int = 0


class KernelsCompiled(Record, frozen=True, tag=True, tag_field="event"):
    """Loops over rows are being compiled, once per machine; it takes some seconds."""


class PassStarted(Record, frozen=True, tag=True, tag_field="event"):
    """One pass over (a share of) the rows begins; `detail` says at which scale, if any."""

    name: str
    n_rows: int
    n_tasks: int
    detail: str = ""


class PassProgress(Record, frozen=True, tag=True, tag_field="event"):
    """So many rows of the pass under way are done."""

    name: str
    rows_done: int
    n_rows: int


class PassEnded(Record, frozen=True, tag=True, tag_field="event"):
    """A pass is complete; every row of it was counted."""

    record: PassRecord


class SearchProgress(Record, frozen=True, tag=True, tag_field="event"):
    """The search for a lower bound has spent `done` of at most `total` operations.

    Sent some twenty times, the last time with both equal, though the search may end early.
    """

    done: float
    total: float


class TesterJudged(Record, frozen=True, tag=True, tag_field="event"):
    """A tester has spoken."""

    test_result: TestResult


class SlabsMeasured(Record, frozen=True, tag=True, tag_field="event"):
    """Rows in slabs of `width` about the best candidate (the outer two are tails).

    `threshold` is that of the candidate, the place of the middle in v·x.
    """

    width: float
    counts: tuple[int, ...]
    threshold: float = 0.0


class SlabsCounted(Record, frozen=True, tag=True, tag_field="event"):
    """Rows that some tasks of pass `name` saw, while it runs: what comes later is added to it.

    Of the last candidate: its rows in slabs of `width` about it (the outer two are tails), and its
    threshold.
    """

    name: str
    width: float
    counts: tuple[int, ...]
    threshold: float = 0.0


class Answered(Record, frozen=True, tag=True, tag_field="event"):
    """Numbers of the answer, those that there are.

    The error on rows that were not learnt from, its upper bound on their source, the error on all
    rows (U), the least of any halfspace (L) and eps; errors of the candidates in their order, and
    which was chosen; and pieces of the bound: from this angle to that, in degrees, at least this.
    """

    error: float | None = None
    error_upper: float | None = None
    upper: float | None = None
    lower: float | None = None
    eps: float | None = None
    path: tuple[float | None, ...] = ()
    chosen: int | None = None
    profile: tuple[tuple[float, float, float], ...] = ()


class Watched(Record, frozen=True, tag=True, tag_field="event"):
    """New rows were compared with those behind a result, at this look."""

    outcome: Drift
    look: int
    statements: tuple[DriftStatement, ...]


class RunEnded(Record, frozen=True, tag=True, tag_field="event"):
    """The command has its answer."""

    verdict: Verdict


Event: TypeAlias = (
    RunStarted
    | KernelsCompiled
    | PassStarted
    | PassProgress
    | PassEnded
    | SearchProgress
    | TesterJudged
    | SlabsMeasured
    | SlabsCounted
    | Answered
    | Watched
    | RunEnded
)
Observer: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Observe nothing."""


def fan_out(*observers: Observer) -> Observer:
    """One observer that passes each event to all of `observers`."""

    def observe(event: Event) -> None:
        for observer in observers:
            observer(event)

    return observe
