"""The functions users call: thin, keyword-only after the data, each returns a record."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from streamhalf.algorithms.planner import make_plan, plan_for_rows, refuse_strict
from streamhalf.algorithms.tester_learner import (
    certify_classifier,
    certify_fit,
    learn,
    no_answer,
)
from streamhalf.algorithms.verification import Verification
from streamhalf.config import RunConfig, check_names
from streamhalf.data.block import RowRange
from streamhalf.data.inspection import StoreReport, inspect_store
from streamhalf.data.opening import DataLike, open_features, open_source
from streamhalf.data.predictions import (
    create_predictions,
    finish_predictions,
    write_predictions,
)
from streamhalf.data.source import Source
from streamhalf.data.stores import Target
from streamhalf.data.synthetic import SyntheticSpec, plant
from streamhalf.data.synthetic_store import (
    DEFAULT_CHUNK_ROWS,
    create_store,
    finish_store,
    write_rows,
)
from streamhalf.data.whitening import Whitening
from streamhalf.engine import (
    Counted,
    Engine,
    Job,
    lazy_pass,
    open_engine,
    plan_pass,
    run_job,
)
from streamhalf.engine.checkpoint import Checkpoint
from streamhalf.engine.cluster import ClusterEngine
from streamhalf.engine.run import Run
from streamhalf.errors import UsageError
from streamhalf.events import (
    Observer,
    RunEnded,
    RunStarted,
    TesterJudged,
    ignore,
)
from streamhalf.files import write_text
from streamhalf.folders import Folder
from streamhalf.records import (
    CertifyResult,
    DataRecord,
    FitResult,
    Halfspace,
    MomentTestResult,
    PlanRecord,
    Verdict,
    VerifyResult,
    Versions,
    overall_outcome,
    seal,
)
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.covariance import Covariance
from streamhalf.report.diagnostics import to_dataset
from streamhalf.report.html import render_report
from streamhalf.testers.moments import MomentTester

if TYPE_CHECKING:
    import xarray as xr
    from dask.delayed import Delayed
    from distributed import Client


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
        Anything `open_source` takes: a path or URL of a Zarr store, arrays, a Dataset.
    client
        A `distributed` client to run on, instead of the `scheduler` parameter.
    storage_options
        For URLs.
    observer
        Called with every event of the run.
    **parameters
        Fields of `RunConfig`.
    """
    config = make_config(parameters)
    source = _open(data, config, storage_options)
    tester = MomentTester(
        degree=config.degree,
        moment_tolerance=config.moment_tolerance,
        spectral_tolerance=config.spectral_tolerance,
        tau=config.tau,
    )
    started = _start("test", source, observer)
    with open_run(config, client, observer, started=started) as run:
        if config.whiten:
            source = _whiten(run, source)
        judgements = tester.judge(run.reduce("moments", source, tester.needs()))
        for judgement in judgements:
            run.observer(TesterJudged(judgement))
        verdict = Verdict(overall_outcome(judgements))
        run.observer(RunEnded(verdict))
    return MomentTestResult(
        verdict=verdict,
        tau=config.tau,
        seed=config.seed,
        whitened=config.whiten,
        testers=judgements,
        passes=tuple(run.passes),
        data=DataRecord(source.n_rows, source.dim, source.fingerprint, source.name),
        versions=Versions.current(),
        notices=source.notices,
    )


