"""A run in the background: what `fit(..., wait=False)` returns."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

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
    """A run in a thread of its own: what is known of it, and its result, as Dask's futures tell.

    `await` a handle in an event loop, or call `result` elsewhere.

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
        self._future: concurrent.futures.Future[R] = concurrent.futures.Future()
        self._future.set_running_or_notify_cancel()  # from now on only the run itself ends it
        context = contextvars.copy_context()  # a client may be current in this context alone
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="streamhalf-run", daemon=True)
        self._thread.start()

    @property
    def progress(self) -> RunProgress:
        """How far the run is."""
        return self._progress

    def done(self) -> bool:
        """Return True if it has ended, one way or another."""
        return self._future.done()

    def cancelled(self) -> bool:
        """Return True if it was cancelled, and has ended by it."""
        return self.done() and isinstance(self._future.exception(), RunCancelledError)

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
        try:
            return self._future.result(timeout)
        except TimeoutError as error:
            if self.done():  # the run's own
                raise
            raise TimeoutError(f"the run is not done after {timeout:g} s") from error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end; what ended the run early, or None."""
        return self._future.exception(timeout)

    def add_done_callback(self, call: Callable[[RunHandle[R]], Any]) -> None:
        """Call something with this handle when the run ends, in its thread, or now if it has."""
        self._future.add_done_callback(lambda _: call(self))

    def __await__(self) -> Generator[Any, None, R]:
        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        state = "done" if self.done() else "under way"
        return f"<RunHandle {state}: {self._progress}>"

    def _run(self) -> None:
        try:
            result = self._work(self._observe)
        except BaseException as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)

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
