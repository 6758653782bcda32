"""The functions users call: open, call, return; keyword-only after the data."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from numpy.typing import ArrayLike

from streamhalf._lazy import lazy as lazy
from streamhalf._models import as_halfspace, check_columns, like_fitted, usable_halfspace, warn_unverified
from streamhalf._session import (
    SEED_DRAWN,
    RunHandle,
    check_grown,
    columns_like,
    execute,
    load_state,
    make_config,
    new_state,
    open_checkpoint,
    open_data,
    protect,
    takes_data,
    update_settings,
    who,
    write_all,
)
from streamhalf.algorithms import driver, plan_overview
from streamhalf.algorithms.plan import plan_for_rows
from streamhalf.algorithms.plan_overview import held_by_fit
from streamhalf.certificate.certification import held_by_certificate
from streamhalf.certificate.verify import Verification, check_document
from streamhalf.config import SETTINGS, TOLERANCE, TOP, RunConfig, check_names
from streamhalf.data import row_files
from streamhalf.data.inspection import inspect as inspect
from streamhalf.data.kinds import is_frame, is_table_path
from streamhalf.data.opening import DataLike, open_source
from streamhalf.data.row_files import check_file
from streamhalf.data.source import Source
from streamhalf.data.zarr_groups import Target
from streamhalf.engine.run import Run
from streamhalf.errors import DataError, UsageError
from streamhalf.events import Observer, RunStarted, ignore
from streamhalf.paths import Folder, absolute, refuse_harm, write_text_to
from streamhalf.redact import public_name
from streamhalf.reductions.rows import RowSample
from streamhalf.results import (
    AuditResult,
    CertifyResult,
    ConflictSets,
    DryRunResult,
    EncodingRecord,
    FitResult,
    Halfspace,
    MomentTestResult,
    Notice,
    NoticeCode,
    PlanRecord,
    ReviewRecord,
    StrictPlanRecord,
    VerifyResult,
    WatchResult,
    is_as_written,
    replace,
)

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from distributed import Client

    from streamhalf.label_issues.audit import Audited

_DRAWN_NBYTES = 8  # Features are drawn in double precision, whatever is stored


@takes_data
def test(
    data: DataLike,
    *,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> MomentTestResult:
    """Test whether the features look like N(0, I) up to moments of degree k.

    Parameters
    ----------
    data
        Anything `open_source` takes: a path or URL of a Zarr store, arrays, a Dataset. Labels are
        not judged and need not be there: features alone will do.
    client
        A `distributed` client to run on, instead of the `scheduler` parameter.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    observer
        Called with every event of the run.
    **parameters
        Fields of `RunConfig`.
    """
    source, config = open_data(data, parameters, storage_options, needs_labels=False)
    held = plan_overview.held_by_learning(plan_for_rows(source.n_rows, source.dim, config), config, learns=False)
    return execute("test", source, config, lambda run: driver.test(run, source, config), client, observer, held=held)


@overload
def fit(data: DataLike, *, wait: Literal[False], **parameters: Any) -> RunHandle[FitResult]: ...
@overload
def fit(data: DataLike, *, wait: Literal[True] = True, **parameters: Any) -> FitResult: ...
@takes_data
def fit(
    data: DataLike,
    *,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    state: str | os.PathLike[str] | None = None,
    wait: bool = True,
    observer: Observer = ignore,
    **parameters: Any,
) -> FitResult | RunHandle[FitResult]:
    """Learn a halfspace; say how good it is, how good any could be, and what is promised.

    Parameters
    ----------
    data
        Anything `open_source` takes; or an iterator over batches, pairs (X, y) or data frames, each
        of which is seen once and not kept (see `StreamLearner`).
    checkpoint
        Folder (path or URL) that takes the result of every pass.
    resume
        Go on from what the checkpoint folder holds, if it holds a run.
    state
        Folder (path or URL) that takes what `update` adds further rows to. Such a run is the first
        of many looks that share tau.
    wait
        False for a handle instead of the result: `await` it, or see its `done()`, `result()`,
        `cancel()` and `progress`.
    client, storage_options, observer, **parameters
        As of `test`.
    """

    def run(observer: Observer) -> FitResult:
        if isinstance(data, Iterator) and not hasattr(data, "__arrow_c_stream__"):
            given = {"client": client, "checkpoint": checkpoint, "resume": resume or None, "state": state}
            if refused := [name for name, value in given.items() if value is not None]:
                raise UsageError(f"{refused[0]}: not for batches; StreamLearner has save and load")
            from streamhalf.stream import learn_batches

            return learn_batches(data, **parameters)
        protect(data, checkpoint=checkpoint, state=state)
        source, config = open_data(data, parameters, storage_options)
        folder = new_state(state, storage_options, config)
        kept = open_checkpoint(checkpoint, storage_options, source, config, resume=resume)
        resumed = []
        if kept is not None:  # what is saved outlives the run: no rows in it whose checks are due
            source = source.checked_at_once()
            seed, drawn = kept.identity["seed"], kept.identity[SEED_DRAWN]
            config = dataclasses.replace(config, seed=seed, seed_drawn=drawn)
            if resume:
                resumed.append(Notice.of(NoticeCode.RESUMED, place=kept.folder.name, passes=len(kept.passes)))
        work = partial(
            driver.fit, source=source, config=config, keep=None if folder is None else lambda kept: kept.save(folder)
        )
        planned = plan_overview.planned_rows(source.n_rows, source.dim, config)
        held = held_by_fit(source, config)
        return execute("fit", source, config, work, client, observer, kept, *resumed, rows_planned=planned, held=held)

    return run(observer) if wait else RunHandle(run, observer)


def update(
    result: FitResult,
    data: DataLike,
    *,
    state: str | os.PathLike[str],
    check_old: bool = False,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> FitResult:
    """Bring a result up to date with data that grew: read the new rows alone, conclude for all.

    The halfspace stays; error, bounds, tests, L and verdict are those of all rows. The bounds of
    all looks hold together with the confidence of the fit.

    Parameters
    ----------
    result
        What `fit` returned, or the last update.
    data
        The data it speaks of, with further rows behind the old ones. Without any, the result is
        returned as it is.
    state
        Folder that `fit` wrote, with the statistics of the old rows; those of the new ones are
        added to it.
    check_old
        Read the old rows too, and refuse them if one of them changed. Otherwise 256 of them are
        looked at.
    client, storage_options, observer
        As of `test`.
    **parameters
        Where it runs, and names of arrays and columns; all else is as the fit had it.
    """
    if not isinstance(result, FitResult):
        raise UsageError(f"result: {type(result).__name__} given; expected what fit returned, or read_result(path)")
    protect(data, state=state)
    folder = Folder(os.fspath(state), storage_options)
    kept = load_state(folder, result)
    source, config = open_data(data, update_settings(kept, parameters), storage_options, model=result)
    check_grown(kept, source)
    if source.n_rows == kept.n_rows and not check_old:
        return result

    config = dataclasses.replace(config, tau=kept.next_look(source.n_rows, 0).tau)

    def work(run: Run) -> FitResult:
        found = driver.update(run, source, kept, config, check_old=check_old)
        found.save(folder)
        return found.result

    return execute("update", source, config, work, client, observer, held=held_by_fit(source, config))


@takes_data
def certify(
    data: DataLike,
    *,
    weights: Any,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> CertifyResult:
    """Certify a linear classifier: its error, and a bound L that no halfspace can beat.

    Parameters
    ----------
    data
        Anything `open_source` takes.
    weights
        A `Halfspace`, a vector, or a fitted linear model with `coef_` (and `intercept_`).
    client, storage_options, observer, **parameters
        As of `test`.
    """
    source, config = open_data(data, parameters, storage_options, model=weights)
    halfspace = as_halfspace(weights, source.dim, columns=source.schema.columns)
    held = held_by_certificate(config, source.dim)
    work = partial(driver.certify, source=source, config=config, halfspace=halfspace)
    return execute("certify", source, config, work, client, observer, held=held)


def verify(
    document: FitResult | CertifyResult | ConflictSets,
    data: DataLike,
    *,
    block_rows: int | None = None,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> VerifyResult:
    """Recompute the claims of a result from the data in one pass, and say which hold.

    Parameters
    ----------
    document
        What `fit` or `certify` returned, or `read_result` read; or sets in conflict of `audit`.
    data
        The data it speaks of, wherever they are now.
    block_rows
        Read in blocks of so many rows instead of stored chunks.
    client, storage_options, observer, **parameters
        As of `test`.
    """
    if isinstance(document, ConflictSets):
        source, config = open_data(data, parameters, storage_options)
        return execute("verify", source, config, partial(_verify_sets, document, source), client, observer)
    if (changed := check_document(document)) is not None:
        return changed
    source, config = open_data(data, parameters, storage_options, model=document)
    if block_rows is not None:
        source = source.reblocked(block_rows)
    work = partial(Verification(document, config).run, source=source)
    return execute("verify", source, config, work, client, observer)


def _verify_sets(sets: ConflictSets, source: Source, run: Run) -> VerifyResult:
    from streamhalf.label_issues.proofs import check_sets, rows_of

    rows = rows_of(sets, source.n_rows)
    some: Any = run.reduce("proofs", source, RowSample(max(1, rows.n_rows), 0, 0), blocks=rows)
    return VerifyResult(check_sets(sets, some.block), tuple(run.passes))


def plan(
    data: DataLike | None = None,
    *,
    dim: int | None = None,
    n_rows: int | None = None,
    row_nbytes: int | None = None,
    positive: float | None = None,
    strict: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> PlanRecord | StrictPlanRecord:
    """Return the rows for an eps, or the smallest eps for a number of rows; no row is read.

    Parameters
    ----------
    data
        Data that are there, for a plan with their rows, features, tasks and the certificate.
    dim
        Features, where there are no data yet.
    n_rows
        Rows at hand; without it, `eps` must be given and the rows it needs are the answer.
    row_nbytes
        Bytes of a row; float32 features and a one-byte label by default.
    positive
        Share of the rows with label +1: the fewer rows one label has, the fewer are near the
        boundary. Without it, half of them.
    strict
        Return the paper's own degree, monomials and rows instead, which no data set can meet.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    **parameters
        Fields of `RunConfig`; a number for `rows` is taken as `n_rows`.
    """
    rows = parameters.get("rows")
    if isinstance(rows, Integral):
        if n_rows is not None:
            raise UsageError(f"rows, n_rows: {rows} and {n_rows} given; give the rows once")
        n_rows = int(parameters.pop("rows"))
    if data is not None:
        given = {"dim": dim, "rows": n_rows, "row_nbytes": row_nbytes}
        for name, value in given.items():
            if value is not None:
                raise UsageError(f"{name}: {value} given beside data, which say it themselves")
        source, config = open_data(
            data, parameters, storage_options, needs_labels=is_table_path(data) or is_frame(data)
        )
        if strict:
            return plan_overview.strict_plan(config, source.dim)
        return plan_overview.plan_of(source, config, positive)
    if dim is None:
        raise UsageError("dim: not given; give the number of features, or a store")
    config = make_config(parameters)
    if strict:
        return plan_overview.strict_plan(config, dim)
    nbytes = row_nbytes or 4 * dim + 1
    return plan_overview.make_plan(dim=dim, n_rows=n_rows, row_nbytes=nbytes, config=config, positive=positive)


def dry_run(
    data: DataLike,
    *,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    observer: Observer = ignore,
    **parameters: Any,
) -> DryRunResult:
    """Do all that comes before a fit, and say what the fit would take; nothing is written.

    Every worker is asked for its versions and its memory, and reads one block of rows, with the
    credentials that it has.

    Parameters
    ----------
    data, client, storage_options, checkpoint, resume, observer, **parameters
        As of `fit`.
    """
    protect(data, checkpoint=checkpoint)
    source, config = open_data(data, parameters, storage_options)
    open_checkpoint(checkpoint, storage_options, source, config, resume=resume)
    work = partial(plan_overview.dry_run_of, source=source, config=config)
    return execute("dry run", source, config, work, client, observer, held=held_by_fit(source, config))


@takes_data
def audit(
    data: DataLike,
    *,
    model: Any,
    out: str | os.PathLike[str] | None = None,
    top: int | None = TOP,
    misclassified: bool = False,
    probabilities: ArrayLike | str | os.PathLike[str] | None = None,
    review: int = 0,
    proofs: int = 0,
    reviewed: str | os.PathLike[str] | None = None,
    keep: Sequence[str] = (),
    overwrite: bool = False,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> Audited:
    """List the rows whose labels look wrong, the surest first.

    Parameters
    ----------
    data
        Anything `open_source` takes.
    model
        What `fit` returned, which also says which rows every halfspace within the tested angle
        gets wrong; or any linear classifier: a `Halfspace`, a vector, a fitted model with `coef_`
        (and `intercept_`).
    out
        File for the rows: its ending, .zarr, .parquet or .csv, says which kind.
    top
        How many to list, the surest first; None: all of them, in the order of the rows.
    misclassified
        List every row that the model gets wrong, not label issues alone.
    probabilities
        Probabilities of label +1 by another model, one for each row (or what `predict_proba` returned): rows are
        ranked by both. An array, or FILE or FILE:COLUMN, where FILE ends in .npy, .zarr, .csv or .parquet.
    review
        Draw so many rows for a person to review instead, into `out` (.csv); see `judge_review`.
    proofs
        Find up to so many sets of rows that no halfspace gets right: `conflicts` of the result.
    reviewed
        A reviewed file of these data: the result says how many labels are wrong.
    keep
        Columns of the data (arrays of a store with one value a row) to show beside the rows, such
        as an id.
    overwrite
        Replace what `out` names.
    client, storage_options, observer, **parameters
        As of `test`.
    """
    from streamhalf.data.probabilities import open_probabilities
    from streamhalf.label_issues.audit import Audit, AuditRequest, held_by_audit
    from streamhalf.label_issues.reviews import judge_reviews, read_reviews

    request = AuditRequest(top=top, misclassified=misclassified, review=review, proofs=proofs, keep=_names(keep))
    if out is not None:
        check_file(out, overwrite=overwrite)
        protect(data, replaces=True, out=out)
    request.check(out)
    source, config = open_data(data, parameters, storage_options, model=model)
    source.check_kept(request.keep)
    record = None if reviewed is None else judge_reviews(*read_reviews(reviewed, source.n_rows), config.tau)
    halfspace = as_halfspace(model, source.dim, columns=source.schema.columns, field="model")
    fitted = model if isinstance(model, FitResult) and usable_halfspace(model) else None
    other = None
    if probabilities is not None:
        other = open_probabilities(
            probabilities, source.n_rows, dropped=source.dropped, storage_options=storage_options
        )

    def work(run: Run) -> Audited:
        found = Audit(run, source, halfspace, request, fitted, other)
        return found.write(out, storage_options=storage_options, overwrite=overwrite)

    held = held_by_audit(request, source.n_rows, config.split_every)
    found = execute("audit", source, config, work, client, observer, held=held)
    place = "" if out is None else public_name(os.fspath(out))
    return dataclasses.replace(found, result=replace(found.result, out=place, review=record))


def audit_classes(
    data: DataLike,
    *,
    models: Sequence[FitResult],
    out: str | os.PathLike[str] | None = None,
    top: int | None = TOP,
    keep: Sequence[str] = (),
    overwrite: bool = False,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> pd.DataFrame:
    """List the rows whose labels look wrong among more than two classes, the surest first.

    Parameters
    ----------
    data
        Anything `open_source` takes.
    models
        What `fit` returned for each class against the rest (`positive`).
    out
        File for the list, .csv or .parquet.
    top, keep, overwrite, client, storage_options, observer, **parameters
        As of `audit`.
    """
    from streamhalf.label_issues.audit import check_classes, class_of, join_classes

    if not models or not all(isinstance(one, FitResult) for one in models):
        raise UsageError("models: give what fit returned for each class")
    classes = [class_of(one) for one in models]
    if out is not None and check_file(out, overwrite=overwrite) == ".zarr":
        raise UsageError("out: the list of several classes goes to .csv or .parquet")
    source, config = open_data(data, {**parameters, "positive": str(classes[0])}, storage_options, model=models[0])
    source.check_kept(_names(keep))
    check_classes(classes, source, config.labels)
    limit, tables = TOP if top is None else top, {}
    where: dict[str, Any] = {"client": client, "storage_options": storage_options, "observer": observer}
    for one, model in zip(classes, models, strict=True):
        found = audit(data, model=model, top=limit, positive=str(one), **where, **parameters)
        assert found.suspects is not None
        tables[one] = found.suspects
    joined = join_classes(tables, source, config.labels, _names(keep), top)
    if out is not None:
        with row_files.renamed(Path(out).resolve()) as temporary:
            if str(temporary).endswith(".csv"):
                joined.to_csv(temporary, index=False)
            else:
                joined.to_parquet(temporary, index=False)
    return joined


def watch(
    result: FitResult,
    data: DataLike,
    *,
    state: str | os.PathLike[str] | None = None,
    tolerance: float = TOLERANCE,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> WatchResult:
    """Say whether new rows still look like those behind a result: steady, drifted or inconclusive.

    Parameters
    ----------
    result
        What `fit` returned, or `read_result` read.
    data
        New rows: anything `open_source` takes. Tables are encoded as those of the fit; labels need not be there.
    state
        Folder (path or URL) of the looks so far: chances of false alarms are shared over all of them, and views show
        how rows moved. Without it, this is the only look.
    tolerance
        Share of rows that a change may concern without being drift; means of features may move by 2.5 times as many
        standard deviations.
    client, storage_options, observer, **parameters
        As of `test`; `tau` is the chance of any false alarm over all looks.
    """
    if not isinstance(result, FitResult):
        raise UsageError(f"result: {type(result).__name__} given; expected what fit returned")
    if not 0 < tolerance < 1:
        raise UsageError(
            f"tolerance: {tolerance:g} given; must be a share of rows, between 0 and 1 (0.01 is one percent)"
        )
    usable_halfspace(result)
    from streamhalf.monitoring import look_at, reference_of

    reference_of(result)
    protect(data, state=state)
    source, config = open_data(data, parameters, storage_options, needs_labels=False, model=result)
    source = like_fitted(result, source)
    folder = None if state is None else Folder(os.fspath(state), storage_options)
    work = partial(look_at, source=source, result=result, folder=folder, tolerance=tolerance, tau=config.tau)
    return execute("watch", source, config, work, client, observer)


def _names(keep: Sequence[str]) -> tuple[str, ...]:
    return (keep,) if isinstance(keep, str) else tuple(keep)


def judge_review(path: str | os.PathLike[str], *, tau: float = SETTINGS["tau"].default) -> ReviewRecord:
    """Count wrong labels from a reviewed file.

    Parameters
    ----------
    path
        The file that `audit` wrote with `review`, its column `wrong` filled: yes, no or ?.
    tau
        Probability that an interval does not hold, for all of them together.
    """
    from streamhalf.label_issues.reviews import judge_reviews, read_reviews

    return judge_reviews(*read_reviews(path), tau)


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
    from streamhalf.synthetic.spec import SyntheticSpec, chunks_of, create_store, finish_store, plant, write_rows

    check_names(spec, SyntheticSpec.__slots__, "synth")
    for name in ("rows", "dim", "marginal", "noise"):
        if name not in spec:
            raise UsageError(f"{name}: not given; synth needs rows, dim, marginal and noise")
    request = SyntheticSpec(**spec)
    config, target = _where(scheduler, n_workers), Target(absolute(store), storage_options)
    planted = plant(request)
    create = partial(create_store, target, request, chunk_rows=chunk_rows, overwrite=overwrite)
    write = partial(write_rows, target, request, planted)
    started = RunStarted("synth", target.name, request.rows, request.dim, seed=request.seed, who=who())
    chunks, row_nbytes = chunks_of(request, chunk_rows), request.dim * _DRAWN_NBYTES
    n_flipped = write_all(started, config, client, observer, target, create, write, chunks, row_nbytes)
    finish_store(target, request, planted, n_flipped)
    return n_flipped / request.rows


def _where(scheduler: str | None, n_workers: int | None) -> RunConfig:
    given = {"scheduler": scheduler, "n_workers": n_workers}
    return make_config({name: value for name, value in given.items() if value is not None})


def predict(
    store: str | os.PathLike[str],
    *,
    model: FitResult | Halfspace,
    out: str | os.PathLike[str],
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
    overwrite
        Replace a store or file that exists.
    features
        Name of the array of features.
    keep
        Columns of a table (arrays of a store with one value a row) to write before the predictions,
        such as an id; for .csv and .parquet.
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
    classes: tuple[Any, ...] = ()
    if isinstance(model, FitResult):
        classes = model.data.classes
        warn_unverified(model, stacklevel=2)
    protect(store, replaces=True, out=out)
    tabular = is_table_path(out) and bool(check_file(out, overwrite=overwrite))
    keep = _names(keep)
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
    source.check_kept(keep)
    check_columns(model, source.schema.columns, field="model")
    config = _where(scheduler, n_workers)
    started = RunStarted("predict", source.name, source.n_rows, source.dim, who=who())

    def write_store(target: Target) -> int:
        create = partial(row_files.create_predictions, target, source, halfspace, overwrite=overwrite)
        write = partial(row_files.write_predictions, target, source, halfspace)
        n_positive = write_all(
            started, config, client, observer, target, create, write, source.blocks, source.row_nbytes, source
        )
        row_files.finish_predictions(target, source, n_positive, classes)
        return n_positive

    if not tabular:
        return write_store(Target(absolute(out), storage_options))
    with row_files.renamed(Path(out).resolve()) as file:
        target = Target(f"{file}.zarr")
        n_positive = write_store(target)
        row_files.write_prediction_table(target, file, source, classes, keep)
    return n_positive


def convert(
    data: DataLike,
    store: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> EncodingRecord:
    """Write the encoded rows of a table as a Zarr store; returns what became of the columns.

    A fit of the store is that of the table, and faster where it is repeated.

    Parameters
    ----------
    data
        A table: Parquet or CSV files, or a frame.
    store
        Path or URL of the new Zarr store.
    overwrite
        Replace a store that exists.
    client, storage_options, observer, **parameters
        As of `test`; the parameters name the label and say how columns are encoded.
    """
    source, config = open_data(data, parameters, storage_options)
    if source.encoding is None:
        raise UsageError("data: no table; convert takes Parquet or CSV files, or a frame")
    target = Target(absolute(store), storage_options)
    create = partial(row_files.create_converted, target, source, overwrite=overwrite)
    write = partial(row_files.write_converted, target, source)
    started = RunStarted("convert", source.name, source.n_rows, source.dim, who=who())
    chunks = row_files.chunks_for(source)
    write_all(started, config, client, observer, target, create, write, chunks, source.row_nbytes, source)
    row_files.finish_converted(target, source)
    return source.encoding


def report(
    result: FitResult | CertifyResult | AuditResult | Audited | WatchResult,
    path: str | os.PathLike[str],
    *,
    audit: AuditResult | Audited | None = None,
    watch: WatchResult | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a result as one self-contained HTML page.

    Parameters
    ----------
    result
        What `fit`, `certify`, `audit` or `watch` returned, or `read_result`, `read_audit` or `read_watch` read.
    path
        The file to write, a path or URL; it appears whole or not at all.
    audit
        An audit of the same data with the same halfspace, for a section of its own.
    watch
        The latest look at new rows beside this result, for a section of its own.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    """
    from streamhalf.label_issues.audit import Audited
    from streamhalf.report.audit import render_audit
    from streamhalf.report.html import render_report

    if isinstance(result, WatchResult):
        from streamhalf.report.watching import render_watch

        write_text_to(path, render_watch(result), storage_options=storage_options)
        return
    result = result.result if isinstance(result, Audited) else result
    if isinstance(result, FitResult | CertifyResult) and result.digest and not is_as_written(result):
        raise DataError("result: it was changed after it was written (its digest does not fit); make it again")
    audit = audit.result if isinstance(audit, Audited) else audit
    if os.path.exists(result.data.source):
        refuse_harm(result.data.source, {"path": path})
    if audit is not None and audit.data.fingerprint != result.data.fingerprint:
        raise UsageError(
            "audit: it is of other data than the result (their fingerprints differ); give the audit of the same store"
        )
    if audit is not None and audit.halfspace != result.halfspace:
        raise UsageError(
            "audit: it is of another halfspace than the result's; give the audit made with this result (--model)"
        )
    if watch is not None:
        from streamhalf.monitoring import halfspace_digest

        if not isinstance(result, FitResult) or watch.halfspace_digest != halfspace_digest(result):
            raise UsageError("watch: it is of rows beside another halfspace; give what watch found with this result")
    page = render_audit(result) if isinstance(result, AuditResult) else render_report(result, audit, watch)
    write_text_to(path, page, storage_options=storage_options)


def diagnostics(result: FitResult) -> xr.Dataset:
    """Return the measurements of a fit's testers: the Dataset that is also `result.diagnostics`."""
    return result.diagnostics
