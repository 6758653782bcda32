"""`synth`, `inspect` and `predict`: commands that make, look at and extend data."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

from cyclopts import Parameter

from streamhalf import api
from streamhalf import report as views
from streamhalf.api._warnings import doubt
from streamhalf.cli.flags import File, Place, Store, Switch, Whole, takes
from streamhalf.cli.options import ResultConsole, calling, naming, read_config
from streamhalf.data.kinds import is_table_path
from streamhalf.errors import DataError, UnverifiedWarning
from streamhalf.redact import plural, public_name
from streamhalf.results.document import read_model
from streamhalf.synthetic.kinds import DIRECTIONS, DTYPES, Marginal, Noise


@takes(
    *("scheduler", "n_workers", "quiet", "log_json", "storage_option"),
    example="synth data.zarr --rows 1000000 --dim 10 --noise chow --rate 0.05",
)
def synth(
    out: Annotated[Place, Parameter(help="path or URL of the new Zarr store")],
    /,
    *,
    rows: Annotated[Whole, Parameter(help="rows")],
    dim: Annotated[Whole, Parameter(help="features")],
    marginal: Annotated[
        str, Parameter(choices=[*Marginal], help="law of the features")
    ] = "gaussian",
    noise: Annotated[str, Parameter(choices=[*Noise], help="which labels are flipped")] = "none",
    rate: Annotated[float, Parameter(help="share of flipped labels")] = 0.0,
    planted: Annotated[
        str, Parameter(choices=DIRECTIONS, help="direction of the halfspace")
    ] = "generic",
    positive: Annotated[
        float, Parameter(metavar="SHARE", help="share of +1 before the noise; sets the threshold")
    ] = 0.5,
    dtype: Annotated[str, Parameter(choices=DTYPES, help="of the features")] = "float32",
    chunk_rows: Annotated[
        Whole | None, Parameter(help="rows in a stored chunk (262144, or 16777216 numbers)")
    ] = None,
    seed: Annotated[Whole, Parameter(help="names the data set")] = 0,
    overwrite: Annotated[Switch, Parameter(help="replace an existing store")] = False,
    **given: Any,
) -> int:
    """Write a labelled data set with a planted halfspace and chosen label noise."""
    with calling(given) as call:
        error = api.synth(
            out,
            rows=rows,
            dim=dim,
            marginal=marginal,
            noise=noise,
            rate=rate,
            planted=planted,
            positive=positive,
            dtype=dtype,
            chunk_rows=chunk_rows,
            seed=seed,
            overwrite=overwrite,
            **call,
        )
    print(f"wrote {plural(rows, 'row')} of {plural(dim, 'feature')} to {public_name(str(out))}")
    share = "" if positive == 0.5 else f", positive {positive:g}"
    print(f"planted error {error:.6f} (marginal {marginal}, noise {noise}{share})")
    return 0


@takes("names", "storage_option", example="inspect data.zarr")
def inspect(store: Store, /, **given: Any) -> int:
    """Say what is in a store, how it is laid out, and whether it is whole."""
    config = read_config(given)
    from streamhalf.data.inspection import inspect as inspect_store

    report = inspect_store(store, storage_options=config.storage_options, **config.parameters)
    views.show_store(ResultConsole(), report)
    return DataError.exit_code if report.missing else 0


@takes(
    *("features", "scheduler", "n_workers", "quiet", "log_json", "storage_option"),
    example="predict new.csv --model result.json --out predictions.csv",
)
def predict(
    store: Store,
    /,
    *,
    model: Annotated[File, Parameter(help="what fit --json wrote")],
    out: Annotated[
        Place,
        Parameter(
            metavar="PRED",
            help="file for the predictions, .csv or .parquet; any other ending, or a URL: a new "
            "Zarr store",
        ),
    ],
    force: Annotated[Switch, Parameter(help="ignored (of version 0.1)")] = False,
    overwrite: Annotated[Switch, Parameter(help="replace an existing file or store")] = False,
    keep: Annotated[
        str,
        Parameter(
            metavar="NAMES", help="columns of a table to write beside the predictions, such as id"
        ),
    ] = "",
    missing: Annotated[
        str, Parameter(choices=("auto", "drop"), help="drop: leave rows with gaps out")
    ] = "auto",
    **given: Any,
) -> int:
    """Write the predictions of a fitted halfspace, chunk by chunk."""
    fitted = read_model(model, storage_options=read_config(given).storage_options)
    with naming("model", str(model)), calling(given) as call, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnverifiedWarning)  # said below, in a line of its own
        n_positive = api.predict(
            store,
            model=fitted,
            out=out,
            force=force,
            overwrite=overwrite,
            keep=tuple(filter(None, map(str.strip, keep.split(",")))),
            missing=missing,
            **call,
        )
    low, high = fitted.data.label_names
    meant = f"+1 ({high}; -1 is {low})" if fitted.data.classes else "+1"
    said = f"{plural(n_positive, 'row')} {'is' if n_positive == 1 else 'are'} "
    said += high if is_table_path(out) else meant
    print(f"wrote predictions to {public_name(str(out))}: {said}")
    if (words := doubt(fitted)) and not given.get("quiet"):
        print(f"streamhalf: warning: {words}", file=sys.stderr)
    return 0
