"""What commands do with the flags that were given: settings, observers, outputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TextIO

from rich.console import Console

from streamhalf import api
from streamhalf.config import SETTINGS, ConfigFile, load_config
from streamhalf.documents import write_json
from streamhalf.errors import StreamhalfError, UsageError
from streamhalf.events import Observer, fan_out
from streamhalf.places import refuse_clash, refuse_harm
from streamhalf.report.progress import log_json, watch

Given = Mapping[str, Any]

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
    with ExitStack() as last_first:
        last_first.callback(show, ResultConsole(), record)
        if page := given.get("report"):
            last_first.callback(api.report, record, page)
        if path := given.get("json"):
            write_json(path, record)


def check_outputs(given: Given) -> None:
    """Refuse outputs that would harm an input or each other, before anything is read."""
    inputs = {f"--{name}": given[name] for name in _INPUT_FILES if name in given}
    outputs = {f"--{name.replace('_', '-')}": given[name] for name in _OUTPUTS if name in given}
    refuse_clash(inputs, outputs)
    if "store" in given:
        refuse_harm(given["store"], outputs, replaces="model" in given)
    for option in ("json", "report"):
        check_writable(given.get(option), option)


class ResultConsole(Console):
    """Standard output; where its reader has gone (`| head`), the verdict's exit code stays."""

    def on_broken_pipe(self) -> None:
        """Say nothing more."""
        silence_output()


def silence_output() -> None:
    """Say nothing more on standard output, also not at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_writable(path: str | None, option: str) -> None:
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


@contextmanager
def _observe(given: Given) -> Iterator[Observer]:
    """Progress on standard error, unless quiet; events as JSON lines, if asked for."""
    with ExitStack() as stack:
        observers: list[Observer] = []
        if not given.get("quiet"):
            observers.append(stack.enter_context(watch(Console(stderr=True))))
        if path := given.get("log_json"):
            observers.append(log_json(stack.enter_context(_open_log(path))))
        yield fan_out(*observers)


def _open_log(path: str) -> AbstractContextManager[TextIO]:
    if path == "-":
        return nullcontext(sys.stderr)
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"log-json: {path!r} cannot be written: {error.strerror}") from error
