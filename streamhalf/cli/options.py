"""What commands do with the flags that were given: settings, observers, outputs."""

from __future__ import annotations

import io
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TextIO

from rich.console import Console

from streamhalf import api
from streamhalf import report as views
from streamhalf.config import SETTINGS, ConfigFile, load_config
from streamhalf.errors import StreamhalfError, UsageError
from streamhalf.events import Observer, fan_out
from streamhalf.paths import refuse_clash, refuse_harm, write_text_to
from streamhalf.redact import public_name
from streamhalf.results import replace, seal
from streamhalf.results.document import write_json

Given = Mapping[str, Any]

COMMAND: ContextVar[str] = ContextVar("the command line of this run", default="")
"""What results say that they came from."""

_STORAGE_FLAG, _HIDDEN = "--storage-option", "HIDDEN"

_TEXTS = ("key", "secret", "token", "password", "user", "username", "name", "id", "project")
"""Storage options whose names end so are never numbers."""

_INPUT_FILES = ("audit", "config", "model", "result", "weights")
_OUTPUTS = ("json", "report", "log_json", "checkpoint", "out")


def read_config(given: Given) -> ConfigFile:
    """Settings from the file, overridden by the flags that were given."""
    file = load_config(given["config"]) if "config" in given else ConfigFile({}, None)
    flags = {name: value for name, value in given.items() if name in SETTINGS}
    storage = parse_storage(given.get("storage_option", ()))
    merged = {**(file.storage_options or {}), **(storage or {})}
    return ConfigFile({**file.parameters, **flags}, merged or None)


@contextmanager
def calling(given: Given) -> Iterator[dict[str, Any]]:
    """What a function of the API is called with: settings, storage options and an observer."""
    config = read_config(given)
    with _observe(given) as observer:
        storage = config.storage_options
        yield {**config.parameters, "storage_options": storage, "observer": observer}


def finish(given: Given, record: Any, show: Callable[[Console, Any], None]) -> None:
    """Write the record and its page, and show it, whatever becomes of the others.

    Neither a full disk nor a closed pipe loses the rest.
    """
    record = _commanded(record)
    storage = read_config(given).storage_options
    with ExitStack() as last_first:
        last_first.callback(show, ResultConsole(), record)
        if page := given.get("report"):
            last_first.callback(api.report, record, page, storage_options=storage)
        if path := given.get("json"):
            write_json(path, record, storage_options=storage)


def _commanded(record: Any) -> Any:
    """The record with the command line that it came from, where it says how it was made."""
    run = getattr(record, "run", None)
    if run is None:
        return record
    told = replace(record, run=replace(run, command=COMMAND.get()))
    return seal(told) if hasattr(told, "digest") else told


def public_command(arguments: Sequence[str]) -> str:
    """A command line to show and keep: without secrets of URLs and values of storage options."""
    shown, hides = [], False
    for one in map(public_name, arguments):
        flag, equals, value = one.partition("=")
        if hides:
            one = f"{flag}={_HIDDEN}" if equals else one
        elif flag == _STORAGE_FLAG and equals:
            one = f"{flag}={value.partition('=')[0]}={_HIDDEN}"
        hides = one == _STORAGE_FLAG
        shown.append(one)
    return shlex.join(["streamhalf", *shown])


def check_outputs(given: Given) -> None:
    """Refuse outputs that would harm an input or each other, before anything is read."""
    inputs = {f"--{name}": given[name] for name in _INPUT_FILES if name in given}
    outputs = {f"--{name.replace('_', '-')}": given[name] for name in _OUTPUTS if name in given}
    for flag, place in {**inputs, **outputs}.items():
        if not str(place):
            name = flag.removeprefix("--")
            raise UsageError(f"{name}: '' is not a name; give one, or leave {flag} out")
    refuse_clash(inputs, outputs)
    if "store" in given:
        refuse_harm(given["store"], outputs, replaces="model" in given)
    storage = read_config(given).storage_options
    for option in ("json", "report"):
        check_writable(given.get(option), option, storage)
    if "://" in (log := given.get("log_json", "")):
        check_writable(log, "log-json", storage)


class ResultConsole(Console):
    """Standard output; where its reader has gone (`| head`), the verdict's exit code stays."""

    def __init__(self) -> None:
        super().__init__(emoji=False)  # a feature may be called ":x:"

    def on_broken_pipe(self) -> None:
        """Say nothing more."""
        silence_output()


def silence_output() -> None:
    """Say nothing more on standard output, also not at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_writable(
    path: str | None, option: str, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Refuse an output file that cannot be written before any work is done."""
    if path is None:
        return
    protocol, mark, key = path.partition("://")
    if mark:
        from streamhalf.data.access_check import storage_problem

        if problem := storage_problem(protocol, key, dict(storage_options or {})):
            raise UsageError(f"{option}: this process {problem}")
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


def parse_storage(pairs: Sequence[str]) -> Mapping[str, Any] | None:
    """Storage options from KEY=VALUE words; true, false and whole numbers are taken as such.

    Text stays what a number would not be written as (00123), and what names or admits somebody.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"storage-option: {key!r} has no value; write KEY=VALUE")
        words: dict[str, Any] = {"true": True, "false": False}
        is_number = re.fullmatch("0|[1-9][0-9]*", value) and not key.lower().endswith(_TEXTS)
        options[key] = int(value) if is_number else words.get(value.lower(), value)
    return options or None


@contextmanager
def _observe(given: Given) -> Iterator[Observer]:
    """Progress and log on standard error, unless quiet; events as JSON lines, if asked for."""
    with ExitStack() as stack:
        observers: list[Observer] = []
        console = Console(stderr=True, quiet=bool(given.get("quiet")), emoji=False)
        stack.enter_context(_logging_to(console))
        if not console.quiet:
            observers.append(stack.enter_context(views.watch(console)))
        if path := given.get("log_json"):
            storage = read_config(given).storage_options
            observers.append(views.log_json(stack.enter_context(_open_log(path, storage))))
        yield fan_out(*observers)


class _Lines(logging.Handler):
    """What is logged, as lines between those of the progress."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        self._console.print(record.getMessage(), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _logging_to(console: Console) -> Iterator[None]:
    """Log to the console and nowhere else, for a while."""
    own, handler = logging.getLogger("streamhalf"), _Lines(console)
    own.addHandler(handler)
    before = own.propagate
    own.propagate = False
    try:
        yield
    finally:
        own.propagate = before
        own.removeHandler(handler)


def _open_log(
    path: str, storage_options: Mapping[str, Any] | None
) -> AbstractContextManager[TextIO]:
    if path == "-":
        return nullcontext(sys.stderr)
    if "://" in path:
        return _uploaded(path, storage_options)
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"log-json: {path!r} cannot be written: {error.strerror}") from error


@contextmanager
def _uploaded(url: str, storage_options: Mapping[str, Any] | None) -> Iterator[TextIO]:
    """A stream whose text becomes an object at the end, however it ends: none can be added to."""
    with io.StringIO() as stream:
        try:
            yield stream
        finally:
            write_text_to(url, stream.getvalue(), storage_options=storage_options)
