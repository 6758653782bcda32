"""Base of all records: frozen values with types that are checked when they are read."""

from __future__ import annotations

import math
import re
import threading
from reprlib import repr as shown
from typing import Any, TypeVar

import msgspec
import numpy as np

from streamhalf.errors import DataError

T = TypeVar("T")

replace = msgspec.structs.replace
"""A record with some fields changed."""

_CONVERTING = threading.Lock()
"""What msgspec knows of a class is built at its first use, which must not be two threads'."""

_LARGEST = float(np.finfo(np.float64).max)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that goes to JSON and comes back as data only.

    Numbers in it are finite, or None where there is none.
    """


def finite(value: float) -> float:
    """The nearest number that JSON can hold; what is no number at all counts as huge."""
    return _LARGEST if math.isnan(value) else min(max(float(value), -_LARGEST), _LARGEST)


def to_json(value: Any) -> Any:
    """Turn records into what `json.dumps` takes."""
    return msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)


def from_json(cls: type[T], data: Any, *, where: str = "document") -> T:
    """Rebuild a record of class `cls`; whatever does not fit is named, with its place."""
    try:
        with _CONVERTING:
            return msgspec.convert(data, cls)
    except (msgspec.ValidationError, RecursionError) as error:
        what, _, place = str(error).replace("`", "").partition(" - at $")
        # a function, for in a plain replacement a backslash would count
        what = re.sub(r"got \w+$", lambda _: f"got {shown(_find(data, place))}", what)
        raise DataError(f"{where}{place}: {what[:1].lower()}{what[1:]}") from None


def _find(data: Any, place: str) -> Any:
    """The value at a place such as .passes[0].name."""
    for key, number in re.findall(r"\.(\w+)|\[(\d+)\]", place):
        data = data[int(number)] if number else data[key]
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a record")
