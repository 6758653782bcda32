"""Records to JSON and back: data only, every field checked against its type."""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from reprlib import repr as shown
from typing import Any, TypeVar

import numpy as np

from streamhalf.errors import DataError

T = TypeVar("T")

KEY = "key"
"""Metadata of a field that has another name in JSON."""


def to_json(value: Any) -> Any:
    """Turn records into what `json.dumps` takes; a number that is not finite becomes null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {_key(one): to_json(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def from_json(cls: type[T], data: Any, *, where: str = "document") -> T:
    """Rebuild a record of class `cls`; whatever does not fit is named, with its place."""
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls} is no record")
    if not isinstance(data, dict):
        raise DataError(f"{where}: expected an object, got {type(data).__name__}")
    fields = {_key(one): one for one in dataclasses.fields(cls)}
    if unknown := sorted(set(data) - set(fields)):
        raise DataError(f"{where}: unknown key {shown(unknown[0])}; expected {', '.join(fields)}")
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, one in fields.items():
        if key in data:
            values[one.name] = _decode(hints[one.name], data[key], f"{where}.{key}")
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise DataError(f"{where}: key {key!r} is missing")
    if "schema" in values and values["schema"] != fields["schema"].default:
        raise DataError(
            f"{where}.schema: {shown(values['schema'])} is another kind of document; expected "
            f"{fields['schema'].default!r}"
        )
    return cls(**values)


def _key(one: dataclasses.Field[Any]) -> str:
    """What a field is called in JSON."""
    return str(one.metadata.get(KEY, one.name))


def _decode(hint: Any, data: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if data is None and type(None) in arguments:
            return None
        return _decode(next(arg for arg in arguments if arg is not type(None)), data, where)
    if origin is tuple:
        if not isinstance(data, list):
            raise DataError(f"{where}: expected a list, got {type(data).__name__}")
        return tuple(_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast("type[Any]", hint), data, where=where)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(data)
        except ValueError:
            known = ", ".join(str(member.value) for member in hint)
            raise DataError(f"{where}: {shown(data)} is not one of {known}") from None
    return _decode_plain(hint, data, where)


def _decode_plain(hint: Any, data: Any, where: str) -> Any:
    if hint is float and data is None:
        return math.nan
    if hint is float and isinstance(data, int | float) and not isinstance(data, bool):
        try:
            return float(data)
        except OverflowError:
            raise DataError(f"{where}: a whole number too large for a float") from None
    if isinstance(data, hint) and isinstance(data, bool) == (hint is bool):
        return data
    raise DataError(f"{where}: expected {hint.__name__}, got {shown(data)}")
