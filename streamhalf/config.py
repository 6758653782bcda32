"""`RunConfig`: every setting of a run, declared once for Python, YAML, flags and docs."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import partial
from numbers import Integral, Real
from reprlib import repr as shown
from typing import Any

from streamhalf.errors import UsageError
from streamhalf.results.codes import HalfspaceClass, Transform

SMALLEST_EPS, LARGEST_EPS = 1e-6, 0.25

LEAST_CERTIFICATE_ROWS = 1 << 16
"""Of fewer, L of the source would be lower by more than 0.7% of the rows."""

AUTO = "auto"
"""The default scheduler: the active client, else threads."""

VARIABLES = "STREAMHALF_"
"""Prefix of environment variables; the rest of a name is a setting in capitals."""

TOP = 100_000
"""Suspects that an audit lists unless more are asked for."""

TOLERANCE = 0.01
"""Share of rows that a change may concern before a watch calls it drift."""

_LARGEST_FILE, _LARGEST_WHOLE = 1 << 20, 10**30
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

LABEL = "label"
"""Setting `labels` where data are a table: the name of the column."""

_SEED_BITS = 53
"""Of a drawn seed: a number that JSON keeps exact in every language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The declaration of a setting.

    `within` is the range of a number, ends included; `words` are taken beside numbers, and of a
    text are all that is taken. Where `default` is None, None may be given. `flag` is the name, or
    names, of the command-line flag where it is not the setting's. A run may be resumed with another
    value of what `may_change`.
    """

    default: Any
    kind: type
    within: tuple[float, float] = (0, 0)
    words: tuple[str, ...] = ()
    even: bool = False
    is_size: bool = False
    group: str
    help: str = ""
    flag: str | tuple[str, ...] | None = None
    may_change: bool = False

    @property
    def limits(self) -> str:
        if self.kind is bool:
            return "true or false"
        if self.kind is tuple:
            return "names, separated by commas"
        if self.kind is str:
            return ", ".join(self.words) or "text"
        ends = (show_size(int(one)) if self.is_size else f"{one:g}" for one in self.within)
        example = ", as in 2GiB" if self.is_size else ""
        return " to ".join(ends) + example + "".join(f", or {word}" for word in self.words)

    @property
    def shown_default(self) -> str | None:
        """The default as a user writes it; None where there is none."""
        if self.kind is tuple:
            return None
        if self.default is None or self.kind is bool:
            return None if self.default is None else str(self.default).lower()
        is_number = self.is_size and self.default not in self.words
        return show_size(self.default) if is_number else str(self.default)

    def read(self, name: str, text: str) -> Any:
        """The value that a text stands for; where it stands for none, itself, for `check`."""
        if self.kind is tuple:
            return tuple(filter(None, map(str.strip, text.split(","))))
        if text in self.words or self.kind in (bool, str):
            return text
        if self.is_size:
            return parse_size(name, text)
        try:
            return float(text) if self.kind is float else parse_whole(text)
        except ValueError:
            return text

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that the setting does not take."""
        is_word = isinstance(value, str) and value in self.words
        if is_word or (value is None and self.default is None):
            return
        if fault := self._find_fault(value):
            raise UsageError(f"{name}: {shown(value)} {fault}")

    def _find_fault(self, value: Any) -> str | None:
        if self.kind is tuple:
            names = isinstance(value, tuple) and all(isinstance(one, str) for one in value)
            return None if names else "is no list of names; give names of columns"
        if self.kind is str and self.words:
            return f"is unknown; use one of {self.limits}"
        if self.kind is str:
            return None if isinstance(value, str) else "is not text; give a string"
        if self.kind is bool:
            return None if isinstance(value, bool) else "is not True or False; use one of them"
        number, noun = (Integral, "whole number") if self.kind is int else (Real, "number")
        is_number = isinstance(value, number) and not isinstance(value, bool)
        if not is_number:
            return f"is not a {noun}; use one from {self.limits}"
        low, high = self.within
        if not low <= value <= high:
            return f"is out of range; use {self.limits}"
        return f"is odd; use an even degree from {self.limits}" if self.even and value % 2 else None


