"""The functions users call: thin, keyword-only after the data, each returns a record."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamhalf.algorithms.planner import PlanRecord, make_plan, plan_for_rows, refuse_strict
from streamhalf.algorithms.tester_learner import learn, no_answer
from streamhalf.config import RunConfig
from streamhalf.data.block import RowRange
from streamhalf.data.inspection import StoreReport, inspect_store
from streamhalf.data.opening import DataLike, open_source, public_name
from streamhalf.data.source import Source
from streamhalf.data.synthetic import (
    DEFAULT_CHUNK_ROWS,
    Planted,
    SyntheticSpec,
    create_store,
    finish_store,
    plant,
    write_rows,
)
from streamhalf.data.whitening import Whitening
from streamhalf.engine import Counted, Job, lazy_pass, open_engine, plan_pass
from streamhalf.engine.run import Run
from streamhalf.errors import UsageError
from streamhalf.events import (
    Observer,
    PassProgress,
    PassStarted,
    RunEnded,
    RunStarted,
    TesterJudged,
    ignore,
)
from streamhalf.records import (
    DataRecord,
    FitResult,
    MomentTestResult,
    Verdict,
    Versions,
    overall_outcome,
)
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.covariance import Covariance
from streamhalf.testers.moments import MomentTester

if TYPE_CHECKING:
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
    observer(RunStarted("test", source.name, source.n_rows, source.dim, source.notices))
    with _open_run(config, client, observer) as run:
        if config.whiten:
            source = _whiten(run, source)
        judgements = tester.judge(run.reduce("moments", source, tester.needs()))
    for judgement in judgements:
        observer(TesterJudged(judgement))
    verdict = Verdict(overall_outcome(judgements))
    observer(RunEnded(verdict))
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
    observer(RunStarted("fit", source.name, source.n_rows, source.dim, source.notices))
    if budget.required_rows > source.n_rows:
        result = no_answer(source, budget, config)
    else:
        with _open_run(config, client, observer) as run:
            if config.whiten:
                source = _whiten(run, source)
            result = learn(run, source, budget, config)
    observer(RunEnded(result.verdict))
    return result


def plan(
    *, dim: int, rows: int | None = None, row_nbytes: int | None = None, **parameters: Any
) -> PlanRecord:
    """Rows for an eps, or the smallest eps for a number of rows; nothing is read.

    Parameters
    ----------
    dim
        Features.
    rows
        Rows at hand; without it, `eps` must be given and the rows it needs are the answer.
    row_nbytes
        Bytes of a row; float32 features and a one-byte label by default.
    **parameters
        Fields of `RunConfig`.
    """
    config = make_config(parameters)
    return make_plan(dim=dim, rows=rows, row_nbytes=row_nbytes or 4 * dim + 1, config=config)


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
    _check_names(spec, SyntheticSpec.__slots__, "synth")
    request = SyntheticSpec(**spec)
    url = os.fspath(store)
    with open_engine(client or scheduler, n_workers) as engine:
        planted = plant(request)
        chunks = create_store(
            url,
            request,
            chunk_rows=chunk_rows,
            storage_options=storage_options,
            overwrite=overwrite,
        )
        observer(RunStarted("synth", public_name(url), request.rows, request.dim))
        observer(PassStarted("write", request.rows, len(chunks)))
        done = 0

        def on_progress(rows: int) -> None:
            nonlocal done
            done += rows
            observer(PassProgress("write", done, request.rows))

        job = Job(
            name="synth",
            context=_WriteContext(url, request, planted, storage_options),
            items=chunks,
            rows=tuple(chunk.n_rows for chunk in chunks),
            leaf=_write_chunk,
            combine=_add,
        )
        n_flipped = engine.run(job, on_progress).partial
    finish_store(url, request, planted, n_flipped, storage_options=storage_options)
    error: float = n_flipped / request.rows
    return error


@dataclass(frozen=True, slots=True, eq=False)
class _WriteContext:
    url: str
    spec: SyntheticSpec
    planted: Planted
    storage_options: Mapping[str, Any] | None


def _write_chunk(context: _WriteContext, rows: RowRange) -> Counted:
    flipped = write_rows(
        context.url,
        context.spec,
        context.planted,
        rows,
        storage_options=context.storage_options,
    )
    return Counted(rows.n_rows, flipped)


def _add(context: _WriteContext, left: int, right: int) -> int:
    return left + right


def make_config(parameters: Mapping[str, Any]) -> RunConfig:
    """Parameters by name, unknown ones refused with the nearest name."""
    _check_names(parameters, RunConfig.names(), "configuration")
    return RunConfig(**parameters)


def _check_names(given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise UsageError(f"{where}: unknown parameter {name!r}; {hint}")


def _open(data: DataLike, config: RunConfig, storage_options: Mapping[str, Any] | None) -> Source:
    return open_source(
        data,
        features=config.features,
        labels=config.labels,
        storage_options=storage_options,
    )


@contextmanager
def _open_run(config: RunConfig, client: Client | None, observer: Observer) -> Iterator[Run]:
    with open_engine(client or config.scheduler, config.n_workers) as engine:
        yield Run(engine, config.memory_limit, config.split_every, observer)


def _whiten(run: Run, source: Source) -> Source:
    estimate = run.reduce("whitening", source, Covariance())
    return source.whitened(Whitening.from_moments(estimate.mean, estimate.covariance))
