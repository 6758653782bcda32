"""`audit`: which labels a halfspace gets wrong, furthest first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamhalf.api._session import execute, open_data, takes_data
from streamhalf.api.predicting import usable_halfspace
from streamhalf.api.weights import as_halfspace
from streamhalf.config import TOP, RunConfig
from streamhalf.data.opening import DataLike
from streamhalf.data.row_files import check_file
from streamhalf.data.suspects import SuspectTable, Writer, open_suspects
from streamhalf.engine.run import Run
from streamhalf.errors import UsageError
from streamhalf.events import Observer, ignore
from streamhalf.label_issues.scores import Audit, held_by_audit
from streamhalf.paths import path_of, refuse_harm
from streamhalf.redact import public_name
from streamhalf.results import AuditResult, FitResult, replace

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """What `audit` returns: the record of the audit, and the suspects that it lists.

    `suspects` is None where all of them went to a file.
    """

    result: AuditResult
    suspects: SuspectTable | None

    def to_frame(self) -> pd.DataFrame:
        """The suspects as a data frame, with cleanlab's names of columns where it has them."""
        if self.suspects is None:
            raise UsageError(
                f"suspects: all of them are in {self.result.out}; read that file, or give `top`"
            )
        return self.suspects.to_frame()

    def __repr__(self) -> str:
        return repr(self.result)

    def _repr_html_(self) -> str:
        from streamhalf.report.notebook import audit_html  # for notebooks alone

        return audit_html(self.result)


@takes_data
def audit(
    data: DataLike,
    *,
    model: Any,
    out: str | os.PathLike[str] | None = None,
    top: int | None = TOP,
    overwrite: bool = False,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    observer: Observer = ignore,
    **parameters: Any,
) -> Audited:
    """List the rows whose labels a halfspace gets wrong, the most suspicious first.

    Parameters
    ----------
    data
        Anything `open_source` takes.
    model
        What `fit` returned, which also says which rows every halfspace within the tested angle
        gets wrong; or any linear classifier: a `Halfspace`, a vector, a fitted model with `coef_`
        (and `intercept_`).
    out
        File for the suspects: its ending, .zarr, .parquet or .csv, says which kind.
    top
        How many to list, most suspicious first; None: all of them, in the order of the rows.
    overwrite
        Replace what `out` names.
    client, storage_options, observer, **parameters
        As of `test`.
    """
    if top is not None and top < 1:
        raise UsageError(f"top: {top} given; list 1 row at least, or all (None, --all)")
    if out is not None:
        check_file(out, overwrite=overwrite)
        if (place := path_of(data)) is not None:
            refuse_harm(place, {"out": out}, replaces=True)
    source, config = open_data(data, parameters, storage_options, model=model)
    halfspace = as_halfspace(model, source.dim, columns=source.schema.columns, field="model")
    fitted = model if isinstance(model, FitResult) and usable_halfspace(model) else None

    def work(run: Run, _: RunConfig) -> Audited:
        marks = {
            "fingerprint": source.fingerprint,
            "rows": source.n_rows,
            "ranked": top is not None,
        }
        opened: AbstractContextManager[Writer | None] = nullcontext()
        if out is not None:
            opened = open_suspects(
                out,
                marks,
                classes=np.asarray(source.schema.label_values),
                storage_options=storage_options,
                overwrite=overwrite,
            )
        with opened as writer:
            return _list(Audit(run, source, halfspace, fitted), top, writer)

    held = held_by_audit(top, source.n_rows, config.split_every)
    found = execute("audit", source, config, work, client, observer, held=held)
    place = "" if out is None else public_name(os.fspath(out))
    return Audited(replace(found.result, out=place), found.suspects)


def _list(found: Audit, top: int | None, writer: Writer | None) -> Audited:
    """The suspects in a table, in a file, or in both."""
    if top is not None:
        result, table = found.ranked(top)
        if writer is not None:
            writer.append(table)
        return Audited(result, table)
    if writer is not None:
        return Audited(found.streamed(writer.append), None)
    tables: list[SuspectTable] = []
    result = found.streamed(tables.append)
    return Audited(result, SuspectTable.joined(tables))
