"""Slabs while the final pass runs: counted where its tasks run, told in a few small messages."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamhalf.engine.plan import Tell
from streamhalf.events import Event, Observer, PassProgress, SlabsCounted, SlabsMeasured
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.candidate_slabs import CandidateSlabs, CandidateSlabsResult
from streamhalf.reductions.row_view import Bundle, Viewed
from streamhalf.report.live import TOPIC, coarsen, encode

SECONDS_BETWEEN_COUNTS = 1.0
_SHARE_BETWEEN_COUNTS = 0.02
"""A long pass tells of itself less often: not before this share of its time has passed again."""

_MOST_TALLIES = 8
_tallies: dict[tuple[str, str], Tally] = {}
_tallies_lock = threading.Lock()


class Tally:
    """Rows counted in this process since they were last told of; tasks in threads share it.

    `seconds` pass between two times at least; with 0, every task is told of.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self._name = name
        self._seconds = seconds
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._due = 0.0
        self._waiting: CandidateSlabsResult | None = None

    def add(self, slabs: CandidateSlabs, found: CandidateSlabsResult) -> None:
        """Add the rows of a task."""
        with self._lock:
            waiting = self._waiting
            self._waiting = found if waiting is None else slabs.combine(waiting, found)

    def take(self, slabs: CandidateSlabs) -> SlabsCounted | None:
        """What is to be told, if it is time and there is anything."""
        with self._lock:
            now = time.monotonic()
            found = self._waiting
            if found is None or now < self._due:
                return None
            self._waiting = None
            longer = _SHARE_BETWEEN_COUNTS * (now - self._began)
            self._due = now + (max(self._seconds, longer) if self._seconds else 0.0)
        last = coarsen(SlabsMeasured(slabs.width, tuple(found.counts[-1].tolist())))
        threshold = float(slabs.candidates[-1].threshold)
        return SlabsCounted(self._name, last.width, last.counts, threshold)


def find_slabs(
    reduction: Reduction[Any, Any], partial: Any = None
) -> tuple[CandidateSlabs, Any] | None:
    """The slabs that a pass counts, and its partial of them; None if it counts none."""
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
    """Tasks in this process: an observer that slips counts in between the events of the run."""

    def __init__(self, observer: Observer, seconds: float = SECONDS_BETWEEN_COUNTS) -> None:
        self._observer = observer
        self._seconds = seconds
        self._take: Callable[[], SlabsCounted | None] = lambda: None

    def __call__(self, event: Event) -> None:
        """Pass an event on; after progress, also what was counted."""
        self._observer(event)
        if isinstance(event, PassProgress) and (counted := self._take()) is not None:
            self._observer(counted)

    def listen(self, name: str, reduction: Reduction[Any, Any]) -> Tell | None:
        """What is to hear of the tasks of a pass."""
        if (counted := find_slabs(reduction)) is None:
            self._take = lambda: None
            return None
        tally = Tally(name, self._seconds)
        self._take = functools.partial(tally.take, counted[0])

        def tell(partial: Any) -> None:
            if (found := find_slabs(reduction, partial)) is not None:
                tally.add(*found)

        return tell


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSlabs:
    """Tasks on a cluster: each worker sums up what its tasks count, and logs it now and then.

    Parameters
    ----------
    run
        Name of the run on the scheduler's board.
    seconds
        From one message of a worker to the next, at least.
    """

    run: str
    seconds: float = SECONDS_BETWEEN_COUNTS

    def listen(self, name: str, reduction: Reduction[Any, Any]) -> Tell | None:
        """What is to hear of the tasks of a pass."""
        counts = find_slabs(reduction) is not None
        return functools.partial(self._tell, name, reduction) if counts else None

    def _tell(self, name: str, reduction: Reduction[Any, Any], partial: Any) -> None:
        from distributed import get_worker

        with contextlib.suppress(Exception):  # a view is no reason for a task to fail
            if (found := find_slabs(reduction, partial)) is None:
                return
            tally = self._tally(name)
            tally.add(*found)
            if (counted := tally.take(found[0])) is not None:
                get_worker().log_event(TOPIC, encode(self.run, [(time.time(), counted)]))

    def _tally(self, name: str) -> Tally:
        """The tally of this pass in this process; those of old passes go."""
        with _tallies_lock:
            tally = _tallies.setdefault((self.run, name), Tally(name, self.seconds))
            while len(_tallies) > _MOST_TALLIES:
                del _tallies[next(iter(_tallies))]
            return tally
