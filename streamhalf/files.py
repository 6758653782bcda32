"""Files appear whole or not at all: written to a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

from streamhalf.errors import DataError, StreamhalfError
from streamhalf.records import from_json, to_json

T = TypeVar("T")

_LARGEST_RECORD = 64 << 20


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    target = Path(path)
    if target.exists() and not target.is_file():
        _write_through(target, text)
        return
    target = target.resolve()  # a link stays a link
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _write_through(target: Path, text: str) -> None:
    """Write to a pipe or device, which a rename would replace by a plain file."""
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error


def write_json(path: str | os.PathLike[str], record: Any) -> None:
    """Write a record as JSON, atomically."""
    write_text(path, json.dumps(to_json(record), indent=2, allow_nan=False) + "\n")


def read_record(cls: type[T], path: str | os.PathLike[str]) -> T:
    """Read a record from a JSON file, as data only and of bounded size."""
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read(_LARGEST_RECORD + 1)
        if len(text) > _LARGEST_RECORD:
            raise DataError(f"{name}: more than {_LARGEST_RECORD} characters; not a result file")
        content = json.loads(text)
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: not JSON: {' '.join(str(error).split())}") from error
    return from_json(cls, content, where=name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
