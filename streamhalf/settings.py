"""A setting: type, default, range and help, declared once for Python, YAML, flags and docs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from reprlib import repr as shown
from typing import Any

from streamhalf.errors import UsageError

_LARGEST_WHOLE = 1 << 63
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The declaration of a setting.

    Parameters
    ----------
    default
        Its value where nobody gives one; where this is None, None may be given too.
    kind
        float, int, bool or str.
    within
        The range of a number, both ends included.
    words
        Words taken beside numbers; of a text, the only ones that are taken.
    even, is_size
        Whether a whole number must be even, or is a number of bytes (2GiB).
    group
        Settings of one group stand together in the docs and in the help of a command.
    help
        One sentence without its full stop.
    flag
        The flag of the command line, or several for the same, where it is not the name.
    may_change
        Whether a run may be resumed with another value.
    """

    default: Any
    kind: type
    within: tuple[float, float] = (0, 0)
    words: tuple[str, ...] = ()
    even: bool = False
    is_size: bool = False
    group: str
    help: str
    flag: str | tuple[str, ...] | None = None
    may_change: bool = False

    @property
    def limits(self) -> str:
        """What it takes, in words."""
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
    """A dataclass field that declares a `Setting`."""
    declaration = Setting(default=default, kind=kind, within=within, **declared)
    return field(default=default, metadata={"setting": declaration})


def plain(value: Any) -> Any:
    """The value as Python has it: numbers of NumPy overflow, and have no place in a document."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def check_names(given: Iterable[str], known: tuple[str, ...], where: str) -> None:
    """Refuse names that are not known, with the nearest one that is."""
    for name in given:
        if name not in known:
            begun = [one for one in known if str(name).startswith(one)]  # epsilon for eps
            close = begun or difflib.get_close_matches(str(name), known, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            raise UsageError(f"{where}: unknown parameter {shown(name)}; {hint}")


def parse_whole(text: str) -> int:
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
