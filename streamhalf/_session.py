"""Shared parts of the API functions: parameters, data, engines, checkpoints, and runs in the background."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import getpass
import logging
import math
import os
import socket
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np

from streamhalf._models import columns_of
from streamhalf.algorithms.kept import LARGEST_MANIFEST, MANIFEST, RESULT, KeptState
from streamhalf.config import SETTINGS, RunConfig, check_names, environment_settings
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.kinds import is_frame, is_table_path
from streamhalf.data.opening import DataLike, open_source, refuse_array_names
from streamhalf.data.schema import SIGNS
from streamhalf.data.source import Source
from streamhalf.data.zarr_groups import Target, access_check_of
from streamhalf.engine import Counted, Engine, Job, open_engine, run_job
from streamhalf.engine.checkpoint import Checkpoint
from streamhalf.engine.cluster import ClusterEngine
from streamhalf.engine.live_messages import ClusterSlabs, LocalSlabs
from streamhalf.engine.memory import fewer_at_once, largest_block, room_of, rows_nbytes, task_memory
from streamhalf.engine.plan import MAX_TASKS
from streamhalf.engine.run import Run, plan_keeping
from streamhalf.engine.scheduler import check_access, choose, dask_settings, refuse_elsewhere
from streamhalf.errors import DataError, RunCancelledError, UsageError
from streamhalf.events import Answered, Event, Observer, PassEnded, PassProgress, PassStarted, RunStarted, Watched
from streamhalf.paths import AnyPath, Folder, absolute, check_cache_folder, path_of, refuse_harm
from streamhalf.redact import one_line, plural, public_name
from streamhalf.report.words import notice_words
from streamhalf.results import CertifyResult, FitResult, Notice, RunRecord, Versions, WatchResult, replace
from streamhalf.results.codes import RowsKept

if TYPE_CHECKING:
    from distributed import Client

SEED_DRAWN = "seed drawn"  # In what a checkpoint holds of a run: whether the system drew its seed
_READS = {"score": 1, "verify": 1, "watch": 1}  # How often a command reads all rows, where that is not several times
logger = logging.getLogger("streamhalf")
P = ParamSpec("P")
R = TypeVar("R")


def takes_data(function: Callable[P, R]) -> Callable[P, R]:
    """A function of one positional argument, the data, which says so if it is given more."""

    @functools.wraps(function)
    def checked(*arguments: P.args, **parameters: P.kwargs) -> R:
        if len(arguments) > 1:
            name = function.__name__
            fitted = " (or use HalfspaceTesterLearner().fit(X, y))" if name == "fit" else ""
            raise UsageError(
                f"{name}: {len(arguments)} positional arguments; the data are one argument, so "
                f"give arrays as a pair: {name}((X, y), ...){fitted}, and all else by name"
            )
        return function(*arguments, **parameters)

    return checked


def make_config(parameters: Mapping[str, Any]) -> RunConfig:
    """Settings in order of precedence: given, environment, Dask configuration; unknown names are refused."""
    other = {"label": "labels", "random_state": "seed"}
    given = {name: value for name, value in parameters.items() if name not in other}
    given |= {other[name]: value for name, value in parameters.items() if name in other}
    if "seed" in given:
        given["seed"] = as_seed(given["seed"])
    check_names(given, SETTINGS, "configuration")
    return RunConfig(**{**dask_settings(), **environment_settings(), **given})


def as_seed(random_state: Any) -> Any:
    """The seed that scikit-learn's `random_state` stands for."""
    if random_state is None:
        return "auto"
    if hasattr(random_state, "randint"):  # a RandomState, which moves on
        return int(random_state.randint(2**31 - 1))
    return random_state


