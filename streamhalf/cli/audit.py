"""`audit`: which labels look tampered with."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from streamhalf import api
from streamhalf import report as views
from streamhalf.cli.flags import File, Place, Store, Switch, Whole, takes
from streamhalf.cli.options import calling, finish, naming, read_config
from streamhalf.config import TOP
from streamhalf.errors import UsageError
from streamhalf.results.document import read_classifier


@takes(
    *("where it runs", "names", "tables", "quiet", "log_json", "storage_option", "config"),
    *("json", "report"),
    example="audit data.zarr --model result.json --out suspects.csv",
)
def audit(
    store: Store,
    /,
    *,
    model: Annotated[
        File, Parameter(help="what fit or certify wrote, or weights as certify takes them")
    ],
    out: Annotated[
        Place | None,
        Parameter(metavar="SUSPECTS", help="file for the suspects: .csv, .parquet or .zarr"),
    ] = None,
    top: Annotated[
        Whole | None,
        Parameter(help=f"list so many, most suspicious first; without it, {TOP:,}"),
    ] = None,
    all: Annotated[Switch, Parameter(help="list all, in the order of rows")] = False,  # noqa: A002
    overwrite: Annotated[Switch, Parameter(help="replace an existing file")] = False,
    **given: Any,
) -> int:
    """List the rows whose label a halfspace gets wrong, most suspicious first."""
    if all and top is not None:
        raise UsageError(f"top: {top} given beside --all; give one of them")
    if all and out is None:
        raise UsageError("all: needs a file for the suspects; give --out SUSPECTS")
    classifier = read_classifier(model, storage_options=read_config(given).storage_options)
    most = None if all else TOP if top is None else top
    with naming("model", str(model)), calling(given) as call:
        found = api.audit(store, model=classifier, out=out, top=most, overwrite=overwrite, **call)
    finish(given, found.result, views.show_audit)
    return 0
