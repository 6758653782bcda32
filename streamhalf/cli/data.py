"""`synth`, `inspect` and `predict`: commands that make, look at and extend data."""

from __future__ import annotations

import argparse
from typing import Any

from streamhalf import api
from streamhalf.cli.options import (
    ResultConsole,
    add_command,
    add_engine,
    add_names,
    add_parameter,
    add_storage,
    given,
    naming,
    observe,
    parse_storage,
    whole,
)
from streamhalf.documents import read_model
from streamhalf.errors import DataError
from streamhalf.names import plural, public_name
from streamhalf.report.terminal import show_store
from streamhalf.synthetic.marginals import Marginal
from streamhalf.synthetic.noise import DIRECTIONS, Noise
from streamhalf.synthetic.spec import DTYPES
from streamhalf.synthetic.store import DEFAULT_CHUNK_ROWS


def add_synth(commands: Any) -> None:
    """`streamhalf synth`."""
    parser = add_command(
        commands,
        "synth",
        run_synth,
        "Write a labelled data set with a planted halfspace and chosen label noise.",
        "streamhalf synth data.zarr --rows 1000000 --dim 10 --noise chow --rate 0.05",
    )
    parser.add_argument("out", metavar="OUT", help="path or URL of the new Zarr store")
    parser.add_argument("--rows", type=whole, required=True, metavar="N", help="rows")
    parser.add_argument("--dim", type=whole, required=True, metavar="D", help="features")
    parser.add_argument(
        "--marginal",
        choices=[member.value for member in Marginal],
        default=Marginal.GAUSSIAN.value,
        help="law of the features (default: gaussian)",
    )
    parser.add_argument(
        "--noise",
        choices=[member.value for member in Noise],
        default=Noise.NONE.value,
        help="which labels are flipped (default: none)",
    )
    parser.add_argument("--rate", type=float, help="share of flipped labels (default: 0)")
    parser.add_argument(
        "--planted", choices=DIRECTIONS, help="direction of the halfspace (default: generic)"
    )
    parser.add_argument("--dtype", choices=DTYPES, help="of the features (default: float32)")
    parser.add_argument(
        "--chunk-rows",
        type=whole,
        metavar="N",
        help=f"rows in a stored chunk (default: {DEFAULT_CHUNK_ROWS})",
    )
    parser.add_argument("--seed", type=whole, help="names the data set (default: 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing store")
    add_engine(parser)
    add_storage(parser)


def add_inspect(commands: Any) -> None:
    """`streamhalf inspect`."""
    parser = add_command(
        commands,
        "inspect",
        run_inspect,
        "Say what is in a store, how it is laid out, and whether it is whole.",
        "streamhalf inspect data.zarr",
    )
    parser.add_argument("store", metavar="STORE", help="path or URL of a Zarr store")
    add_names(parser)
    add_storage(parser)


def add_predict(commands: Any) -> None:
    """`streamhalf predict`."""
    parser = add_command(
        commands,
        "predict",
        run_predict,
        "Write the predictions of a fitted halfspace, chunk by chunk.",
        "streamhalf predict data.zarr --model result.json --out predictions.zarr",
    )
    parser.add_argument("store", metavar="STORE", help="path or URL of a Zarr store")
    parser.add_argument("--model", required=True, metavar="FILE", help="what fit --json wrote")
    parser.add_argument("--out", required=True, metavar="PRED", help="path or URL of the new store")
    parser.add_argument("--force", action="store_true", help="also with a run not accepted")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing store")
    add_parameter(parser, "features", "array of the features")
    add_engine(parser)
    add_storage(parser)


def run_synth(options: argparse.Namespace) -> int:
    """Write a synthetic store."""
    chosen = given(
        options,
        "rows",
        "dim",
        "marginal",
        "noise",
        "rate",
        "planted",
        "dtype",
        "chunk_rows",
        "seed",
        "overwrite",
        "scheduler",
        "n_workers",
    )
    with observe(options) as observer:
        error = api.synth(
            options.out,
            storage_options=parse_storage(getattr(options, "storage_option", [])),
            observer=observer,
            **chosen,
        )
    size = f"{plural(options.rows, 'row')} of {plural(options.dim, 'feature')}"
    print(f"wrote {size} to {public_name(options.out)}")
    print(f"planted error {error:.6f} (marginal {options.marginal}, noise {options.noise})")
    return 0


def run_inspect(options: argparse.Namespace) -> int:
    """Look at a store."""
    report = api.inspect(
        options.store,
        storage_options=parse_storage(getattr(options, "storage_option", [])),
        **given(options, "features", "labels"),
    )
    show_store(ResultConsole(), report)
    return DataError.exit_code if report.missing else 0


def run_predict(options: argparse.Namespace) -> int:
    """Write predictions."""
    model = read_model(options.model)
    with naming("model", options.model), observe(options) as observer:
        n_positive = api.predict(
            options.store,
            model=model,
            out=options.out,
            storage_options=parse_storage(getattr(options, "storage_option", [])),
            observer=observer,
            **given(options, "force", "overwrite", "features", "scheduler", "n_workers"),
        )
    are = "is" if n_positive == 1 else "are"
    said = f"{plural(n_positive, 'row')} {are} +1"
    print(f"wrote predictions to {public_name(options.out)}: {said}")
    return 0


COMMANDS = (add_synth, add_inspect, add_predict)
