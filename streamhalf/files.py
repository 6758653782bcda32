"""Files appear whole or not at all: written to a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from streamhalf.errors import DataError, StreamhalfError
from streamhalf.records import (
    CertifyResult,
    FitResult,
    Halfspace,
    MomentTestResult,
    from_json,
    is_as_written,
    to_json,
)

T = TypeVar("T")

_LARGEST_RECORD = 64 << 20

_KINDS: dict[type[Any], str] = {
    FitResult: "a result of fit",
    CertifyResult: "a certificate (what certify writes)",
    MomentTestResult: "a result of test",
}


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically."""
    target = Path(path)
    if target.exists() and not target.is_file():
        _write_through(target, content)
        return
    target = target.resolve()  # a link stays a link
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _write_through(target: Path, content: bytes) -> None:
    """Write to a pipe or device, which a rename would replace by a plain file."""
    try:
        target.write_bytes(content)
    except OSError as error:
        raise StreamhalfError(f"{target}: cannot be written: {error.strerror}") from error


def write_json(path: str | os.PathLike[str], record: Any) -> None:
    """Write a record as JSON, atomically."""
    write_text(path, json.dumps(to_json(record), indent=2, allow_nan=False) + "\n")


def read_record(cls: type[T], path: str | os.PathLike[str]) -> T:
    """Read a record from a JSON file, as data only and of bounded size."""
    return from_json(cls, _read_json(path), where=os.fspath(path))


def read_fit(path: str | os.PathLike[str]) -> FitResult:
    """Read what `fit` wrote; another result is told by its kind."""
    found: FitResult = _read_kind(path, FitResult)
    return found


def read_model(path: str | os.PathLike[str]) -> FitResult:
    """Read what `fit` wrote to predict with it; refused if it was changed since."""
    found = read_fit(path)
    if not is_as_written(found):
        raise DataError(
            f"{os.fspath(path)}: the file was changed after fit wrote it (its digest does not fit "
            "its content), so its halfspace and verdict cannot be trusted; restore the file or fit "
            "again (to predict with numbers of your own, use streamhalf.Halfspace in Python)"
        )
    return found


def read_result(path: str | os.PathLike[str]) -> FitResult | CertifyResult:
    """Read what `fit` or `certify` wrote; the document's schema says which."""
    found: FitResult | CertifyResult = _read_kind(path, FitResult, CertifyResult)
    return found


def _read_kind(path: str | os.PathLike[str], *wanted: type[Any]) -> Any:
    """Read a result of one of the kinds that are wanted."""
    content, where = _read_json(path), os.fspath(path)
    schema = content.get("schema") if isinstance(content, dict) else None
    for kind, words in _KINDS.items():
        if schema == kind.__dataclass_fields__["schema"].default:
            if kind in wanted:
                return from_json(kind, content, where=where)
            commands = " or ".join("fit" if one is FitResult else "certify" for one in wanted)
            raise DataError(
                f"{where}: this is {words}; give the file that {commands} wrote with --json"
            )
    return from_json(wanted[0], content, where=where)


def read_weights(path: str | os.PathLike[str]) -> Halfspace:
    """Read a linear classifier: .npy (a vector), or JSON.

    JSON may be a list of weights, an object with `normal` and perhaps `offset`, or a result file.
    """
    name = os.fspath(path)
    if name.endswith(".npy"):
        return Halfspace(_vector(name, _read_npy(name)))
    content = _read_json(name)
    if isinstance(content, dict) and isinstance(content.get("halfspace"), dict):
        content = content["halfspace"]
    if isinstance(content, list):
        content = {"normal": content}
    return from_json(Halfspace, content, where=name)


def _read_npy(name: str) -> Any:
    try:
        with open(name, "rb") as file:
            content = file.read(_LARGEST_RECORD + 1)
        if len(content) > _LARGEST_RECORD:
            raise DataError(f"{name}: more than {_LARGEST_RECORD} bytes; not a vector of weights")
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from error
    # MemoryError: a header that promises more numbers than follow
    except (ValueError, EOFError, MemoryError) as error:
        raise DataError(
            f"{name}: not an array of numbers: {' '.join(str(error).split())}"
        ) from error


def _vector(name: str, array: Any) -> tuple[float, ...]:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise DataError(f"{name}: not an array of real numbers; save one vector of weights")
    squeezed = np.atleast_1d(array.squeeze())
    if squeezed.ndim != 1:
        raise DataError(f"{name}: shape {array.shape}; expected one vector of weights")
    return tuple(float(value) for value in squeezed)


def _read_json(path: str | os.PathLike[str]) -> Any:
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as file:
            text = file.read(_LARGEST_RECORD + 1)
        if len(text) > _LARGEST_RECORD:
            raise DataError(f"{name}: more than {_LARGEST_RECORD} characters; not a result file")
        return json.loads(text)
    except IsADirectoryError as error:
        raise DataError(f"{name}: this is a folder; a result file (JSON) is needed here") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: not JSON: {' '.join(str(error).split())}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
