"""`RunConfig`: every setting of a run, each declared once; and YAML files of them."""

from __future__ import annotations

import os
import secrets
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from streamhalf.errors import UsageError
from streamhalf.results.codes import HalfspaceClass, Transform
from streamhalf.settings import Setting, check_names, plain, setting

SMALLEST_EPS, LARGEST_EPS = 1e-6, 0.25

LEAST_CERTIFICATE_ROWS = 1 << 16
"""Of fewer, L of the source would be lower by more than 0.7% of the rows."""

AUTO = "auto"
"""The scheduler that nobody named: the active client, if there is one."""

VARIABLES = "STREAMHALF_"
"""What the names of environment variables begin with; the rest is a setting in capitals."""

TOP = 100_000
"""Suspects that an audit lists unless more are asked for."""

_LARGEST_FILE = 1 << 20

_SEED_BITS = 53
"""Of a drawn seed: a number that JSON keeps exact in every language."""

_learning = partial(setting, group="learning")
_statistics = partial(setting, group="statistics")
_certificate = partial(setting, group="certificate")
_where = partial(setting, group="where it runs")
_names = partial(setting, group="names")
_tables = partial(setting, group="tables")


def draw_seed() -> int:
    """A seed that nobody can have known."""
    return secrets.randbits(_SEED_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of a run."""

    eps: float | str = _learning(
        "auto",
        float,
        (SMALLEST_EPS, LARGEST_EPS),
        words=("auto",),
        help="accuracy that the tests are to judge, the eps in C opt + eps; a run that cannot is "
        "not accepted (but certified if its certificate proves a factor, else inconclusive or "
        "rejected); auto for the finest that the rows can judge",
    )
    tau: float = _statistics(
        0.01,
        float,
        (1e-12, 0.5),
        help="probability of a wrong statement, for all that a run says: half of it that true N(0, "
        "I) data are not accepted, a quarter each that the upper bound of the error, or L of the "
        "source of the rows, does not hold (of certify, half each)",
    )
    degree: int = _statistics(4, int, (2, 8), even=True, help="even degree k of the moment test")
    moment_tolerance: float = _statistics(
        0.1, float, (1e-6, 1.0), help="largest normalised Hermite moment that soundness allows"
    )
    spectral_tolerance: float = _statistics(
        0.3,
        float,
        (1e-6, 1.0),
        help="largest operator norm of the second-moment matrix minus I",
    )
    quadratics_tolerance: float = _statistics(
        0.2,
        float,
        (1e-6, 1.0),
        help="largest operator norm of the mean square of all quadratics minus I; the constant in "
        "C opt + eps grows with it",
    )
    feature_transform: str = _statistics(
        "auto",
        str,
        words=("auto", *(one.value for one in Transform)),
        help="how rows are laid before they are tested: auto (the first of the following that a "
        "sample does not rule out, and the next where the tests reject), stored (as they are), "
        "isotropic (about their mean, with covariance I) or radial (about a centre, directions "
        "spread evenly, distances and signs drawn anew: for heavy tails; halfspaces go through the "
        "centre)",
    )
    centre: str = _statistics(
        "auto",
        str,
        words=("auto", "origin", "mean"),
        help="centre of the radial transform: auto to estimate it with the spread of directions, "
        "origin, or mean",
    )
    whiten: bool = _statistics(False, bool, help="short for transform isotropic")
    mode: str = _learning(
        "practical",
        str,
        words=("practical", "strict"),
        help="practical, or strict for the paper's own parameters (which no data set can meet)",
    )
    schedule: str = _learning(
        "adaptive",
        str,
        words=("adaptive", "halving"),
        help="how the scale of the localisation shrinks: adaptive (it halves after a small step) "
        "or halving (the paper's, from 1/100)",
    )
    through: str = _learning(
        "any",
        str,
        words=tuple(HalfspaceClass),
        help="the halfspaces to learn among: any (with a threshold), or those through one point, "
        "the centre (the mean of the features with whiten, else the origin) or the origin",
    )
    sampling: str = _learning(
        "auto",
        str,
        words=("auto", "windows", "rows", "reuse"),
        help="how passes that learn share their rows: disjoint windows of neighbouring rows, "
        "disjoint single rows, reuse (single rows, the same ones in every such pass), or auto "
        "(reuse up to 2^20 rows or where rows come in an order, else windows); the rows that "
        "decide are held out in any case",
    )
    certificate_degree: int | str = _certificate(
        "auto",
        int,
        (0, 8),
        words=("auto",),
        even=True,
        help="even degree of the slab moments behind the certificate; 0 for no certificate, auto "
        "for what costs little: 6 up to 10 features, else 4, and sets of rows in conflict beside "
        "it where those tell more",
    )
    certificate_rows: int | str = _certificate(
        "auto",
        int,
        (LEAST_CERTIFICATE_ROWS, 2**62),
        words=("auto", "all"),
        help="rows behind the certificate's moments: all, a number (drawn one by one from "
        "all), or auto for all up to the larger of 2^22 and 300 d² / error; all rows are read and "
        "enter the digest",
    )
    certificate_effort: float = _certificate(
        1.0,
        float,
        (1e-3, 100.0),
        help="how hard to search for the certificate's lower bound, in units of the usual number "
        "of operations, which take about as long as the passes; more gives a tighter bound",
    )
    certificate_memory: int = _certificate(
        512 << 20,
        int,
        (1 << 20, 1 << 50),
        is_size=True,
        help="bytes that the slabs of the certificate may take in one task; more gives finer slabs "
        "and a larger L where features are many",
    )
    max_ratio: float = _certificate(
        2.0,
        float,
        (1.0, 1e6),
        help="where the tests do not vouch for the features, a certified ratio U/L up to this "
        "makes the verdict certified",
    )
    stop_early: bool = _learning(
        False,
        bool,
        help="end where the tests reject, without trying another transform and without certificate",
    )
    # a number in every configuration: where none is given, one is drawn
    seed: int = _statistics(
        "auto",
        int,
        (0, 2**63 - 1),
        words=("auto",),
        help="seed of all randomness: auto to have it drawn by the operating system and recorded, "
        "or that of a run to be repeated; whoever knows the seed before the labels are fixed can "
        "flip exactly the rows that learning will look at, and the promise is void",
    )
    scheduler: str = _where(
        AUTO,
        str,
        flag=("--scheduler", "--scheduler-file"),
        may_change=True,
        help="serial, threads, processes, or the address or file of a Dask scheduler; auto for the "
        "active Dask client, or else threads",
    )
    n_workers: int | None = _where(
        None,
        int,
        (1, 4096),
        flag="--workers",
        may_change=True,
        help="threads or processes on this machine; without it, one per core",
    )
    memory_limit: int | str = _where(
        "auto",
        int,
        (1 << 20, 1 << 50),
        words=("auto",),
        is_size=True,
        may_change=True,
        help="bytes that the tasks of one process may take at most, beside 200 MiB of Python and "
        "its libraries; auto for what the machine, its control group or the Dask worker has. With "
        "less, fewer tasks run at once; no answer depends on it",
    )
    cache: str | None = _where(
        None,
        str,
        may_change=True,
        help="folder for chunks that were fetched from object storage and do not fit into memory, "
        "so that no pass fetches them again; emptied at the end of the run",
    )
    worker_timeout: float = _where(
        300.0,
        float,
        (0.1, 1e7),
        may_change=True,
        help="seconds to wait for workers where a cluster has none: adaptive clusters and batch "
        "queues start them for tasks that wait",
    )
    stall_timeout: float = _where(
        300.0,
        float,
        (0.1, 1e7),
        may_change=True,
        help="seconds without the end of a task, and without a worker that executes one, after "
        "which a pass on a cluster is given up; ten times as long while workers execute tasks",
    )
    dashboard_page: bool = _where(
        True,
        bool,
        may_change=True,
        help="add the page /streamhalf to the dashboard of a cluster's scheduler, which installs a "
        "plugin there; false for a scheduler that is shared",
    )
    split_every: int = _where(8, int, (2, 256), help="partial results combined by one task")
    features: str = _names("X", str, help="name of the array of the features")
    labels: str = _names(
        "y",
        str,
        flag=("--labels", "--label"),
        help="name of the array of the labels, or of their column in a table",
    )
    columns: tuple[str, ...] = _tables(
        (), tuple, help="columns of a table to make features of; all but the label without it"
    )
    drop: tuple[str, ...] = _tables((), tuple, help="columns of a table to leave out")
    positive: str | None = _tables(
        None,
        str,
        help="label that is +1, all others together are -1; needed where there are more than two",
    )
    encode: str = _tables(
        "auto",
        str,
        words=("auto", "none"),
        help="how columns of a table become features: auto (text as indicators of its values, "
        "dates as days and cyclic parts, constants and identifiers left out), or none (numbers as "
        "they are)",
    )
    missing: str = _tables(
        "auto",
        str,
        words=("auto", "drop", "fill", "refuse"),
        help="rows with gaps: drop (leave them out), fill (the median, with an indicator beside "
        "it), refuse, or auto (fill in tables that are encoded, else refuse)",
    )

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
            raise UsageError(
                "whiten: stands for feature_transform isotropic, but feature_transform is radial; give one "
                "of them"
            )
        if self.whiten:
            object.__setattr__(self, "feature_transform", Transform.ISOTROPIC.value)
        asked: Any = self.seed
        object.__setattr__(self, "seed", draw_seed() if asked == "auto" else int(asked))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all settings."""
        return tuple(SETTINGS)

    def recorded(self) -> dict[str, Any]:
        """Every setting by name, as plain values."""
        return {name: getattr(self, name) for name in SETTINGS}

    def identity(self) -> dict[str, Any]:
        """What must agree for a run to be resumed."""
        return {n: getattr(self, n) for n, said in SETTINGS.items() if not said.may_change}


SETTINGS: Mapping[str, Setting] = {one.name: one.metadata["setting"] for one in fields(RunConfig)}
"""The declarations by name, in the order of the docs."""

RunConfig.__doc__ = "Settings of a run.\n\nParameters\n----------\n" + "\n".join(
    f"{name}\n" + textwrap.fill(declared.help, 96, initial_indent="    ", subsequent_indent="    ")
    for name, declared in SETTINGS.items()
)


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
    check_names(content, RunConfig.names(), name)
    return ConfigFile(read_settings(content), options)


def read_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, where text is read as the text of a flag is."""
    return {
        name: SETTINGS[name].read(name, value) if isinstance(value, str) else value
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
