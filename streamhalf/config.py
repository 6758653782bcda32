"""`RunConfig`: every parameter of a run, validated; the only home of defaults."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from reprlib import repr as shown
from typing import Any

import yaml

from streamhalf.errors import UsageError
from streamhalf.records.codes import Position

CHOICES = {
    "mode": ("practical", "strict"),
    "schedule": ("adaptive", "halving"),
    "rows": ("auto", "chunks", "rows", "reuse"),
}
"""Parameters that take one of a few words."""

LEAST_CERTIFICATE_ROWS = 1 << 16
"""64 windows: that none of them is taken has a chance below 1e-27."""

_REAL = ("eps", "tau", "moment_tolerance", "spectral_tolerance", "max_ratio")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Parameters of a run.

    Parameters
    ----------
    eps
        Accuracy to be judged, or "auto" for the smallest that the rows can judge.
    tau
        Probability of a wrong statement: that true N(0, I) data are not accepted (shared over all
        tests of the run), or that a bound on the source of the rows does not hold.
    degree
        Even degree k of the moment test (Algorithm 1).
    moment_tolerance
        Largest normalised Hermite moment that soundness allows.
    spectral_tolerance
        Largest operator norm of the (Hermite) second-moment matrix minus I.
    whiten
        Estimate mean and covariance first and test the whitened features.
    mode
        "practical", or "strict" for the paper's own parameters (which no data set can meet).
    schedule
        "adaptive" (delta halves after a small step) or "halving" (the paper's, from 1/100).
    rows
        How passes share rows: "auto" (disjoint chunks where they are exchangeable, else sampled
        rows), "chunks", "rows" or "reuse" (all rows in every pass, for small data).
    certificate_degree
        Even degree of the slab moments behind the certificate; 0 for no certificate, "auto" for
        what costs little: 6 up to 6 features, else 4.
    certificate_rows
        Rows behind the certificate's moments: "all", a number (taken in windows of 1,024 rows
        spread over the data), or "auto" for all up to the larger of 2^23 and 300 d² / error. All
        rows are read and enter the digest.
    max_ratio
        Accept only if the certified ratio U/L is at most this; None for no such demand.
    seed
        Seed of all randomness.
    scheduler
        "serial", "threads", "processes", or the address of a Dask scheduler.
    n_workers
        Threads or processes on this machine; None means one per core.
    memory_limit
        Bytes one worker process may use.
    split_every
        Partials combined by one task.
    features, labels
        Names of the two arrays in a store.
    """

    eps: float | str = "auto"
    tau: float = 0.01
    degree: int = 4
    moment_tolerance: float = 0.1
    spectral_tolerance: float = 0.3
    whiten: bool = False
    mode: str = "practical"
    schedule: str = "adaptive"
    rows: str = "auto"
    certificate_degree: int | str = "auto"
    certificate_rows: int | str = "auto"
    max_ratio: float | None = None
    seed: int = 0
    scheduler: str = "threads"
    n_workers: int | None = None
    memory_limit: int = 2 << 30
    split_every: int = 8
    features: str = "X"
    labels: str = "y"

    def __post_init__(self) -> None:
        if self.eps != "auto":
            _within("eps", self.eps, 1e-4, 0.25)
        for name, choices in CHOICES.items():
            _one_of(name, getattr(self, name), choices)
        _within("tau", self.tau, 1e-12, 0.5)
        _whole("degree", self.degree, 2, 8)
        if self.degree % 2:
            raise UsageError(f"degree: {self.degree} is odd; use an even degree from 2 to 8")
        _check_certificate_degree(self.certificate_degree)
        if self.certificate_rows not in ("auto", "all"):
            if isinstance(self.certificate_rows, str):
                raise UsageError(
                    f"certificate_rows: {shown(self.certificate_rows)} is no number of rows; use "
                    f"auto, all or a whole number from {LEAST_CERTIFICATE_ROWS}"
                )
            _whole("certificate_rows", self.certificate_rows, LEAST_CERTIFICATE_ROWS, 2**62)
        if self.max_ratio is not None:
            _within("max_ratio", self.max_ratio, 1.0, 1e6)
            if self.certificate_degree == 0:
                raise UsageError("max_ratio: needs a certificate; set certificate_degree to auto")
        _within("moment_tolerance", self.moment_tolerance, 1e-6, 1.0)
        _within("spectral_tolerance", self.spectral_tolerance, 1e-6, 1.0)
        _whole("seed", self.seed, 0, 2**63 - 1)
        if self.n_workers is not None:
            _whole("n_workers", self.n_workers, 1, 4096)
        _check_memory_limit(self.memory_limit)
        _whole("split_every", self.split_every, 2, 256)
        if not isinstance(self.whiten, bool):
            raise UsageError(f"whiten: {shown(self.whiten)} is not True or False; use one of them")
        for name in ("scheduler", "features", "labels"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"{name}: {shown(getattr(self, name))} is not text; give a string")

    @property
    def position(self) -> Position:
        """How rows are laid before they are tested."""
        return Position.ISOTROPIC if self.whiten else Position.STORED

    def identity(self) -> dict[str, Any]:
        """What must agree for a run to go on with another's passes."""
        where_it_runs = {"scheduler", "n_workers", "memory_limit"}
        return {name: getattr(self, name) for name in self.names() if name not in where_it_runs}

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all parameters."""
        return tuple(field.name for field in fields(cls))


def check_names(given: Iterable[str], known: tuple[str, ...], where: str) -> None:
    """Refuse names that are not known, with the nearest one that is."""
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise UsageError(f"{where}: unknown parameter {shown(name)}; {hint}")


def parse_size(name: str, text: str) -> int:
    """Bytes from 2GiB, 512M or 1000000."""
    number = text.strip().lower().removesuffix("ib").removesuffix("b")
    unit = number[-1:] if number[-1:] in _UNITS else ""
    try:
        return int(float(number.removesuffix(unit)) * _UNITS[unit])
    except (ValueError, OverflowError):
        raise UsageError(f"{name}: {text!r} is not a size; write 2GiB or 500MiB") from None


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Parameters of a run by name, and options of the storage."""

    parameters: Mapping[str, Any]
    storage_options: Mapping[str, Any] | None


