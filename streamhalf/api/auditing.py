"""`audit`: which labels a halfspace gets wrong, furthest first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from streamhalf.api._session import execute, open_data, takes_data
from streamhalf.api.predicting import usable_halfspace
from streamhalf.api.weights import as_halfspace
from streamhalf.config import SETTINGS, TOP, RunConfig
from streamhalf.data.opening import DataLike
from streamhalf.data.row_files import check_file
from streamhalf.engine.run import Run
from streamhalf.events import Observer, ignore
from streamhalf.label_issues.audit import (
    Audit,
    Audited,
    AuditRequest,
    check_probabilities,
    held_by_audit,
)
from streamhalf.label_issues.reviews import judge_reviews, read_reviews
from streamhalf.paths import path_of, refuse_harm
from streamhalf.redact import public_name
from streamhalf.results import FitResult, ReviewRecord
from streamhalf.results import replace as replace_record

if TYPE_CHECKING:
    from distributed import Client


@takes_data
def audit(
    data: DataLike,
    *,
    model: Any,
    out: str | os.PathLike[str] | None = None,
    top: int | None = TOP,
    misclassified: bool = False,
    probabilities: ArrayLike | None = None,
    review: int = 0,
    proofs: int = 0,
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
        Probabilities of label +1 by another model, one for each row: rows are ranked by both.
    review
        Draw so many rows for a person to review instead, into `out` (.csv); see `read_review`.
    proofs
        Find up to so many sets of rows that no halfspace gets right: `conflicts` of the result.
    overwrite
        Replace what `out` names.
    client, storage_options, observer, **parameters
        As of `test`.
    """
    request = AuditRequest(top=top, misclassified=misclassified, review=review, proofs=proofs)
    if out is not None:
        check_file(out, overwrite=overwrite)
        if (place := path_of(data)) is not None:
            refuse_harm(place, {"out": out}, replaces=True)
    request.check(out)
    source, config = open_data(data, parameters, storage_options, model=model)
    halfspace = as_halfspace(model, source.dim, columns=source.schema.columns, field="model")
    fitted = model if isinstance(model, FitResult) and usable_halfspace(model) else None
    other = None if probabilities is None else check_probabilities(probabilities, source.n_rows)

    def work(run: Run, _: RunConfig) -> Audited:
        found = Audit(run, source, halfspace, request, fitted, other)
        return found.write(out, storage_options=storage_options, overwrite=overwrite)

    held = held_by_audit(request, source.n_rows, config.split_every)
    found = execute("audit", source, config, work, client, observer, held=held)
    place = "" if out is None else public_name(os.fspath(out))
    return replace(found, result=replace_record(found.result, out=place))


def judge_review(
    path: str | os.PathLike[str], *, tau: float = SETTINGS["tau"].default
) -> ReviewRecord:
    """Count wrong labels from a reviewed file.

    Parameters
    ----------
    path
        The file that `audit` wrote with `review`, its column `wrong` filled: yes, no or ?.
    tau
        Probability that an interval does not hold, for all of them together.
    """
    return judge_reviews(*read_reviews(path), tau)