def fit(
    data: DataLike,
    *,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    observer: Observer = ignore,
    **parameters: Any,
) -> FitResult:
    """Learn a halfspace whose error is O(opt) + eps, or say why that cannot be trusted.

    Parameters
    ----------
    data
        Anything `open_source` takes: a path or URL of a Zarr store, arrays, a Dataset.
    client
        A `distributed` client to run on, instead of the `scheduler` parameter.
    storage_options
        For URLs.
    checkpoint
        Folder (path or URL) that takes the result of every pass.
    resume
        Go on from what the checkpoint folder holds, if it holds a run.
    observer
        Called with every event of the run.
    **parameters
        Fields of `RunConfig`.
    """
    config = make_config(parameters)
    source = _open(data, config, storage_options)
    if config.mode == "strict":
        raise refuse_strict(0.01 if config.eps == "auto" else float(config.eps), source.dim)
    budget = plan_for_rows(source.n_rows, source.dim, config)
    started = _start("fit", source, observer)
    if budget.required_rows > source.n_rows:
        result = no_answer(source, budget, config)
        observer(RunEnded(result.verdict))
    else:
        kept = _open_checkpoint(checkpoint, storage_options, source, config, resume=resume)
        with open_run(config, client, observer, kept, started) as run:
            seen = _whiten(run, source) if config.whiten else source
            result = certify_fit(run, source, config, learn(run, seen, budget, config))
            run.observer(RunEnded(result.verdict))
    return seal(result)


