"""Flags of the command line, made from settings; observers, outputs and storage options."""

from __future__ import annotations

import inspect as inspection
import io
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TextIO

from cyclopts import Group, Parameter
from rich.console import Console

from streamhalf import report as views
from streamhalf.config import LABEL, SETTINGS, ConfigFile, Setting, load_config, parse_whole
from streamhalf.errors import StreamhalfError, UsageError
from streamhalf.events import Observer, fan_out
from streamhalf.paths import Address, refuse_clash, refuse_harm, write_text_to
from streamhalf.redact import public_name
from streamhalf.results.document import write_json

Given = Mapping[str, Any]


def _read_whole(kind: type, tokens: Any) -> int:
    return parse_whole(tokens[0].value)


# values are text, as URLs are; it is for Path that shells complete files
Place = str | Path
Store = Annotated[Place, Parameter(help="path or URL of a Zarr store, a CSV or a Parquet file")]
File = Annotated[Place, Parameter(metavar="FILE")]
Folder = Annotated[Place, Parameter(metavar="FOLDER")]
Names = Annotated[str, Parameter(metavar="NAMES")]
Share = Annotated[float, Parameter(metavar="SHARE")]
Switch = Annotated[bool, Parameter(show_default=False)]
Whole = Annotated[int, Parameter(metavar="N", converter=_read_whole)]


def _flag(python_name: str, kind: Any, default: Any, **described: Any) -> inspection.Parameter:
    annotation = Annotated[kind, Parameter(**described)]
    keyword = inspection.Parameter.KEYWORD_ONLY
    return inspection.Parameter(python_name, keyword, default=default, annotation=annotation)


_file = partial(_flag, kind=Place, default=None, metavar="FILE")
_SHARED = (
    _flag("quiet", bool, False, show_default=False, help="no progress, no notices"),
    _flag(
        "verbose",
        bool,
        False,
        alias="-v",
        negative=(),
        show_default=False,
        help="also show the tables of testers, labels, bounds and passes",
    ),
    _file("log_json", allow_leading_hyphen=True, help="write every event as one line of JSON (- for stderr)"),
    _flag(
        "storage_option",
        list[str],
        None,
        metavar="KEY=VALUE",
        help="for URLs: an option of the storage (repeatable), such as anon=true or endpoint_url=http://127.0.0.1:9000",
    ),
    _file("config", help="YAML file of settings; flags override it"),
    _file("json", help="write the result as JSON"),
    _file("report", help="write the result as an HTML page"),
)
_GROUPS = {
    name: Group(name.capitalize(), sort_key=number)
    for number, name in enumerate(dict.fromkeys(one.group for one in SETTINGS.values()))
}
_METAVARS = {float: "X", int: "N", str: "NAME", tuple: "NAMES"}


def _setting_flag(name: str, setting: Setting) -> inspection.Parameter:
    """The flag of a setting; absent unless given, so that a file may set it."""

    def read(kind: type, tokens: Any) -> Any:
        value = setting.read(name, tokens[0].value)
        setting.check(name, value)
        return value

    described: dict[str, Any] = {"help": setting.help, "group": _GROUPS[setting.group]}
    if setting.kind is bool:  # the negative overrides a file
        described |= {"negative": f"--no-{name.replace('_', '-')}", "show_default": False}
        return _flag(name, bool, setting.default, **described)
    described |= {"name": setting.flag, "converter": read}
    described["show_default"] = lambda _: setting.shown_default
    if setting.kind is str and setting.words:
        return _flag(name, str, setting.default, choices=setting.words, **described)
    metavar = "SIZE" if setting.is_size else _METAVARS[setting.kind]
    return _flag(name, str, setting.default, metavar=metavar, **described)


def takes(*names: str, example: str) -> Callable[[Any], Any]:
    """Give a command the flags of settings (a name, or a group of them) and shared flags.

    They take the place of its `**given`, which holds those that were given.
    """
    flags = {flag.name: flag for flag in _SHARED if flag.name in names} | {
        name: _setting_flag(name, setting)
        for name, setting in SETTINGS.items()
        if name in names or setting.group in names
    }
    if "drop" in flags:
        flags[LABEL] = _flag(
            LABEL, str, "y", metavar="NAME", group=_GROUPS["tables"], help="column of the labels in a table"
        )

    def decorate(command: Any) -> Any:
        *own, _ = inspection.signature(command).parameters.values()
        command.__signature__ = inspection.Signature([*own, *flags.values()])
        command.example = example
        return command

    return decorate


_STORAGE_FLAG, _HIDDEN = "--storage-option", "HIDDEN"
# Storage options whose names end so are never numbers
_TEXTS = ("key", "secret", "token", "password", "user", "username", "name", "id", "project")
_INPUT_FILES = ("audit", "config", "model", "result", "watch", "weights")
_OUTPUTS = ("json", "report", "log_json", "checkpoint", "state", "out")


def read_config(given: Given) -> ConfigFile:
    """Settings from the file, overridden by the flags that were given."""
    file = load_config(given["config"]) if "config" in given else ConfigFile({}, None)
    flags = {name: value for name, value in given.items() if name in SETTINGS or name == LABEL}
    storage = parse_storage(given.get("storage_option", ()))
    merged = {**(file.storage_options or {}), **(storage or {})}
    return ConfigFile({**file.parameters, **flags}, merged or None)


def storage_of(given: Given) -> Mapping[str, Any] | None:
    return read_config(given).storage_options


@contextmanager
def calling(given: Given) -> Iterator[dict[str, Any]]:
    """Yield the keyword arguments of an API function: settings, storage options and an observer."""
    config = read_config(given)
    with _observe(given) as observer:
        storage = config.storage_options
        yield {**config.parameters, "storage_options": storage, "observer": observer}


def finish(given: Given, record: Any, show: Callable[..., None]) -> None:
    """Write the record and its page, and show it, whatever becomes of the others.

    Neither a full disk nor a closed pipe loses the rest.
    """
    storage = storage_of(given)
    with ExitStack() as last_first:
        more = {"verbose": True} if given.get("verbose") else {}
        last_first.callback(show, ResultConsole(), record, **more)
        if page := given.get("report"):
            from streamhalf import api

            last_first.callback(api.report, record, page, storage_options=storage)
        if path := given.get("json"):
            write_json(path, record, storage_options=storage)


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
    storage = storage_of(given)
    for option in ("json", "report"):
        check_writable(given.get(option), option, storage)
    if "://" in (log := given.get("log_json", "")):
        check_writable(log, "log-json", storage)


class ResultConsole(Console):
    """Standard output; where its reader has gone (`| head`), the verdict's exit code stays."""

    def __init__(self) -> None:
        super().__init__(emoji=False)  # a feature may be called ":x:"

    def on_broken_pipe(self) -> None:
        silence_output()


def silence_output() -> None:
    """Say nothing more on standard output, also not at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_writable(path: str | None, option: str, storage_options: Mapping[str, Any] | None = None) -> None:
    """Refuse an output file that cannot be written before any work is done."""
    if path is None:
        return
    if "://" in path:
        from streamhalf.data.zarr_groups import storage_problem

        if problem := storage_problem(Address(path, storage_options)):
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

    Text stays what a number would not be written as (00123), as names, keys and passwords do.
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
            storage = storage_of(given)
            observers.append(views.log_json(stack.enter_context(_open_log(path, storage))))
        yield fan_out(*observers)


class _Lines(logging.Handler):
    """Handler that prints log records between lines of progress."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
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


def _open_log(path: str, storage_options: Mapping[str, Any] | None) -> AbstractContextManager[TextIO]:
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