def load_config(path: str | os.PathLike[str]) -> ConfigFile:
    """Read a YAML file of `RunConfig` fields and, if it likes, `storage_options`."""
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
    if isinstance(content.get("memory_limit"), str):
        content["memory_limit"] = parse_size("memory_limit", content["memory_limit"])
    for real in _REAL:
        # YAML 1.1 takes 1e-3 for text, because it has no point
        if re.fullmatch(r"[0-9]+[eE][-+]?[0-9]+", str(content.get(real))):
            content[real] = float(content[real])
    return ConfigFile(content, options)


def _check_certificate_degree(degree: Any) -> None:
    if degree == "auto":
        return
    if isinstance(degree, str):
        raise UsageError(
            f"certificate_degree: {shown(degree)} is no degree; use auto, 0, 2, 4, 6 or 8"
        )
    _whole("certificate_degree", degree, 0, 8)
    if degree % 2:
        raise UsageError(f"certificate_degree: {degree} is odd; use auto, 0, 2, 4, 6 or 8")


def _check_memory_limit(limit: Any) -> None:
    low, high = 1 << 20, 1 << 50
    if isinstance(limit, int) and limit is not True and not low <= limit <= high:
        raise UsageError(f"memory_limit: {limit} is out of range; use 1MiB to 1024TiB, as in 2GiB")
    _whole("memory_limit", limit, low, high)


def _whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(
            f"{name}: {shown(value)} is not a whole number; use one from {low} to {high}"
        )
    _within(name, value, low, high)


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name}: {shown(value)} is unknown; use one of {', '.join(choices)}")


def _within(name: str, value: Any, low: float, high: float) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number:
        raise UsageError(
            f"{name}: {shown(value)} is not a number; use one from {low:g} to {high:g}"
        )
    if not low <= value <= high:
        raise UsageError(f"{name}: {shown(value)} is out of range; use {low:g} to {high:g}")
