"""Options that several commands share, and how they become parameters."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from decimal import Decimal
from typing import Any, TextIO

from rich.console import Console

from streamhalf.config import CHOICES, ConfigFile, RunConfig, load_config, parse_size
from streamhalf.errors import StreamhalfError, UsageError
from streamhalf.events import Observer, fan_out
from streamhalf.places import refuse_clash, refuse_harm
from streamhalf.report.progress import log_json, watch
from streamhalf.report.words import TAU

EXIT_CODES = """exit codes: 0 accepted or passed, 10 rejected, 11 inconclusive,
12 a claim does not hold, 2 wrong usage, 3 bad data, 130 interrupted, 1 anything else"""

_DEFAULTS = RunConfig()
_LARGEST_WHOLE = 1 << 63
_INPUT_FILES = ("config", "document", "model", "result", "weights")
_OUTPUTS = ("json", "report", "log_json", "checkpoint", "out")


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str, example: str
) -> argparse.ArgumentParser:
    """A sub-command with its example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=f"example:\n  {example}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    parser.set_defaults(run=run)
    return parser


def add_parameter(parser: argparse.ArgumentParser, name: str, text: str, kind: Any = str) -> None:
    """An option for a field of `RunConfig`; absent unless given, so that a file may set it."""
    default = getattr(_DEFAULTS, name)
    flag = f"--{name.replace('_', '-')}"
    help_text = f"{text} (default: {default})"
    if kind is bool:
        parser.add_argument(flag, action="store_true", help=text)
    elif name in CHOICES:
        parser.add_argument(flag, choices=CHOICES[name], help=help_text)
    else:
        parse = whole if kind is int else kind
        parser.add_argument(flag, type=parse, metavar=kind.__name__.upper(), help=help_text)


def add_testing(parser: argparse.ArgumentParser) -> None:
    """Options of the statistics."""
    add_parameter(parser, "tau", TAU, float)
    add_parameter(parser, "degree", "even degree k of the moment test", int)
    add_parameter(parser, "whiten", "estimate mean and covariance, work on whitened rows", bool)
    add_parameter(parser, "seed", "seed of all randomness", int)


def add_learning(parser: argparse.ArgumentParser) -> None:
    """Options of the tester-learner."""
    parser.add_argument(
        "--eps", type=_eps, metavar="EPS", help="accuracy to judge, or auto (default: auto)"
    )
    add_parameter(parser, "schedule", "how the scale of the localisation shrinks")
    add_parameter(parser, "mode", "practical, or the paper's own parameters")


def add_certificate(parser: argparse.ArgumentParser, degree: str) -> None:
    """What the certificate is made from."""
    parser.add_argument(
        "--certificate-degree",
        type=_number_or("auto"),
        metavar="K",
        help=f"{degree}, or auto: 6 up to 6 features, else 4 (default: auto)",
    )
    parser.add_argument(
        "--certificate-rows",
        type=_number_or("auto", "all"),
        metavar="N",
        help="rows behind the slab moments: a number, all or auto (default: auto)",
    )


def add_names(parser: argparse.ArgumentParser) -> None:
    """Names of the arrays."""
    add_parameter(parser, "features", "array of the features")
    add_parameter(parser, "labels", "array of the labels")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Where to run."""
    parser.add_argument(
        "--scheduler",
        metavar="WHERE",
        help="serial, threads, processes, or the address or file of a Dask scheduler "
        f"(default: {_DEFAULTS.scheduler})",
    )
    parser.add_argument(
        "--workers",
        type=whole,
        dest="n_workers",
        metavar="N",
        help="threads or processes here (default: one a core)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, no notices")
    parser.add_argument(
        "--log-json", metavar="FILE", help="write every event as one line of JSON (- for stderr)"
    )


def add_memory(parser: argparse.ArgumentParser) -> None:
    """How much memory a worker may use."""
    parser.add_argument(
        "--memory-limit", metavar="SIZE", help="memory of one worker (default: 2GiB)"
    )


def add_storage(parser: argparse.ArgumentParser) -> None:
    """Options of object storage."""
    parser.add_argument(
        "--storage-option",
        action="append",
        metavar="KEY=VALUE",
        help="for URLs: an option of the storage (repeatable), such as anon=true or endpoint_url=http://127.0.0.1:9000",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """A file of parameters."""
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file of parameters; flags override it"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Where the result goes."""
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON")


