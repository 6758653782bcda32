"""`test`, `fit`, `certify` and `verify`: what judges, learns and proves."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from streamhalf.algorithms import driver
from streamhalf.algorithms.plan import plan_for_rows
from streamhalf.algorithms.plan_overview import held_by_learning, planned_rows
from streamhalf.api._session import (
    SEED_DRAWN,
    draws_seed,
    execute,
    open_checkpoint,
    open_data,
    takes_data,
)
from streamhalf.api._warnings import warn_no_effect
from streamhalf.api.handles import RunHandle
from streamhalf.api.planning import held_by_fit
from streamhalf.api.weights import as_halfspace
from streamhalf.certificate.slab_choice import held_by_certificate
from streamhalf.certificate.verify import Verification, check_document
from streamhalf.config import RunConfig
from streamhalf.data.opening import DataLike
from streamhalf.engine.run import Run
from streamhalf.events import Observer, ignore
from streamhalf.paths import path_of, refuse_harm
from streamhalf.results import (
    CertifyResult,
    FitResult,
    MomentTestResult,
    Notice,
    NoticeCode,
    VerifyResult,
    replace,
    seal,
)

if TYPE_CHECKING:
    from distributed import Client


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

    def work(run: Run, config: RunConfig) -> MomentTestResult:
        return driver.test(run, source, config)

    plan = plan_for_rows(source.n_rows, source.dim, config)
    held = held_by_learning(plan, config, learns=False)
    result = execute("test", source, config, work, client, observer, held=held)
    return replace(result, seed_drawn=draws_seed(parameters))


@overload
def fit(
    data: DataLike,
    *,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    unverified: bool = False,
    wait: Literal[True] = True,
    observer: Observer = ignore,
    **parameters: Any,
) -> FitResult: ...
@overload
def fit(
    data: DataLike,
    *,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    unverified: bool = False,
    wait: Literal[False],
    observer: Observer = ignore,
    **parameters: Any,
) -> RunHandle[FitResult]: ...
@takes_data
def fit(
    data: DataLike,
    *,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    unverified: bool = False,
    wait: bool = True,
    observer: Observer = ignore,
    **parameters: Any,
) -> FitResult | RunHandle[FitResult]:
    """Learn a halfspace and say which error C opt + eps its tests support, or why none.

    Parameters
    ----------
    data
        Anything `open_source` takes.
    checkpoint
        Folder (path or URL) that takes the result of every pass.
    resume
        Go on from what the checkpoint folder holds, if it holds a run.
    unverified
        It has no effect any more: every run has a halfspace, whatever its verdict.
    wait
        False for a handle instead of the result: `await` it, or see its `done()`, `result()`,
        `cancel()` and `progress`.
    client, storage_options, observer, **parameters
        As of `test`.
    """
    if unverified:
        warn_no_effect("unverified", stacklevel=3)
    run = partial(
        _fit,
        data,
        parameters,
        client=client,
        storage_options=storage_options,
        checkpoint=checkpoint,
        resume=resume,
    )
    return run(observer) if wait else RunHandle(run, observer)


def _fit(
    data: DataLike,
    parameters: Mapping[str, Any],
    observer: Observer,
    *,
    client: Client | None,
    storage_options: Mapping[str, Any] | None,
    checkpoint: str | os.PathLike[str] | None,
    resume: bool,
) -> FitResult:
    if checkpoint is not None and (place := path_of(data)) is not None:
        refuse_harm(place, {"checkpoint": checkpoint})
    source, config = open_data(data, parameters, storage_options)
    seed_drawn = draws_seed(parameters)
    kept = open_checkpoint(
        checkpoint, storage_options, source, config, resume=resume, seed_drawn=seed_drawn
    )
    if kept is not None:  # what is saved outlives the run: no rows in it whose checks are to come
        source = source.checked_at_once()
        config = dataclasses.replace(config, seed=kept.identity["seed"])
        seed_drawn = kept.identity[SEED_DRAWN]
    resumed = []
    if kept is not None and resume:
        resumed.append(Notice.of(NoticeCode.RESUMED, place=kept.name, passes=kept.n_passes))

    def work(run: Run, config: RunConfig) -> FitResult:
        return driver.fit(run, source, config)

    result = execute(
        "fit",
        source,
        config,
        work,
        client,
        observer,
        kept,
        *resumed,
        rows_planned=planned_rows(source.n_rows, source.dim, config),
        held=held_by_fit(source, config),
    )
    return seal(replace(result, seed_drawn=seed_drawn))


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
    """Certify somebody's linear classifier: its error, and a bound L below which no halfspace gets.

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

    def work(run: Run, config: RunConfig) -> CertifyResult:
        return driver.certify(run, source, config, halfspace)

    held = held_by_certificate(config, source.dim)
    result = execute("certify", source, config, work, client, observer, held=held)
    return seal(replace(result, seed_drawn=draws_seed(parameters)))


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
    client, storage_options, observer, **parameters
        As of `test`.
    """
    if (changed := check_document(document)) is not None:
        return changed
    source, config = open_data(data, parameters, storage_options, model=document)
    if block_rows is not None:
        source = source.reblocked(block_rows)

    def work(run: Run, config: RunConfig) -> VerifyResult:
        return Verification(document, config).run(run, source)

    return execute("verify", source, config, work, client, observer)