def open_data(
    data: DataLike,
    parameters: Mapping[str, Any],
    storage_options: Mapping[str, Any] | None,
    *,
    needs_labels: bool = True,
    model: Any = None,
) -> tuple[Source, RunConfig]:
    """Open data under their configured names; returns the configuration too.

    Where labels are not needed and none are named, data without any are features alone. Tables are
    encoded as those that the `model` was fitted on, and labels are read as its record says.
    """
    is_result = isinstance(model, FitResult | CertifyResult)
    config = make_config({**(_settings_like(model, data) if is_result else {}), **parameters})
    known = model.data.classes or SIGNS.values if is_result else ()
    if known and config.positive not in (None, str(known[1])):
        raise UsageError(
            f"positive: {config.positive!r} given; the result has {known[1]} as +1: leave it out, or fit again"
        )
    refuse_array_names(data, {name: parameters[name] for name in ("features", "labels") if name in parameters})
    named = {"label", "labels"} & parameters.keys()
    opened = open_source(
        data,
        features=config.features,
        labels=config.labels,
        labelled=True if needs_labels or named else None,
        storage_options=storage_options,
        **table_options(config),
        **columns_like(model),
        known=known,
    )
    return opened, config


def protect(data: Any, *, replaces: bool = False, **outputs: AnyPath | None) -> None:
    """Refuse outputs inside the data that are read; around them too, if writing `replaces` all."""
    if (place := path_of(data)) is not None:
        refuse_harm(place, {name: one for name, one in outputs.items() if one is not None}, replaces=replaces)


def table_options(config: RunConfig) -> dict[str, Any]:
    names = ("columns", "drop", "positive", "encode", "missing")
    return {name: getattr(config, name) for name in names}


def _settings_like(result: FitResult | CertifyResult, data: Any) -> dict[str, Any]:
    """Settings of a result's record about gaps in the data, and of the label of a table."""
    settings = {} if result.run is None else result.run.settings
    names = (
        {"missing": "missing", "label": "labels"} if is_table_path(data) or is_frame(data) else {"missing": "missing"}
    )
    return {name: settings[own] for name, own in names.items() if own in settings}


def columns_like(model: Any) -> dict[str, Any]:
    """Return how tables are encoded for a model: as its record says, or by names of features."""
    data = getattr(model, "data", None)
    encoding = getattr(data, "encoding", None)
    return {"encoding": encoding, "named": () if encoding is not None else columns_of(model)}


def execute(
    command: str,
    source: Source,
    config: RunConfig,
    work: Callable[[Run], R],
    client: Client | None,
    observer: Observer,
    checkpoint: Checkpoint | None = None,
    *notices: Notice,
    rows_planned: int = 0,
    held: int = 0,
) -> R:
    """Do the work of a command in a run of its own; the observer hears how it begins and ends.

    It is refused before the first pass where a task of any pass would not fit in memory: the
    largest block of rows, and partials of `held` bytes.
    """
    chosen = choose(config.scheduler, client, source)
    keeping = plan_keeping(source, chosen.target, config, passes=_READS.get(command, 2))
    lazy = () if keeping is None else (keeping.notice,)
    if keeping is not None and keeping.kept is RowsKept.NOWHERE:
        keeping = None
    check_cache_folder(config.cache)
    with _in_one_sentence(source), open_engine(chosen.target, config) as engine:
        refuse_elsewhere(engine, source)
        check_access(engine, access_check_of(source.reader))
        need, limit = largest_block(source) + held, config.memory_limit
        fewer = fewer_at_once(engine, command, need, limit, partials=held)
        said = (*source.notices, *notices, *chosen.notices, *lazy, *fewer)
        started = RunStarted(command, source.name, source.n_rows, source.dim, said, config.seed, who(), rows_planned)
        observer(started)
        for notice in started.notices:
            logger.info(notice_words(notice))
        cache = None if config.cache is None else absolute(config.cache)
        with mirrored(engine, observer, started) as (watched, slabs):
            run = Run(engine, limit, config.split_every, watched, checkpoint, slabs.listen, cache, keeping)
            run.provenance = RunRecord.now(chosen.name, config.recorded())
            try:
                result = work(run)
                run.close(getattr(result, "verdict", None), _answer(result))
            finally:
                run.forget()
    return result


