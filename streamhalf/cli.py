"""The command line: arguments in, one call of the API, words and an exit code out."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console

import streamhalf
from streamhalf import api
from streamhalf.config import RunConfig
from streamhalf.data.marginals import Marginal
from streamhalf.data.noise import DIRECTIONS, Noise
from streamhalf.data.synthetic import DEFAULT_CHUNK_ROWS, DTYPES
from streamhalf.errors import DataError, StreamhalfError, UsageError
from streamhalf.events import Observer, ignore
from streamhalf.files import write_json
from streamhalf.report.terminal import show_store, show_test, watch

_EXIT_CODES = """exit codes: 0 accepted or passed, 10 rejected, 11 inconclusive,
2 wrong usage, 3 bad data, 1 anything else"""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = build_parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except StreamhalfError as error:
        print(f"streamhalf: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("streamhalf: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get("STREAMHALF_DEBUG"):
            traceback.print_exc()
        text = " ".join(str(error).split())
        print(
            f"streamhalf: unexpected {type(error).__name__}: {text} "
            "(set STREAMHALF_DEBUG=1 for the traceback)",
            file=sys.stderr,
        )
        return 1


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(
        prog="streamhalf",
        description="Tester-learner for halfspaces on chunked data.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=streamhalf.__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_synth(commands)
    _add_inspect(commands)
    _add_test(commands)
    return parser


def _add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str, example: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=f"example:\n  {example}\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _add_storage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="for URLs: an option of the storage (repeatable), such as anon=true",
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    defaults = RunConfig()
    parser.add_argument(
        "--scheduler",
        default=defaults.scheduler,
        metavar="WHERE",
        help="serial, threads, processes, or the address or file of a Dask scheduler "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="threads or processes here (default: one a core)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, no notices")


def _add_names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--features", default="X", metavar="NAME", help="array of the features")
    parser.add_argument("--labels", default="y", metavar="NAME", help="array of the labels")


def _add_synth(commands: Any) -> None:
    parser = _add_command(
        commands,
        "synth",
        _run_synth,
        "Write a labelled data set with a planted halfspace and chosen label noise.",
        "streamhalf synth data.zarr --rows 1000000 --dim 10 --noise chow --rate 0.05",
    )
    parser.add_argument("out", metavar="OUT", help="path or URL of the new Zarr store")
    parser.add_argument("--rows", type=int, required=True, metavar="N", help="rows")
    parser.add_argument("--dim", type=int, required=True, metavar="D", help="features")
    parser.add_argument(
        "--marginal",
        choices=[member.value for member in Marginal],
        default=Marginal.GAUSSIAN.value,
        help="law of the features (default: %(default)s)",
    )
    parser.add_argument(
        "--noise",
        choices=[member.value for member in Noise],
        default=Noise.NONE.value,
        help="which labels are flipped (default: %(default)s)",
    )
    parser.add_argument("--rate", type=float, default=0.0, help="share of flipped labels")
    parser.add_argument("--planted", choices=DIRECTIONS, default="generic", help="direction")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="of the features")
    parser.add_argument("--chunk-rows", type=int, default=DEFAULT_CHUNK_ROWS, metavar="N")
    parser.add_argument("--seed", type=int, default=0, help="names the data set")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing store")
    _add_engine(parser)
    _add_storage(parser)


def _add_inspect(commands: Any) -> None:
    parser = _add_command(
        commands,
        "inspect",
        _run_inspect,
        "Say what is in a store, how it is laid out, and whether it is whole.",
        "streamhalf inspect data.zarr",
    )
    parser.add_argument("store", metavar="STORE", help="path or URL of a Zarr store")
    _add_names(parser)
    _add_storage(parser)


def _add_test(commands: Any) -> None:
    defaults = RunConfig()
    parser = _add_command(
        commands,
        "test",
        _run_test,
        "Test whether the features look like N(0, I) up to moments of degree k.",
        "streamhalf test data.zarr --tau 0.01 --json result.json",
    )
    parser.add_argument("store", metavar="STORE", help="path or URL of a Zarr store")
    parser.add_argument(
        "--tau",
        type=float,
        default=defaults.tau,
        help="probability of rejecting true N(0, I) data (default: %(default)s)",
    )
    parser.add_argument(
        "--degree", type=int, default=defaults.degree, help="even degree k (default: %(default)s)"
    )
    parser.add_argument(
        "--whiten", action="store_true", help="estimate mean and covariance, test whitened rows"
    )
    parser.add_argument("--memory-limit", default="2GiB", help="per worker (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON")
    _add_names(parser)
    _add_engine(parser)
    _add_storage(parser)


def _run_synth(options: argparse.Namespace) -> int:
    names = ("rows", "dim", "marginal", "noise", "rate", "planted", "dtype", "chunk_rows", "seed")
    chosen = {name: getattr(options, name) for name in (*names, "overwrite", "scheduler")}
    with _observer(options) as observer:
        error = api.synth(
            options.out,
            n_workers=options.workers,
            storage_options=parse_storage(options.storage_option),
            observer=observer,
            **chosen,
        )
    print(f"wrote {options.rows:,} rows of {options.dim} features to {options.out}")
    print(f"planted error {error:.6f} (marginal {options.marginal}, noise {options.noise})")
    return 0


def _run_inspect(options: argparse.Namespace) -> int:
    report = api.inspect(
        options.store,
        features=options.features,
        labels=options.labels,
        storage_options=parse_storage(options.storage_option),
    )
    show_store(Console(), report)
    return DataError.exit_code if report.missing else 0


def _run_test(options: argparse.Namespace) -> int:
    with _observer(options) as observer:
        result = api.test(
            options.store,
            storage_options=parse_storage(options.storage_option),
            observer=observer,
            n_workers=options.workers,
            memory_limit=parse_size("memory-limit", options.memory_limit),
            **{
                name: getattr(options, name)
                for name in ("tau", "degree", "whiten", "scheduler", "features", "labels")
            },
        )
    if options.json:
        write_json(options.json, result)
    show_test(Console(), result)
    return result.verdict.exit_code


def _observer(options: argparse.Namespace) -> AbstractContextManager[Observer]:
    """Progress on standard error, unless quiet."""
    return nullcontext(ignore) if options.quiet else watch(Console(stderr=True))


def parse_size(name: str, text: str) -> int:
    """Bytes from 2GiB, 512M or 1000000."""
    number = text.lower().removesuffix("ib").removesuffix("b")
    unit = number[-1:] if number[-1:] in _UNITS else ""
    try:
        return int(float(number.removesuffix(unit)) * _UNITS[unit])
    except (ValueError, OverflowError):
        raise UsageError(f"{name}: {text!r} is not a size; write 2GiB or 500MiB") from None


def parse_storage(pairs: Sequence[str]) -> dict[str, Any] | None:
    """Storage options from KEY=VALUE words; true, false and numbers are taken as such."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"storage-option: {key!r} has no value; write KEY=VALUE")
        words: dict[str, Any] = {"true": True, "false": False}
        options[key] = int(value) if value.isdigit() else words.get(value.lower(), value)
    return options or None
