"""A run in the background: what `fit(..., wait=False)` returns."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from streamhalf.errors import RunCancelledError
from streamhalf.events import Event, Observer, PassEnded, PassProgress, PassStarted

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is: passes that are done, and rows of the one under way ("" for none)."""

    n_passes: int = 0
    name: str = ""
    rows_done: int = 0
    n_rows: int = 0


class RunHandle(Generic[R]):
    """A run in a thread of its own.

    Parameters
    ----------
    work
        The run; it is called with an observer.
    observer
        Hears every event too, in that thread.
    """

    def __init__(self, work: Callable[[Observer], R], observer: Observer) -> None:
        self._work, self._observer = work, observer
        self._progress = RunProgress()
        self._cancelled = threading.Event()
        self._result: R | None = None
        self._error: BaseException | None = None
        context = contextvars.copy_context()  # a client may be current in this context alone
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="streamhalf-run", daemon=True
        )
        self._thread.start()

    @property
    def progress(self) -> RunProgress:
        """How far the run is."""
        return self._progress

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """End the run as soon as its next task is done, and leave no task of it on a cluster."""
        self._cancelled.set()

    def result(self, timeout: float | None = None) -> R:
        """Wait for the result; what ended the run early is raised here.

        Parameters
        ----------
        timeout
            Seconds, after which TimeoutError is raised and the run goes on.
        """
        self._thread.join(timeout)
        if not self.done:
            raise TimeoutError(f"the run is not done after {timeout:g} s")
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def __repr__(self) -> str:
        state = "done" if self.done else "under way"
        return f"<RunHandle {state}: {self._progress}>"

    def _run(self) -> None:
        try:
            self._result = self._work(self._observe)
        except BaseException as error:
            self._error = error

    def _observe(self, event: Event) -> None:
        if self._cancelled.is_set():
            raise RunCancelledError("the run was cancelled")
        now = self._progress
        if isinstance(event, PassStarted):
            self._progress = RunProgress(now.n_passes, event.name, 0, event.n_rows)
        elif isinstance(event, PassProgress):
            self._progress = replace(now, rows_done=event.rows_done)
        elif isinstance(event, PassEnded):
            self._progress = RunProgress(now.n_passes + 1)
        self._observer(event)