def write_all(
    started: RunStarted,
    config: RunConfig,
    client: Client | None,
    observer: Observer,
    target: Target,
    create: Callable[[], Any],
    write: Callable[[RowRange], int],
    ranges: Iterable[RowRange],
    row_nbytes: int,
    source: Source | None = None,
) -> int:
    """Create a store and write every range in parallel; returns the sum of what the writes count.

    Refused before it is created where a task does not fit in memory.
    """
    bounds = RowRanges.of(ranges).bounds
    task_nbytes = rows_nbytes(row_nbytes, int(np.diff(bounds).max()))
    per_task = math.ceil(len(bounds) / MAX_TASKS)
    items = tuple(map(RowRanges, np.split(bounds, range(per_task, len(bounds), per_task))))
    chosen = choose(config.scheduler, client)
    with open_engine(chosen.target, config) as engine:
        if source is not None:
            check_access(engine, access_check_of(source.reader))
        fewer = fewer_at_once(engine, started.command, task_nbytes, config.memory_limit)
        create()
        check_access(engine, target.access_check())
        started = replace(started, notices=(*chosen.notices, *fewer))
        observer(started)
        job = Job(
            name=started.command,
            context=(write, task_nbytes, room_of(engine, config.memory_limit)),
            items=items,
            rows=tuple(rows.n_rows for rows in items),
            leaf=_write_task,
            combine=lambda _, parts: sum(parts),
            at_once=fewer[0]["at_once"] if fewer else None,
        )
        with mirrored(engine, observer, started) as (watched, _):
            total: int = run_job(engine, job, watched).partial
    return total


def _write_task(context: tuple[Callable[[RowRange], int], int, int], rows: RowRanges) -> Counted:
    write, nbytes, room = context
    with task_memory(nbytes, room):
        return Counted(rows.n_rows, sum(map(write, rows)))


@contextmanager
def _in_one_sentence(source: Source) -> Iterator[None]:
    """Arithmetic that has no result is an error about the data; NumPy does not warn of it before.

    What is no number is looked for where it matters.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except (np.linalg.LinAlgError, ArithmeticError) as error:
        raise DataError(
            f"{source.name}: the features cannot be computed with in double precision "
            f"({one_line(error)}); subtract an offset from features that hardly differ, scale "
            "those that are very large or very small, and remove those that others tell"
        ) from error


def who() -> str:
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number without a name, as in many containers
        name = "unknown"
    return f"{name}@{socket.gethostname()}"


def _answer(result: Any) -> Answered | Watched | None:
    """Return the summary of a result for live views."""
    if isinstance(result, WatchResult):
        return Watched(result.outcome, result.look, result.statements)
    if not isinstance(result, FitResult | CertifyResult):
        return None
    found = Answered()
    if (error := result.error) is not None:
        found = replace(found, error=error.empirical, error_upper=error.upper)
    if (certificate := result.certificate) is not None:
        pieces = sorted(certificate.profile, key=lambda one: one.angle_low)
        found = replace(
            found,
            upper=certificate.error if certificate.comparable else None,
            lower=certificate.opt.lower_empirical,
            profile=tuple(
                (math.degrees(one.angle_low), math.degrees(one.angle_high), one.bound)
                for one in pieces
                if math.isfinite(one.bound)
            ),
        )
    if isinstance(result, FitResult):
        path = tuple(one.error for one in result.candidates)
        found = replace(found, eps=result.eps, path=path, chosen=result.chosen)
    return found


@contextmanager
def mirrored(
    engine: Engine, observer: Observer, started: RunStarted
) -> Iterator[tuple[Observer, LocalSlabs | ClusterSlabs]]:
    """Yield the observer, joined on a cluster with one that feeds the dashboard, and what hears of counted slabs."""
    if not isinstance(engine, ClusterEngine):
        local = LocalSlabs(observer)
        yield local, local
        return
    from streamhalf.report.dashboard import mirrored  # imports distributed, which takes a second

    with mirrored(engine.client, observer, started, page=engine.config.dashboard_page) as watched:
        yield watched


def open_checkpoint(
    url: AnyPath | None, storage_options: Mapping[str, Any] | None, source: Source, config: RunConfig, *, resume: bool
) -> Checkpoint | None:
    """The checkpoint folder of a run, if one is wanted; refused where it holds another run.

    The seed of a run that is resumed is the one it began with, unless another is given.
    """
    if url is None:
        if resume:
            raise UsageError("resume: needs the checkpoint folder to resume from (--checkpoint)")
        return None
    if "://" not in os.fspath(url) and os.path.isfile(url):
        raise UsageError(
            f"checkpoint: {public_name(os.fspath(url))} is a file; name a folder, which is made if there is none"
        )
    identity = {
        "data fingerprint": source.fingerprint,
        "rows of data": source.n_rows,
        "blocks of data": len(source.blocks),
        "version": Versions.current().streamhalf,
        SEED_DRAWN: config.seed_drawn,
    } | config.identity()
    kept = (SEED_DRAWN, "seed") if config.seed_drawn else (SEED_DRAWN,)
    return Checkpoint(Folder(os.fspath(url), storage_options), identity, resume=resume, kept=kept)


def new_state(url: AnyPath | None, storage_options: Mapping[str, Any] | None, config: RunConfig) -> Folder | None:
    """The folder for the state of a fit, if one is wanted; refused where it holds another."""
    if url is None:
        return None
    if config.stop_early:
        raise UsageError("state: given with stop_early, which leaves nothing to add rows to; leave one of them out")
    folder = Folder(os.fspath(url), storage_options)
    if folder.read(MANIFEST, LARGEST_MANIFEST) is not None:
        raise UsageError(f"state: {folder.name} holds a state already; name another folder, or remove this one")
    return folder


def load_state(folder: Folder, result: FitResult) -> KeptState:
    """The state in a folder; refused where that is of another result."""
    kept = KeptState.load(folder)
    if kept.result.digest != result.digest:
        looks = f"{plural(len(kept.looks), 'look')} at {kept.n_rows:,} rows"
        raise UsageError(
            f"state: {folder.name} is not that of the result, but of one with {looks}, "
            f"which is in {folder.name}/{RESULT}; give that one, or the folder of this result"
        )
    return kept


def update_settings(kept: KeptState, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an update: those of the fit, but for where it runs and what things are called."""
    moved = {name for name, one in SETTINGS.items() if one.may_change}
    names = {name: one.default for name, one in SETTINGS.items() if one.group == "names"}
    if fixed := [name for name in given if name not in (*moved, *names, "label")]:
        raise UsageError(f"{fixed[0]}: an update keeps the settings of the fit; leave it out, or fit all rows again")
    own = {name: value for name, value in kept.path.settings.items() if name not in moved and names.get(name) != value}
    if "labels" in own and "labels" not in given:  # a name that tables take, too
        own["label"] = own.pop("labels")
    return {**own, **given, "seed": "auto"}


