"""How a result was made: when, where, by which command, settings and versions."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from contextvars import ContextVar

from streamhalf.redact import public_name
from streamhalf.results.base import Record

COMMAND: ContextVar[str] = ContextVar("command line of this run", default="")

SettingValue = bool | int | float | str | tuple[str, ...] | None


class RunRecord(Record, frozen=True):
    """When, where and how a run was made; nothing that it found depends on it.

    `command` is the command line, without secrets; empty for a run from Python.
    """

    started: str
    host: str
    scheduler: str
    settings: dict[str, SettingValue]
    command: str = ""

    @classmethod
    def now(cls, scheduler: str, settings: dict[str, SettingValue]) -> RunRecord:
        """A run that starts on this machine."""
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return cls(started, platform.node(), public_name(scheduler), settings, COMMAND.get())


class Versions(Record, frozen=True):
    """Versions of the software that computed a result."""

    streamhalf: str
    python: str
    numpy: str
    dask: str
    zarr: str

    @classmethod
    def current(cls) -> Versions:
        """The versions at work here."""
        names = ("streamhalf", "numpy", "dask", "zarr")
        found = {name: importlib.metadata.version(name) for name in names}
        return cls(python=platform.python_version(), **found)


_SHOWN = ("streamhalf", "numpy", "dask", "distributed", "zarr", "xarray")
_SHOWN_IF_THERE = ("fsspec", "s3fs", "gcsfs", "adlfs", "obstore", "zarrs", "bokeh")


def installed_versions() -> dict[str, str]:
    """Versions of what runs, stores and shows, by name: Python, ours, Dask, Zarr, storage."""
    found = {"python": platform.python_version()}
    for name in (*_SHOWN, *_SHOWN_IF_THERE):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name in _SHOWN:
                found[name] = "none"
    return found
