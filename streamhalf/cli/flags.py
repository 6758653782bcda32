"""Flags: those of settings come from their declarations, those that commands share stand here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from streamhalf.config import SETTINGS
from streamhalf.settings import Setting, parse_whole


def _read_whole(kind: type, tokens: Any) -> int:
    return parse_whole(tokens[0].value)


# values are text, as URLs are; it is for Path that shells complete files
Place = str | Path
Store = Annotated[Place, Parameter(help="path or URL of a Zarr store, a CSV or a Parquet file")]
File = Annotated[Place, Parameter(metavar="FILE")]
Switch = Annotated[bool, Parameter(show_default=False)]
Whole = Annotated[int, Parameter(metavar="N", converter=_read_whole)]


def _flag(python_name: str, kind: Any, default: Any, **described: Any) -> inspect.Parameter:
    annotation = Annotated[kind, Parameter(**described)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(python_name, keyword, default=default, annotation=annotation)


_file = partial(_flag, kind=Place, default=None, metavar="FILE")
_SHARED = (
    _flag("quiet", bool, False, show_default=False, help="no progress, no notices"),
    _file(
        "log_json",
        allow_leading_hyphen=True,
        help="write every event as one line of JSON (- for stderr)",
    ),
    _flag(
        "storage_option",
        list[str],
        None,
        metavar="KEY=VALUE",
        help="for URLs: an option of the storage (repeatable), such as anon=true or "
        "endpoint_url=http://127.0.0.1:9000",
    ),
    _file("config", help="YAML file of settings; flags override it"),
    _file("json", help="write the result as JSON"),
    _file("report", help="write the result as an HTML page"),
)
_GROUPS = {
    name: Group(name.capitalize(), sort_key=number)
    for number, name in enumerate(dict.fromkeys(one.group for one in SETTINGS.values()))
}


def _setting_flag(name: str, setting: Setting) -> inspect.Parameter:
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
    metavar = (
        "SIZE"
        if setting.is_size
        else {float: "X", int: "N", str: "NAME", tuple: "NAMES"}[setting.kind]
    )
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

    def decorate(command: Any) -> Any:
        *own, _ = inspect.signature(command).parameters.values()
        command.__signature__ = inspect.Signature([*own, *flags.values()])
        command.example = example
        return command

    return decorate