def read_config(options: argparse.Namespace) -> ConfigFile:
    """Parameters from the file, overridden by the flags that were given."""
    path = getattr(options, "config", None)
    file = load_config(path) if path else ConfigFile({}, None)
    given: dict[str, Any] = {
        name: getattr(options, name) for name in RunConfig.names() if hasattr(options, name)
    }
    if isinstance(given.get("memory_limit"), str):
        given["memory_limit"] = parse_size("memory_limit", given["memory_limit"])
    storage = parse_storage(getattr(options, "storage_option", []))
    merged = {**(file.storage_options or {}), **(storage or {})}
    return ConfigFile({**file.parameters, **given}, merged or None)


def given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The named options that were given."""
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def check_places(options: argparse.Namespace) -> None:
    """Refuse outputs that would harm an input or each other, before anything is read."""
    inputs = {f"--{name}": path for name, path in given(options, *_INPUT_FILES).items()}
    outputs = {
        f"--{name.replace('_', '-')}": path for name, path in given(options, *_OUTPUTS).items()
    }
    refuse_clash(inputs, outputs)
    if (store := getattr(options, "store", None)) is not None:
        refuse_harm(store, outputs, replaces="model" in options)


class ResultConsole(Console):
    """Standard output; where its reader has gone (`| head`), the verdict's exit code stays."""

    def on_broken_pipe(self) -> None:
        """Say nothing more."""
        silence_output()


def silence_output() -> None:
    """Say nothing more on standard output, also not at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_writable(path: str | None, option: str = "json") -> None:
    """Refuse an output file that cannot be written before any work is done."""
    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise UsageError(f"{option}: {path!r} cannot be written; name a file in an existing folder")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"{option}: {path!r} cannot be written; permission denied")


@contextmanager
def naming(field: str, path: str) -> Iterator[None]:
    """Errors about a parameter that came from a file name the file."""
    try:
        yield
    except StreamhalfError as error:
        text = str(error)
        if not text.startswith(f"{field}: "):
            raise
        raise type(error)(f"{path}: {text.removeprefix(f'{field}: ')}") from error


@contextmanager
def observe(options: argparse.Namespace) -> Iterator[Observer]:
    """Progress on standard error, unless quiet; events as JSON lines, if asked for."""
    with ExitStack() as stack:
        observers: list[Observer] = []
        if not hasattr(options, "quiet"):
            observers.append(stack.enter_context(watch(Console(stderr=True))))
        if path := getattr(options, "log_json", None):
            observers.append(log_json(stack.enter_context(_open_log(path))))
        yield fan_out(*observers)


def _open_log(path: str) -> AbstractContextManager[TextIO]:
    if path == "-":
        return nullcontext(sys.stderr)
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"log-json: {path!r} cannot be written: {error.strerror}") from error


def parse_storage(pairs: Sequence[str]) -> Mapping[str, Any] | None:
    """Storage options from KEY=VALUE words; true, false and numbers are taken as such."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"storage-option: {key!r} has no value; write KEY=VALUE")
        words: dict[str, Any] = {"true": True, "false": False}
        options[key] = int(value) if value.isdigit() else words.get(value.lower(), value)
    return options or None


def _number_or(*words: str) -> Callable[[str], int | str]:
    def parse(text: str) -> int | str:
        try:
            return text if text in words else whole(text)
        except argparse.ArgumentTypeError:
            known = " or ".join(words)
            raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor {known}") from None

    return parse


def whole(text: str) -> int:
    """A whole number, also as 1e6 or 1_000_000."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = Decimal(text)
        if value == (number := int(value)) and abs(value) < _LARGEST_WHOLE:
            return number
    except (ArithmeticError, ValueError):
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number; write 1000000 or 1e6")


def _eps(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor auto") from None