def check_grown(kept: KeptState, source: Source) -> None:
    """Refuse data that the old rows are no longer the first of."""
    data, name, remedy = kept.result.data, source.name, "fit all rows again"
    if source.dim != data.dim or source.schema.columns != data.features:
        ours, theirs = _columns(source.dim, source.schema.columns), _columns(data.dim, data.features)
        raise DataError(f"{name}: {ours}; the result has {theirs}; {remedy}")
    if source.record.classes != data.classes:
        raise DataError(f"{name}: labels {source.record.label_names}; the result has {data.label_names}; {remedy}")
    if source.n_rows < kept.n_rows:
        raise DataError(
            f"{name}: {source.n_rows:,} rows; the result has {kept.n_rows:,}, and an update takes data "
            f"that grew; {remedy}"
        )
    if source.fingerprint_of(kept.n_rows) != data.fingerprint:
        raise DataError(
            f"{name}: the first {kept.n_rows:,} rows are not those of the result (a sample of them differs): "
            f"new rows belong behind the old ones; {remedy}"
        )


def _columns(dim: int, names: tuple[str, ...]) -> str:
    shown = f" ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''})" if names else ""
    return f"{dim} features{shown}"


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
            self._future.set_result(self._work(self._observe))
        except BaseException as error:
            self._future.set_exception(error)

    def _observe(self, event: Event) -> None:
        if self._cancelled.is_set():
            raise RunCancelledError("the run was cancelled")
        now = self._progress
        if isinstance(event, PassStarted):
            self._progress = RunProgress(now.n_passes, event.name, 0, event.n_rows)
        elif isinstance(event, PassProgress):
            self._progress = replaced(now, rows_done=event.rows_done)
        elif isinstance(event, PassEnded):
            self._progress = RunProgress(now.n_passes + 1)
        self._observer(event)
