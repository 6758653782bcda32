"""Messages about a run for other processes, and the slab counts that tasks contribute to them.

A driver and its workers log messages on the scheduler under `TOPIC`; views decode them.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.engine.plan import Tell
from streamhalf.errors import DataError
from streamhalf.events import Event, Observer, PassProgress, SlabsCounted, SlabsMeasured, TesterJudged
from streamhalf.reductions.base import Counts, Reduction
from streamhalf.reductions.candidates import CandidateSlabs
from streamhalf.reductions.row_view import Bundle, Viewed
from streamhalf.results import Record, from_json, replace, to_json

TOPIC = "streamhalf"  # Topic of a Dask scheduler's event log that the messages go to
_MOST_SLABS = 80


class RunClosed(Record, frozen=True, tag=True, tag_field="event"):
    """The last message of a run; `error` says what ended it early, if anything did.

    `interrupted` if a user ended it, or the process that drove it has left.
    """

    error: str = ""
    interrupted: bool = False


# An event, and the time at which it happened in seconds since the epoch
Happening: TypeAlias = tuple[float, Event | RunClosed]


class Message(Record, frozen=True):
    """Events of one run."""

    run: str
    events: tuple[Happening, ...]


def encode(run: str, happenings: Iterable[Happening]) -> dict[str, Any]:
    """Return a message that msgpack and JSON take, with no more than a view draws."""
    plain: dict[str, Any] = to_json(Message(run, tuple((at, _slim(event)) for at, event in happenings)))
    return plain


def decode(message: Any) -> tuple[str, tuple[Happening, ...]]:
    """Return run and events of a message; nothing if it is none of ours."""
    if not isinstance(message, dict):
        return "", ()
    # Dask says beside it which worker sent it
    ours = {key: value for key, value in message.items() if key in Message.__struct_fields__}
    try:
        found = from_json(Message, ours, where="message")
    except DataError:  # of another version
        return "", ()
    return found.run, found.events


def _slim(event: Event | RunClosed) -> Event | RunClosed:
    if isinstance(event, TesterJudged):
        return TesterJudged(replace(event.test_result, evidence=()))
    return coarsen(event) if isinstance(event, SlabsMeasured) else event


Slabs = TypeVar("Slabs", bound=SlabsMeasured | SlabsCounted)


def coarsen(slabs: Slabs) -> Slabs:
    """Join neighbouring slabs until there are few enough to draw; 0 stays an edge."""
    counts, half = slabs.counts, len(slabs.counts) // 2 - 1
    factor = max(1, -(-2 * half // _MOST_SLABS))
    over = half % factor  # slabs left over on either side go into the tails
    low, high = 1 + over, 1 + 2 * half - over
    joined = [sum(counts[i : i + factor]) for i in range(low, high, factor)]
    return replace(slabs, width=slabs.width * factor, counts=(sum(counts[:low]), *joined, sum(counts[high:])))


SECONDS_BETWEEN_COUNTS = 1.0
_SHARE_BETWEEN_COUNTS = 0.02  # Share of the time of a pass that lies between two messages, at least
_MOST_TALLIES = 8
_tallies: dict[tuple[str, str], Tally] = {}
_tallies_lock = threading.Lock()


class Tally:
    """Rows about the last candidate since the last message of this process, at most one every `seconds`."""

    def __init__(self, name: str, slabs: CandidateSlabs, seconds: float) -> None:
        self._name, self._slabs, self._seconds = name, slabs, seconds
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._due = 0.0
        self._waiting: NDArray[np.int64] | None = None

    def add(self, found: Counts) -> None:
        """Add the rows of a task."""
        with self._lock:
            self._waiting = found.counts[-1] + (0 if self._waiting is None else self._waiting)

    def take(self) -> SlabsCounted | None:
        """Return the counts that wait, if a message is due."""
        with self._lock:
            now, found = time.monotonic(), self._waiting
            if found is None or now < self._due:
                return None
            self._waiting = None
            longer = _SHARE_BETWEEN_COUNTS * (now - self._began)
            self._due = now + (max(self._seconds, longer) if self._seconds else 0.0)
        threshold = float(self._slabs.candidates[-1].threshold)
        return coarsen(SlabsCounted(self._name, self._slabs.width, tuple(found.tolist()), threshold))


def find_slabs(reduction: Reduction[Any, Any], partial: Any = None) -> tuple[CandidateSlabs, Any] | None:
    """Return the slabs that a pass counts, and its partial of them; None if it counts none."""
    if isinstance(reduction, CandidateSlabs):
        return reduction, partial
    if isinstance(reduction, Viewed) and not reduction.counts:
        return find_slabs(reduction.inner, partial)
    if isinstance(reduction, Bundle):
        parts = (None,) * len(reduction.members) if partial is None else partial
        found = (find_slabs(*pair) for pair in zip(reduction.members, parts, strict=True))
        return next((one for one in found if one is not None), None)
    return None


class LocalSlabs:
    """An observer that adds counts of tasks in this process to the events of a run."""

    def __init__(self, observer: Observer, seconds: float = SECONDS_BETWEEN_COUNTS) -> None:
        self._observer = observer
        self._seconds = seconds
        self._tally: Tally | None = None

    def __call__(self, event: Event) -> None:
        """Pass an event on; after progress, also what was counted."""
        self._observer(event)
        if isinstance(event, PassProgress) and self._tally and (counted := self._tally.take()) is not None:
            self._observer(counted)

    def listen(self, name: str, reduction: Reduction[Any, Any]) -> Tell | None:
        """Return the callback for partials of a pass; None if it counts no slabs."""
        self._tally = None
        if (counted := find_slabs(reduction)) is None:
            return None
        tally = self._tally = Tally(name, counted[0], self._seconds)

        def tell(partial: Any) -> None:
            if (found := find_slabs(reduction, partial)) is not None:
                tally.add(found[1])

        return tell


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSlabs:
    """Counts of tasks on a cluster: each worker sums up its own, and logs them now and then.

    `run` is its name on the scheduler's board; at least `seconds` lie between two messages of a worker.
    """

    run: str
    seconds: float = SECONDS_BETWEEN_COUNTS

    def listen(self, name: str, reduction: Reduction[Any, Any]) -> Tell | None:
        """Return the callback for partials of a pass; None if it counts no slabs."""
        return None if find_slabs(reduction) is None else functools.partial(self._tell, name, reduction)

    def _tell(self, name: str, reduction: Reduction[Any, Any], partial: Any) -> None:
        from distributed import get_worker

        with contextlib.suppress(Exception):  # a view is no reason for a task to fail
            if (found := find_slabs(reduction, partial)) is None:
                return
            tally = self._tally(name, found[0])
            tally.add(found[1])
            if (counted := tally.take()) is not None:
                get_worker().log_event(TOPIC, encode(self.run, [(time.time(), counted)]))

    def _tally(self, name: str, slabs: CandidateSlabs) -> Tally:
        """Return the tally of this pass in this process, and drop those of old passes."""
        with _tallies_lock:
            tally = _tallies.setdefault((self.run, name), Tally(name, slabs, self.seconds))
            while len(_tallies) > _MOST_TALLIES:
                del _tallies[next(iter(_tallies))]
            return tally