def setting(default: Any, kind: type, within: tuple[float, float] = (0, 0), **declared: Any) -> Any:
    declaration = Setting(default=default, kind=kind, within=within, **declared)
    return field(default=default, metadata={"setting": declaration})


def plain(value: Any) -> Any:
    """The value as Python has it: numbers of NumPy overflow, and have no place in a document."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def check_names(given: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse names that are not known, with the nearest one that is."""
    for name in given:
        if name not in known:
            begun = [one for one in known if str(name).startswith(one)]  # epsilon for eps
            close = begun or difflib.get_close_matches(str(name), known, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise UsageError(f"{where}: unknown parameter {shown(name)}; {hint}")


def parse_whole(text: str) -> int:
    """A whole number, also as 1e6 or 1_000_000."""
    with suppress(ArithmeticError, ValueError):
        value = Decimal(text)
        if abs(value) < _LARGEST_WHOLE and value == int(value):
            return int(value)
    raise ValueError(f"{text!r} is not a whole number; write 1000000 or 1e6")


def parse_size(name: str, text: str) -> int:
    """Bytes from 2GiB, 512M or 1000000."""
    number = text.strip().lower().removesuffix("ib").removesuffix("b")
    unit = number[-1:] if number[-1:] in _UNITS else ""
    try:
        return int(float(number.removesuffix(unit)) * _UNITS[unit])
    except (ValueError, OverflowError):
        raise UsageError(f"{name}: {text!r} is not a size; write 2GiB or 500MiB") from None


def show_size(nbytes: int) -> str:
    """2GiB for 2 << 30: a number of KiB, in the largest unit that leaves no fraction."""
    size, unit = max((size, unit) for unit, size in _UNITS.items() if nbytes % size == 0)
    return f"{nbytes // size}{unit.upper()}iB"


_learning = partial(setting, group="learning")
_statistics = partial(setting, group="statistics")
_certificate = partial(setting, group="certificate")
_where = partial(setting, group="where it runs", may_change=True)
_names = partial(setting, group="names")
_tables = partial(setting, group="tables")


def draw_seed() -> int:
    return secrets.randbits(_SEED_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of a run.

    Parameters
    ----------
    eps
        accuracy that the tests are to judge, the eps in C opt + eps; auto for the finest that the rows can
        judge. A run that cannot judge the eps given is not accepted
    tau
        probability of a wrong statement, for all that a run says: half of it that true N(0, I) data are not
        accepted, a quarter each that the upper bound of the error, or L of the source of the rows, does not
        hold (of certify, half each)
    degree
        even degree k of the moment test
    moment_tolerance
        largest normalised Hermite moment that soundness allows
    spectral_tolerance
        largest operator norm of the second-moment matrix minus I
    quadratics_tolerance
        largest operator norm of the mean square of all quadratics minus I; the constant in C opt + eps grows
        with it
    feature_transform
        transform of the rows before they are tested: stored (none), isotropic (about their mean, with
        covariance I), radial (about a centre, directions spread evenly, lengths and signs drawn anew: for heavy
        tails; halfspaces go through the centre), or auto (the first of these that a sample does not rule out,
        and the next where the tests reject)
    centre
        centre of the radial transform: origin, mean, or auto to estimate it with the spread of directions
    whiten
        short for feature_transform isotropic
    schedule
        how the scale of the localisation shrinks: adaptive (it halves after a small step) or halving (the
        paper's, from 1/100)
    through
        the halfspaces to learn among: any (with a threshold), or those through one point: the origin, or the
        centre (the mean of the features with whiten, else the origin)
    sampling
        how passes that learn share their rows: disjoint windows of neighbouring rows, disjoint single rows,
        reuse (the same single rows in every such pass), or auto (reuse up to 2^20 rows or where rows come in an
        order, else windows); the rows that decide are held out in any case
    certificate_degree
        even degree of the slab moments behind the certificate: 0 for no certificate, auto for 6 up to 10
        features, else 4, and sets of rows in conflict beside it where those tell more
    certificate_rows
        rows behind the certificate's moments: all, a number (drawn one by one from all), or auto for all up to
        the larger of 2^22 and 300 d² / error; all rows are read and enter the digest
    certificate_effort
        how hard to search for the certificate's lower bound, in units of the usual number of operations, which
        take about as long as the passes; more gives a tighter bound
    certificate_memory
        bytes that the slabs of the certificate may take in one task; more gives finer slabs and a larger L
        where features are many
    max_ratio
        largest certified ratio U/L that makes a verdict certified where the tests do not accept the features
    stop_early
        end where the tests reject, without another transform and without certificate
    seed
        seed of all randomness (random_state in Python): auto to draw it and record it, or that of a run to be
        repeated. With a seed known before the labels are fixed, exactly the rows that learning looks at can be
        flipped, and the promise is void
    scheduler
        serial, threads, processes, or the address or file of a Dask scheduler; auto for the active Dask client,
        or else threads
    n_workers
        threads or processes on this machine; without it, one per core
    memory_limit
        bytes that the tasks of one process may take at most, beside 320 MiB of Python and its libraries; auto
        for what the machine, its control group or the Dask worker has. With less, fewer tasks run at once; no
        answer depends on it
    cache
        folder for chunks that were fetched from object storage and do not fit into memory, so that no pass
        fetches them again; emptied at the end of the run
    worker_timeout
        seconds to wait for workers where a cluster has none: adaptive clusters and batch queues start them for
        tasks that wait
    stall_timeout
        seconds without the end of a task, and without a worker that executes one, after which a pass on a
        cluster is given up; ten times as long while workers execute tasks
    dashboard_page
        add the page /streamhalf to the dashboard of a cluster's scheduler, which installs a plugin there; false
        for a scheduler that is shared
    split_every
        partial results combined by one task
    features
        name of the array of the features
    labels
        name of the array of the labels; the column of a table is --label
    columns
        columns of a table to make features of; all but the label without it
    drop
        columns of a table to leave out
    positive
        label that is +1, all others together are -1; needed where there are more than two
    encode
        how columns of a table become features: auto (text as indicators of its values, dates as days and cyclic
        parts, constants and identifiers left out), or none (numbers as they are)
    missing
        rows with gaps: drop (leave them out), fill (the median, with an indicator beside it), refuse, or auto
        (fill in tables that are encoded, else refuse)
    """

    eps: float | str = _learning("auto", float, (SMALLEST_EPS, LARGEST_EPS), words=("auto",))
    tau: float = _statistics(0.01, float, (1e-12, 0.5))
    degree: int = _statistics(4, int, (2, 8), even=True)
    moment_tolerance: float = _statistics(0.1, float, (1e-6, 1.0))
    spectral_tolerance: float = _statistics(0.3, float, (1e-6, 1.0))
    quadratics_tolerance: float = _statistics(0.2, float, (1e-6, 1.0))
    feature_transform: str = _statistics("auto", str, words=("auto", *(one.value for one in Transform)))
    centre: str = _statistics("auto", str, words=("auto", "origin", "mean"))
    whiten: bool = _statistics(False, bool)
    schedule: str = _learning("adaptive", str, words=("adaptive", "halving"))
    through: str = _learning("any", str, words=tuple(HalfspaceClass))
    sampling: str = _learning("auto", str, words=("auto", "windows", "rows", "reuse"))
    certificate_degree: int | str = _certificate("auto", int, (0, 8), words=("auto",), even=True)
    certificate_rows: int | str = _certificate("auto", int, (LEAST_CERTIFICATE_ROWS, 2**62), words=("auto", "all"))
    certificate_effort: float = _certificate(1.0, float, (1e-3, 100.0))
    certificate_memory: int = _certificate(512 << 20, int, (1 << 20, 1 << 50), is_size=True)
    max_ratio: float = _certificate(2.0, float, (1.0, 1e6))
    stop_early: bool = _learning(False, bool)
    seed: int = _statistics("auto", int, (0, 2**63 - 1), words=("auto",))  # a number in every configuration
    scheduler: str = _where(AUTO, str, flag=("--scheduler", "--scheduler-file"))
    n_workers: int | None = _where(None, int, (1, 4096), flag="--workers")
    memory_limit: int | str = _where("auto", int, (1 << 20, 1 << 50), words=("auto",), is_size=True)
    cache: str | None = _where(None, str)
    worker_timeout: float = _where(300.0, float, (0.1, 1e7))
    stall_timeout: float = _where(300.0, float, (0.1, 1e7))
    dashboard_page: bool = _where(True, bool)
    split_every: int = _where(8, int, (2, 256), may_change=False)
    features: str = _names("X", str)
    labels: str = _names("y", str)
    columns: tuple[str, ...] = _tables((), tuple)
    drop: tuple[str, ...] = _tables((), tuple)
    positive: str | None = _tables(None, str)
    encode: str = _tables("auto", str, words=("auto", "none"))
    missing: str = _tables("auto", str, words=("auto", "drop", "fill", "refuse"))
    seed_drawn: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        cache: Any = self.cache
        if isinstance(cache, os.PathLike):
            object.__setattr__(self, "cache", os.fspath(cache))
        for name, declared in SETTINGS.items():
            given = getattr(self, name)
            if declared.kind is tuple:
                given = (given,) if isinstance(given, str) else tuple(given)
            elif name == "positive" and given is not None:
                given = str(given)
            if declared.is_size and isinstance(given, str):  # as a flag or a file says it
                given = declared.read(name, given)
            declared.check(name, given)
            object.__setattr__(self, name, plain(given))
        if self.whiten and self.feature_transform == Transform.RADIAL:
            raise UsageError("whiten: stands for feature_transform isotropic, but it is radial; give one of them")
        if self.whiten:
            object.__setattr__(self, "feature_transform", Transform.ISOTROPIC.value)
        asked: Any = self.seed
        if asked == "auto":
            object.__setattr__(self, "seed_drawn", True)
        object.__setattr__(self, "seed", draw_seed() if asked == "auto" else int(asked))

    def recorded(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SETTINGS}

    def identity(self) -> dict[str, Any]:
        """Return the settings that must agree for a run to be resumed."""
        found = {n: getattr(self, n) for n, said in SETTINGS.items() if not said.may_change}
        return {n: list(one) if isinstance(one, tuple) else one for n, one in found.items()}


_HELP = dict(re.findall(r"^(\w+)\n((?:    .+\n?)+)", inspect.cleandoc(RunConfig.__doc__ or ""), re.MULTILINE))

SETTINGS: Mapping[str, Setting] = {
    one.name: replace(one.metadata["setting"], help=" ".join(_HELP.get(one.name, "").split()))
    for one in fields(RunConfig)
    if one.metadata
}
"""The declarations by name, in the order of the docs."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Settings of a run by name, and options of the storage."""

    parameters: Mapping[str, Any]
    storage_options: Mapping[str, Any] | None


def load_config(path: str | os.PathLike[str]) -> ConfigFile:
    """Read a YAML file of `RunConfig` fields and, if it likes, `storage_options`.

    Text is read as the text of a flag is: 2GiB is a size, and 1e-3 a number, which YAML 1.1 takes
    for text because it has no point.
    """
    import yaml  # where there is a file

    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read(_LARGEST_FILE + 1)
        if len(text) > _LARGEST_FILE:
            raise UsageError(f"{name}: more than {_LARGEST_FILE} characters; not a configuration")
        content = yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
    # ValueError: a date that is none, or a number of thousands of digits
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{name}: not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise UsageError(f"{name}: expected 'name: value' lines, got {type(content).__name__}")
    options = content.pop("storage_options", None)
    if options is not None and not isinstance(options, dict):
        raise UsageError(f"{name}: storage_options: expected 'name: value' lines")
    check_names(content, (*SETTINGS, LABEL), name)
    return ConfigFile(read_settings(content), options)


def read_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, where text is read as the text of a flag is."""
    return {
        name: SETTINGS[name].read(name, value) if isinstance(value, str) and name != LABEL else value
        for name, value in given.items()
    }


def environment_settings() -> dict[str, Any]:
    """Settings in environment variables: STREAMHALF_EPS=0.1, STREAMHALF_WHITEN=true."""
    found: dict[str, Any] = {}
    for name, declared in SETTINGS.items():
        if text := os.environ.get(variable := VARIABLES + name.upper()):
            value = declared.read(variable, text)
            if declared.kind is bool:
                value = {"true": True, "false": False}.get(text.lower(), text)
            declared.check(variable, value)
            found[name] = value
    return found
