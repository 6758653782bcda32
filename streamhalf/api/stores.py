"""`synth`, `predict`, `report` and `diagnostics`: what makes and shows things."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamhalf.api._session import Place, columns_like, mirrored, open_place, who
from streamhalf.api._warnings import warn_unverified
from streamhalf.api.auditing import Audited
from streamhalf.api.predicting import usable_halfspace
from streamhalf.api.weights import check_columns
from streamhalf.data.access_check import access_check_of
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.kinds import is_table_path
from streamhalf.data.opening import open_source
from streamhalf.data.predictions import (
    check_kept,
    create_predictions,
    finish_predictions,
    write_prediction_table,
    write_predictions,
)
from streamhalf.data.row_files import check_file, renamed
from streamhalf.data.zarr_writer import Target
from streamhalf.engine import Counted, Job, run_job
from streamhalf.engine.memory import fewer_at_once, room_of, rows_nbytes, task_memory
from streamhalf.engine.plan import MAX_TASKS
from streamhalf.engine.scheduler import check_access
from streamhalf.errors import UsageError
from streamhalf.events import Observer, RunStarted, ignore
from streamhalf.paths import absolute, refuse_harm, write_text_to
from streamhalf.report.audit import render_audit
from streamhalf.report.html import render_report
from streamhalf.results import (
    AuditResult,
    CertifyResult,
    FitResult,
    Halfspace,
    Notice,
    replace,
)
from streamhalf.settings import check_names
from streamhalf.synthetic.spec import SyntheticSpec, plant
from streamhalf.synthetic.store import chunks_of, create_store, finish_store, write_rows

if TYPE_CHECKING:
    import xarray as xr
    from distributed import Client


_DRAWN_NBYTES = 8
"""Features are drawn in double precision, whatever is stored."""


def synth(
    store: str | os.PathLike[str],
    *,
    chunk_rows: int | None = None,
    overwrite: bool = False,
    client: Client | None = None,
    scheduler: str | None = None,
    n_workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **spec: Any,
) -> float:
    """Write a labelled data set with a planted halfspace; returns the planted error.

    Parameters
    ----------
    store
        Path or URL of the new Zarr store.
    chunk_rows
        Rows in a stored chunk; by default 262,144, or as many as hold 16,777,216 numbers.
    overwrite
        Replace a store that exists.
    client, scheduler, n_workers, storage_options, observer
        As of `predict`.
    **spec
        Fields of `SyntheticSpec`: rows, dim, marginal, noise, rate, seed, planted, positive,
        dtype.
    """
    check_names(spec, SyntheticSpec.__slots__, "synth")
    for name in ("rows", "dim", "marginal", "noise"):
        if name not in spec:
            raise UsageError(f"{name}: not given; synth needs rows, dim, marginal and noise")
    request = SyntheticSpec(**spec)
    target = Target(absolute(store), storage_options)
    with open_place(scheduler, n_workers, client) as place:
        planted, chunks = plant(request), chunks_of(request, chunk_rows)
        started = RunStarted(
            "synth", target.name, request.rows, request.dim, seed=request.seed, who=who()
        )
        write = partial(write_rows, target, request, planted)
        row_nbytes = request.dim * _DRAWN_NBYTES
        writing = _Writing.of(place, started.command, chunks, row_nbytes, write)
        create_store(target, request, chunk_rows=chunk_rows, overwrite=overwrite)
        check_access(place.engine, target.access_check())
        n_flipped = _write_all(place, started, chunks, writing, observer)
    finish_store(target, request, planted, n_flipped)
    return n_flipped / request.rows


def predict(
    store: str | os.PathLike[str],
    *,
    model: FitResult | Halfspace,
    out: str | os.PathLike[str],
    force: bool = False,
    overwrite: bool = False,
    features: str = "X",
    keep: Sequence[str] = (),
    missing: str = "auto",
    client: Client | None = None,
    scheduler: str | None = None,
    n_workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
) -> int:
    """Write the predictions of a fitted halfspace to a store or table; returns how many are +1.

    Parameters
    ----------
    store
        Path or URL of a Zarr store, only its features are read; or of a CSV or Parquet file, of
        which the columns that the model was fitted on are taken.
    model
        What `fit` returned, or a halfspace.
    out
        Path that ends in .csv or .parquet: a file whose column "prediction" holds the labels of
        the data, in the order of the rows. Any other path or URL: a new Zarr store; array
        "prediction" holds -1 and +1, and the attributes name what they stand for.
    force
        It has no effect any more: a run that was not accepted or certified predicts too, with an
        `UnverifiedWarning`.
    overwrite
        Replace a store or file that exists.
    features
        Name of the array of features.
    keep
        Columns of a table to write before the predictions, such as an id; for .csv and .parquet.
    missing
        "drop" leaves rows with gaps out; a column "row" then says which are there.
    client, scheduler, n_workers
        Where to run, as of `test`.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    observer
        Called with every event.
    """
    halfspace = model if isinstance(model, Halfspace) else usable_halfspace(model)
    known = model.data if isinstance(model, FitResult) else None
    if isinstance(model, FitResult):
        warn_unverified(model, stacklevel=2)
    refuse_harm(store, {"out": out}, replaces=True)
    tabular = is_table_path(out) and bool(check_file(out, overwrite=overwrite))
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    if keep and not tabular:
        raise UsageError("keep: columns go to files alone; let out end in .csv or .parquet")
    source = open_source(
        store,
        features=features,
        labelled=False,
        storage_options=storage_options,
        missing=missing,
        **columns_like(model),
    )
    check_kept(source, keep)
    check_columns(model, source.schema.columns, field="model")
    classes = () if known is None else known.classes
    with open_place(scheduler, n_workers, client) as place:
        check_access(place.engine, access_check_of(source.reader))
        started = RunStarted("predict", source.name, source.n_rows, source.dim, who=who())

        def write_store(target: Target) -> int:
            write = partial(write_predictions, target, source, halfspace)
            writing = _Writing.of(place, started.command, source.blocks, source.row_nbytes, write)
            create_predictions(target, source, halfspace, overwrite=overwrite)
            check_access(place.engine, target.access_check())
            n = _write_all(place, started, source.blocks, writing, observer)
            finish_predictions(target, source, n, classes)
            return n

        if not tabular:
            return write_store(Target(absolute(out), storage_options))
        with renamed(Path(out).resolve()) as file:
            target = Target(f"{file}.zarr")
            n_positive = write_store(target)
            write_prediction_table(target, file, source, classes, keep)
    return n_positive


@dataclass(frozen=True, slots=True, eq=False)
class _Writing:
    """What a task that writes rows needs; it takes so many bytes of the room in its process."""

    write: Callable[[RowRange], int]
    task_nbytes: int
    room: int
    fewer: tuple[Notice, ...]

    @classmethod
    def of(
        cls,
        place: Place,
        command: str,
        ranges: Iterable[RowRange],
        row_nbytes: int,
        write: Callable[[RowRange], int],
    ) -> _Writing:
        """For these ranges; refused, before anything is written, where a task does not fit."""
        engine, limit = place.engine, place.memory_limit
        nbytes = rows_nbytes(row_nbytes, int(RowRanges.of(ranges).sizes.max()))
        fewer = fewer_at_once(engine, command, nbytes, limit)
        return cls(write, nbytes, room_of(engine, limit), fewer)

    def __call__(self, rows: RowRanges) -> Counted:
        with task_memory(self.task_nbytes, self.room):
            return Counted(rows.n_rows, sum(map(self.write, rows)))


def _write_all(
    place: Place,
    started: RunStarted,
    ranges: Iterable[RowRange],
    writing: _Writing,
    observer: Observer,
) -> int:
    """Write every range in parallel; returns the sum of what the writes count."""
    started = replace(started, notices=(*place.notices, *writing.fewer))
    observer(started)
    bounds = RowRanges.of(ranges).bounds
    run = math.ceil(len(bounds) / MAX_TASKS)
    items = tuple(map(RowRanges, np.split(bounds, range(run, len(bounds), run))))
    job = Job(
        name=started.command,
        context=writing,
        items=items,
        rows=tuple(rows.n_rows for rows in items),
        leaf=lambda writing, rows: writing(rows),
        combine=lambda _, left, right: left + right,
        at_once=writing.fewer[0]["at_once"] if writing.fewer else None,
    )
    with mirrored(place.engine, observer, started) as (watched, _):
        total: int = run_job(place.engine, job, watched).partial
    return total


def report(
    result: FitResult | CertifyResult | AuditResult | Audited,
    path: str | os.PathLike[str],
    *,
    audit: AuditResult | Audited | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a result as one self-contained HTML page.

    Parameters
    ----------
    result
        What `fit`, `certify` or `audit` returned, or `read_result` or `read_audit` read.
    path
        The file to write, a path or URL; it appears whole or not at all.
    audit
        An audit of the same data with the same halfspace, for a section of its own.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    """
    result = result.result if isinstance(result, Audited) else result
    audit = audit.result if isinstance(audit, Audited) else audit
    if os.path.exists(result.data.source):
        refuse_harm(result.data.source, {"path": path})
    if audit is not None and audit.data.fingerprint != result.data.fingerprint:
        raise UsageError(
            "audit: it is of other data than the result (their fingerprints differ); give the "
            "audit of the same store"
        )
    if audit is not None and audit.halfspace != result.halfspace:
        raise UsageError(
            "audit: it is of another halfspace than the result's; give the audit made with this "
            "result (--model)"
        )
    page = render_audit(result) if isinstance(result, AuditResult) else render_report(result, audit)
    write_text_to(path, page, storage_options=storage_options)


def diagnostics(result: FitResult) -> xr.Dataset:
    """What the testers of a fit measured: the Dataset that is also `result.diagnostics`."""
    return result.diagnostics
