"""`test`, `plan`, `fit`, `certify`, `verify` and `report`: commands that judge, learn and prove."""

from __future__ import annotations

import os
from typing import Annotated, Any

from cyclopts import Parameter

from streamhalf import api
from streamhalf import report as views
from streamhalf.cli.flags import File, Place, Store, Switch, Whole, takes
from streamhalf.cli.options import (
    ResultConsole,
    calling,
    check_writable,
    finish,
    naming,
    read_config,
)
from streamhalf.errors import UsageError
from streamhalf.redact import public_name
from streamhalf.results import FitResult
from streamhalf.results.document import read_audit, read_result, read_weights

Result = Annotated[Place, Parameter(help="what fit or certify wrote")]

_COMMON = (
    "where it runs",
    "names",
    "tables",
    "quiet",
    "log_json",
    "storage_option",
    "config",
    "json",
)


@takes("statistics", *_COMMON, example="test data.zarr --tau 0.01 --json result.json")
def test(store: Store, /, **given: Any) -> int:
    """Test whether the features look like N(0, I) up to moments of degree k."""
    with calling(given) as call:
        result = api.test(store, **call)
    finish(given, result, views.show_test)
    return result.verdict.exit_code


@takes(
    *(
        "statistics",
        "eps",
        "mode",
        "schedule",
        "through",
        "certificate",
        "names",
        "columns",
        "drop",
        "encode",
        "missing",
    ),
    *("config", "json", "storage_option"),
    example="plan --dim 10 --rows 1000000",
)
def plan(
    store: Annotated[
        Place | None, Parameter(help="path or URL of a Zarr store: plan for its rows")
    ] = None,
    /,
    *,
    dim: Annotated[Whole | None, Parameter(help="features, where there is no store")] = None,
    n_rows: Annotated[Whole | None, Parameter("--rows", help="rows at hand")] = None,
    positive: Annotated[
        float | None, Parameter(metavar="SHARE", help="share of the rows with label +1")
    ] = None,
    reuse: Annotated[Switch, Parameter(help="passes that learn share all their rows")] = False,
    **given: Any,
) -> int:
    """Say which eps and constant a number of rows can judge, or how many rows an eps needs."""
    config = read_config(given)
    record = api.plan(
        store,
        dim=dim,
        n_rows=n_rows,
        positive=positive,
        storage_options=config.storage_options,
        **{**config.parameters, **({"sampling": "reuse"} if reuse else {})},
    )
    finish(given, record, views.show_plan)
    return 0 if record.conclusive else 11


@takes(
    *("statistics", "learning", "certificate", "report", *_COMMON),
    example="fit data.zarr --json result.json",
)
def fit(
    store: Store,
    /,
    *,
    checkpoint: Annotated[
        Place | None,
        Parameter(metavar="FOLDER", help="path or URL that takes the result of every pass"),
    ] = None,
    resume: Annotated[
        Switch, Parameter(help="go on from what the checkpoint folder holds")
    ] = False,
    dry_run: Annotated[
        Switch,
        Parameter(help="only check versions, workers, credentials and reading, and show the plan"),
    ] = False,
    **given: Any,
) -> int:
    """Learn a halfspace: its error, what tests promise of it, and what no halfspace can beat."""
    if dry_run:
        with calling(given) as call:
            found = api.dry_run(store, checkpoint=checkpoint, resume=resume, **call)
        views.show_dry_run(ResultConsole(), found)
        return 0
    with calling(given) as call:
        result: FitResult = api.fit(store, checkpoint=checkpoint, resume=resume, **call)
    finish(given, result, views.show_fit)
    return result.verdict.exit_code


@takes(
    *("tau", "feature_transform", "centre", "whiten", "seed"),
    *("certificate_degree", "certificate_rows", "report", *_COMMON),
    example="certify data.zarr --weights weights.npy --json certificate.json",
)
def certify(
    store: Store,
    /,
    *,
    weights: Annotated[
        File,
        Parameter(help=".npy vector, JSON list or object with normal and offset, or a result file"),
    ],
    **given: Any,
) -> int:
    """Certify a linear classifier: its error, and a bound that no halfspace can beat."""
    vector = read_weights(weights, storage_options=read_config(given).storage_options)
    with naming("weights", str(weights)), calling(given) as call:
        result = api.certify(store, weights=vector, **call)
    finish(given, result, views.show_certificate)
    return 0


@takes(*_COMMON, example="verify result.json data.zarr")
def verify(
    result: Result,
    store: Store,
    /,
    *,
    block_rows: Annotated[
        Whole | None, Parameter(help="read in other pieces than the stored chunks")
    ] = None,
    **given: Any,
) -> int:
    """Recompute the claims of a result file from the data; exit code 12 if one fails."""
    if os.path.isdir(result) or ("://" in str(result) and not str(result).endswith(".json")):
        found = public_name(str(result))
        right = f"{public_name(str(store))} {found}" if os.path.isfile(store) else "RESULT STORE"
        raise UsageError(
            f"verify: {found} is no result file but a store; the result file comes first: "
            f"streamhalf verify {right}"
        )
    document = read_result(result, storage_options=read_config(given).storage_options)
    with naming("document", str(result)), calling(given) as call:
        verification = api.verify(document, store, block_rows=block_rows, **call)
    finish(given, verification, views.show_verification)
    return 0 if verification.holds else 12


@takes("storage_option", example="report result.json --out result.html")
def report(
    result: Result,
    /,
    *,
    out: Annotated[
        File | None, Parameter(help="the page; without it, RESULT with the ending .html")
    ] = None,
    audit: Annotated[
        File | None, Parameter(help="what audit wrote, for a section about suspects")
    ] = None,
    **given: Any,
) -> int:
    """Write a result file as one HTML page with figures that opens anywhere."""
    source, storage = str(result), read_config(given).storage_options
    target = str(out) if out else os.path.splitext(source)[0] + ".html"
    check_writable(target, "out", storage)
    if os.path.exists(target) and os.path.exists(source) and os.path.samefile(target, source):
        raise UsageError(f"out: {target!r} is the result file itself; name another file")
    suspects = None if audit is None else read_audit(audit, storage_options=storage)
    document = read_result(source, storage_options=storage)
    api.report(document, target, audit=suspects, storage_options=storage)
    print(f"wrote {public_name(target)}")
    return 0
