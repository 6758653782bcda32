"""`test`, `fit`, `certify`, `verify`, `plan` and `lazy`: what judges, learns and proves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

from streamhalf.algorithms.planner import make_plan, plan_for_rows, refuse_strict
from streamhalf.algorithms.tester_learner import (
    certify_classifier,
    certify_fit,
    learn,
    no_answer,
)
from streamhalf.algorithms.verification import Verification
from streamhalf.api.advising import advise_reuse, note_one_class
from streamhalf.api.running import (
    make_config,
    open_checkpoint,
    open_data,
    open_run,
    resume_notices,
    start,
    takes_data,
    whiten,
)
from streamhalf.api.weights import as_halfspace
from streamhalf.data.opening import DataLike
from streamhalf.engine import (
    lazy_pass,
    plan_pass,
)
from streamhalf.errors import DataError, UsageError
from streamhalf.events import (
    Observer,
    RunEnded,
    TesterJudged,
    ignore,
)
from streamhalf.places import place_of, refuse_harm
from streamhalf.records import (
    AS_WRITTEN,
    CertifyResult,
    Claim,
    DataRecord,
    FitResult,
    MomentTestResult,
    PlanRecord,
    Verdict,
    VerifyResult,
    Versions,
    document_digest,
    is_as_written,
    overall_outcome,
    seal,
)
from streamhalf.reductions.base import Reduction
from streamhalf.testers.moments import MomentTester

if TYPE_CHECKING:
    from dask.delayed import Delayed
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
    source = open_data(data, config, storage_options)
    tester = MomentTester(
        degree=config.degree,
        moment_tolerance=config.moment_tolerance,
        spectral_tolerance=config.spectral_tolerance,
        tau=config.tau,
    )
    started = start("test", source, observer)
    with open_run(config, client, observer, started=started) as run:
        if config.whiten:
            source = whiten(run, source)
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


@takes_data
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
    if checkpoint is not None and (place := place_of(data)) is not None:
        refuse_harm(place, {"checkpoint": checkpoint})
    source = open_data(data, config, storage_options)
    if config.mode == "strict":
        raise refuse_strict(0.01 if config.eps == "auto" else float(config.eps), source.dim)
    budget = plan_for_rows(source.n_rows, source.dim, config)
    enough = budget.required_rows <= source.n_rows
    kept = (
        open_checkpoint(checkpoint, storage_options, source, config, resume=resume)
        if enough
        else None
    )
    if kept is not None:  # what is saved outlives the run: no rows in it whose checks are to come
        source = source.checked_at_once()
    started = start("fit", source, observer, *resume_notices(kept, resume=resume))
    if not enough:
        result = advise_reuse(no_answer(source, budget, config), source, config)
        observer(RunEnded(result.verdict))
    else:
        with open_run(config, client, observer, kept, started) as run:
            seen = whiten(run, source) if config.whiten else source
            result = certify_fit(run, source, config, learn(run, seen, budget, config))
            result = note_one_class(run, source, result)
            run.check_parts(source)
            run.observer(RunEnded(result.verdict))
    return seal(result)


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
    source = open_data(data, config, storage_options)
    halfspace = as_halfspace(weights, source.dim)
    started = start("certify", source, observer)
    with open_run(config, client, observer, started=started) as run:
        whitening = None
        if config.whiten:
            found = whiten(run, source).schema.whitening
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
    if (changed := _check_document(document)) is not None:
        return changed
    config = make_config(parameters)
    source = open_data(data, config, storage_options)
    if block_rows is not None:
        source = source.reblocked(block_rows)
    started = start("verify", source, observer)
    with open_run(config, client, observer, started=started) as run:
        return Verification(document, config).run(run, source)


def _check_document(document: Any) -> VerifyResult | None:
    """Refuse what makes no claims that data could settle; one that was made so is found out."""
    if isinstance(document, str | os.PathLike):
        raise UsageError(
            "document: a path given; verify takes a result: verify(read_result(path), data)"
        )
    if not isinstance(document, FitResult | CertifyResult):
        raise UsageError(
            f"document: {type(document).__name__} given; expected what fit or certify returned"
        )
    if document.certificate is not None and document.halfspace is not None:
        return None
    if not is_as_written(document):
        again = document_digest(document)
        return VerifyResult((Claim(AS_WRITTEN, document.digest, again, False),))
    if document.certificate is None:  # so it is of a fit
        why = (
            "it was made without a certificate (certificate_degree 0)"
            if document.error is not None
            else "such a run makes no claim about a halfspace"
        )
        raise DataError(f"document: the run was {document.verdict}; {why}, so nothing to verify")
    return None


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
        Fields of `RunConfig`; a number for `rows` is taken as `n_rows`.
    """
    rows = parameters.get("rows")
    if isinstance(rows, Integral):
        if n_rows is not None:
            raise UsageError(f"rows, n_rows: {rows} and {n_rows} given; give the rows once")
        n_rows = int(parameters.pop("rows"))
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
    source = open_data(data, config, storage_options)
    return lazy_pass(plan_pass(reduction.name, source, reduction, split_every=config.split_every))