def certify(
    data: DataLike,
    *,
    weights: Any,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> CertifyResult:
    """Certify somebody's linear classifier: its error, and a bound L below which no halfspace gets.

    Parameters
    ----------
    data
        Anything `open_source` takes.
    weights
        A `Halfspace`, a vector, or a fitted linear model with `coef_` (and `intercept_`).
    client
        A `distributed` client to run on, instead of the `scheduler` parameter.
    storage_options
        For URLs.
    observer
        Called with every event of the run.
    **parameters
        Fields of `RunConfig`.
    """
    config = make_config(parameters)
    source = _open(data, config, storage_options)
    halfspace = as_halfspace(weights, source.dim)
    started = _start("certify", source, observer)
    with open_run(config, client, observer, started=started) as run:
        whitening = None
        if config.whiten:
            found = _whiten(run, source).schema.whitening
            whitening = found.record if found is not None else None
        result = certify_classifier(run, source, config, halfspace, whitening)
    return seal(result)


def verify(
    document: FitResult | CertifyResult,
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
        What `fit` or `certify` returned, or `read_result` read.
    data
        The data it speaks of, wherever they are now.
    block_rows
        Read in blocks of so many rows instead of stored chunks.
    client
        A `distributed` client to run on, instead of the `scheduler` parameter.
    storage_options
        For URLs.
    observer
        Called with every event of the run.
    **parameters
        Fields of `RunConfig`.
    """
    config = make_config(parameters)
    source = _open(data, config, storage_options)
    if block_rows is not None:
        source = source.reblocked(block_rows)
    started = _start("verify", source, observer)
    with open_run(config, client, observer, started=started) as run:
        return Verification(document, config).run(run, source)


def report(result: FitResult | CertifyResult, path: str | os.PathLike[str]) -> None:
    """Write a result as one self-contained HTML page.

    Parameters
    ----------
    result
        What `fit` or `certify` returned, or `read_result` read.
    path
        The file to write; it appears whole or not at all.
    """
    write_text(path, render_report(result))


def plan(
    *, dim: int, n_rows: int | None = None, row_nbytes: int | None = None, **parameters: Any
) -> PlanRecord:
    """Rows for an eps, or the smallest eps for a number of rows; nothing is read.

    Parameters
    ----------
    dim
        Features.
    n_rows
        Rows at hand; without it, `eps` must be given and the rows it needs are the answer.
    row_nbytes
        Bytes of a row; float32 features and a one-byte label by default.
    **parameters
        Fields of `RunConfig`.
    """
    config = make_config(parameters)
    return make_plan(dim=dim, n_rows=n_rows, row_nbytes=row_nbytes or 4 * dim + 1, config=config)


def lazy(
    data: DataLike,
    reduction: Reduction[Any, Any],
    *,
    storage_options: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Delayed:
    """A reduction over all rows as a Dask Delayed: compute several together, visualise, persist."""
    config = make_config(parameters)
    source = _open(data, config, storage_options)
    return lazy_pass(plan_pass(reduction.name, source, reduction, split_every=config.split_every))


def inspect(
    store: str | os.PathLike[str],
    *,
    features: str = "X",
    labels: str = "y",
    storage_options: Mapping[str, Any] | None = None,
) -> StoreReport:
    """Say what is in a store, whether it is whole, and what would serve better."""
    return inspect_store(
        os.fspath(store), features=features, labels=labels, storage_options=storage_options
    )


def synth(
    store: str | os.PathLike[str],
    *,
    chunk_rows: int = DEFAULT_CHUNK_ROWS,
    overwrite: bool = False,
    client: Client | None = None,
    scheduler: str = "threads",
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
        Rows in a stored chunk.
    overwrite
        Replace a store that exists.
    client, scheduler, n_workers
        Where to run.
    storage_options
        For URLs.
    observer
        Called with every event.
    **spec
        Fields of `SyntheticSpec`: rows, dim, marginal, noise, rate, seed, planted, dtype.
    """
    check_names(spec, SyntheticSpec.__slots__, "synth")
    request = SyntheticSpec(**spec)
    target = Target(os.fspath(store), storage_options)
    with open_engine(client or scheduler, n_workers) as engine:
        planted = plant(request)
        chunks = create_store(target, request, chunk_rows=chunk_rows, overwrite=overwrite)
        started = RunStarted("synth", target.name, request.rows, request.dim)
        observer(started)
        write = partial(write_rows, target, request, planted)
        with _mirrored(engine, observer, started) as watched:
            n_flipped = _write_all(engine, "synth", chunks, write, watched)
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
    client: Client | None = None,
    scheduler: str = "threads",
    n_workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
) -> int:
    """Write the predictions of a fitted halfspace to a new store; returns how many are +1.

    Parameters
    ----------
    store
        Path or URL of a Zarr store; only its features are read.
    model
        What `fit` returned, or a halfspace.
    out
        Path or URL of the new store; array "prediction" holds -1 and +1.
    force
        Predict with the halfspace of a run that was not accepted.
    overwrite
        Replace a store that exists.
    features
        Name of the array of features.
    client, scheduler, n_workers
        Where to run.
    storage_options
        For URLs, both of them.
    observer
        Called with every event.
    """
    halfspace = model if isinstance(model, Halfspace) else _usable(model, force=force)
    target = Target(os.fspath(out), storage_options)
    source = open_features(store, features=features, storage_options=storage_options)
    create_predictions(target, source, halfspace, overwrite=overwrite)
    started = _start("predict", source, observer)
    with (
        open_engine(client or scheduler, n_workers) as engine,
        _mirrored(engine, observer, started) as watched,
    ):
        write = partial(write_predictions, target, source, halfspace)
        n_positive = _write_all(engine, "predict", source.blocks, write, watched)
    finish_predictions(target, source, n_positive)
    return n_positive


def diagnostics(result: FitResult) -> xr.Dataset:
    """What the testers of a fit measured, as a labelled Dataset: to plot, to store."""
    return to_dataset(result)


def as_halfspace(weights: Any, dim: int) -> Halfspace:
    """A halfspace from a vector, a fitted linear model, or a result of `fit`."""
    if isinstance(weights, FitResult):
        weights = weights.halfspace
    if isinstance(weights, Halfspace):
        normal, offset = np.array(weights.normal), weights.offset
    else:
        normal = np.asarray(getattr(weights, "coef_", weights), dtype=np.float64).squeeze()
        intercept = np.asarray(getattr(weights, "intercept_", 0.0), dtype=np.float64).squeeze()
        if intercept.ndim:
            raise UsageError("weights: more than one intercept; only two classes can be certified")
        offset = float(intercept)
    normal = np.atleast_1d(normal)
    if normal.shape != (dim,):
        raise UsageError(f"weights: shape {normal.shape}; the data have {dim} features")
    if not (np.isfinite(normal).all() and np.isfinite(offset) and np.any(normal)):
        raise UsageError("weights: must be finite and not all 0")
    return Halfspace(tuple(normal.tolist()), offset)


def _usable(model: FitResult, *, force: bool) -> Halfspace:
    if model.halfspace is None:
        raise UsageError(f"model: the run was {model.verdict} and has no halfspace; fit again")
    if model.verdict is not Verdict.ACCEPTED and not force:
        raise UsageError(
            f"model: the run was {model.verdict}, so its halfspace comes without a guarantee; "
            "use force (--force) to predict with it all the same"
        )
    return model.halfspace


def _write_all(
    engine: Engine,
    name: str,
    ranges: tuple[RowRange, ...],
    write: Callable[[RowRange], int],
    observer: Observer,
) -> int:
    """Write every range in parallel; returns the sum of what the writes count."""
    job = Job(
        name=name,
        context=write,
        items=ranges,
        rows=tuple(rows.n_rows for rows in ranges),
        leaf=_write_range,
        combine=_add,
    )
    total: int = run_job(engine, job, observer).partial
    return total


def _write_range(write: Callable[[RowRange], int], rows: RowRange) -> Counted:
    return Counted(rows.n_rows, write(rows))


def _add(write: Callable[[RowRange], int], left: int, right: int) -> int:
    return left + right


def make_config(parameters: Mapping[str, Any]) -> RunConfig:
    """Parameters by name, unknown ones refused with the nearest name."""
    check_names(parameters, RunConfig.names(), "configuration")
    return RunConfig(**parameters)


def _open(data: DataLike, config: RunConfig, storage_options: Mapping[str, Any] | None) -> Source:
    return open_source(
        data,
        features=config.features,
        labels=config.labels,
        storage_options=storage_options,
    )


def _start(command: str, source: Source, observer: Observer) -> RunStarted:
    started = RunStarted(command, source.name, source.n_rows, source.dim, source.notices)
    observer(started)
    return started


@contextmanager
def open_run(
    config: RunConfig,
    client: Client | None,
    observer: Observer,
    checkpoint: Checkpoint | None = None,
    started: RunStarted | None = None,
) -> Iterator[Run]:
    """A run on the client or the configured scheduler, closed at the end.

    On a cluster, the run's observer reaches the dashboard too; `started` is what it shows first.
    """
    with (
        open_engine(client or config.scheduler, config.n_workers) as engine,
        _mirrored(engine, observer, started) as watched,
    ):
        yield Run(engine, config.memory_limit, config.split_every, watched, checkpoint)


@contextmanager
def _mirrored(engine: Engine, observer: Observer, started: RunStarted | None) -> Iterator[Observer]:
    """The observer, joined on a cluster with one that feeds the scheduler's dashboard."""
    if not isinstance(engine, ClusterEngine):
        yield observer
        return
    from streamhalf.report.dashboard import mirrored  # imports distributed, which takes a second

    with mirrored(engine.client, observer, started) as watched:
        yield watched


def _open_checkpoint(
    url: str | os.PathLike[str] | None,
    storage_options: Mapping[str, Any] | None,
    source: Source,
    config: RunConfig,
    *,
    resume: bool,
) -> Checkpoint | None:
    if url is None:
        if resume:
            raise UsageError("resume: needs the checkpoint folder to resume from (--checkpoint)")
        return None
    where_it_runs = {"scheduler", "n_workers"}
    identity = {
        "data fingerprint": source.fingerprint,
        "rows of data": source.n_rows,
        "blocks of data": len(source.blocks),
        "version": Versions.current().streamhalf,
    } | {name: getattr(config, name) for name in RunConfig.names() if name not in where_it_runs}
    return Checkpoint(Folder(os.fspath(url), storage_options), identity, resume=resume)


def _whiten(run: Run, source: Source) -> Source:
    estimate = run.reduce("whitening", source, Covariance())
    return source.whitened(Whitening.from_moments(estimate.mean, estimate.covariance))
