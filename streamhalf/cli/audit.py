"""`audit`: label issues, reviews, and proofs."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from streamhalf import api
from streamhalf import report as views
from streamhalf.cli.flags import File, Place, Switch, Whole, takes
from streamhalf.cli.options import calling, finish, naming, read_config
from streamhalf.config import SETTINGS, TOP
from streamhalf.errors import UsageError
from streamhalf.results.document import read_array, read_classifier, write_json


@takes(
    *("where it runs", "names", "tables", "quiet", "log_json", "storage_option", "config"),
    *("json", "report"),
    example="audit data.zarr --model result.json --out suspects.csv",
)
def audit(
    store: Annotated[
        Place | None, Parameter(help="path or URL of the data; not needed with --reviewed")
    ] = None,
    /,
    *,
    model: Annotated[
        File | None, Parameter(help="what fit or certify wrote, or weights as certify takes them")
    ] = None,
    out: Annotated[
        Place | None,
        Parameter(metavar="FILE", help="file for the rows: .csv, .parquet or .zarr"),
    ] = None,
    top: Annotated[
        Whole | None, Parameter(help=f"list so many, the surest first; without it, {TOP:,}")
    ] = None,
    all: Annotated[  # noqa: A002
        Switch, Parameter(help="list every misclassified row, in the order of rows")
    ] = False,
    probabilities: Annotated[
        File | None,
        Parameter(help="probabilities of the second class by another model, a .npy file"),
    ] = None,
    review: Annotated[
        Whole, Parameter(help="draw so many rows for a person to review, into --out")
    ] = 0,
    reviewed: Annotated[
        File | None, Parameter(help="a reviewed file: how many labels are wrong")
    ] = None,
    proofs: Annotated[
        File | None, Parameter(help="write sets of rows that no halfspace gets right, as JSON")
    ] = None,
    overwrite: Annotated[Switch, Parameter(help="replace an existing file")] = False,
    **given: Any,
) -> int:
    """List the rows whose labels look wrong, the surest first; count wrong labels by reviews."""
    storage = read_config(given).storage_options
    if reviewed is not None:
        if store is not None or model is not None:
            raise UsageError("reviewed: the file says all; leave out the data and --model")
        tau = read_config(given).parameters.get("tau", SETTINGS["tau"].default)
        record = api.judge_review(reviewed, tau=tau)
        finish(given, record, views.show_review)
        return 0
    for name, value in (("data", store), ("model", model)):
        if value is None:
            raise UsageError(f"{name}: missing; give the data, and --model RESULT (or --reviewed)")
    if all and top is not None:
        raise UsageError(f"top: {top} given beside --all; give one of them")
    if all and out is None:
        raise UsageError("all: needs a file for the rows; give --out FILE")
    options: dict[str, Any] = {
        "top": None if all else TOP if top is None else top,
        "misclassified": all,
        "review": review,
        "proofs": 20 if proofs is not None else 0,
    }
    if probabilities is not None:
        options["probabilities"] = read_array(probabilities)
    classifier = read_classifier(model, storage_options=storage)
    with naming("model", str(model)), calling(given) as call:
        found = api.audit(store, model=classifier, out=out, overwrite=overwrite, **options, **call)
    if proofs is not None:
        write_json(proofs, found.conflicts, storage_options=storage)
    finish(given, found.result, views.show_audit)
    return 0
