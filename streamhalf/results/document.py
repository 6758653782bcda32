"""Result files and weights: written whole, read as data only and of bounded size."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from streamhalf.errors import DataError
from streamhalf.paths import AnyPath, read_from, refuse_harm, write_text_to
from streamhalf.redact import public_name
from streamhalf.results import (
    AuditResult,
    CertifyResult,
    ConflictSets,
    FitResult,
    Halfspace,
    MomentTestResult,
    WatchResult,
    from_json,
    is_as_written,
    to_json,
)

T = TypeVar("T")
R = TypeVar("R", FitResult, FitResult | CertifyResult)
Storage: TypeAlias = Mapping[str, Any] | None
_LARGEST_RECORD = 64 << 20
_MOST_DIGITS = 20
# By schema: the class of a document, what to call it, and the command that writes it
_KINDS: dict[str, tuple[type[Any], str, str]] = {
    "streamhalf-fit-1": (FitResult, "a result of fit", "fit"),
    "streamhalf-certificate-1": (CertifyResult, "a certificate (of certify)", "certify"),
    "streamhalf-test-1": (MomentTestResult, "a result of test", "test"),
    "streamhalf-audit-1": (AuditResult, "a result of audit", "audit"),
    "streamhalf-conflicts-1": (ConflictSets, "sets in conflict (of audit --proofs)", "audit"),
    "streamhalf-watch-1": (WatchResult, "a result of watch", "watch"),
}


def write_json(path: AnyPath, record: Any, *, storage_options: Storage = None) -> None:
    """Write a record as JSON to a path or URL, atomically."""
    text = json.dumps(to_json(record), indent=2, allow_nan=False) + "\n"
    write_text_to(path, text, storage_options=storage_options)


def save(record: Any, path: AnyPath, *, storage_options: Storage = None) -> None:
    """Write a result, but not into the data that it speaks of."""
    if os.path.exists(record.data.source):
        refuse_harm(record.data.source, {"path": path})
    write_json(path, record, storage_options=storage_options)


def read_result(path: AnyPath, *, storage_options: Storage = None) -> FitResult | CertifyResult:
    """Read what `fit` or `certify` wrote; the document's schema says which.

    Parameters
    ----------
    path
        Path or URL of the file.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    """
    kinds: tuple[type[FitResult | CertifyResult], ...] = (FitResult, CertifyResult)
    return _read(path, storage_options, *kinds)


def read_audit(path: AnyPath, *, storage_options: Storage = None) -> AuditResult:
    """Read what `audit` wrote."""
    return _read(path, storage_options, AuditResult)


def read_conflicts(path: AnyPath, *, storage_options: Storage = None) -> ConflictSets:
    """Read what `audit --proofs` wrote."""
    return _read(path, storage_options, ConflictSets)


def read_watch(path: AnyPath, *, storage_options: Storage = None) -> WatchResult:
    """Read what `watch` wrote."""
    return _read(path, storage_options, WatchResult)


def read_fit(path: AnyPath, *, storage_options: Storage = None) -> FitResult:
    return _read(path, storage_options, FitResult)


def read_verifiable(path: AnyPath, *, storage_options: Storage = None) -> FitResult | CertifyResult | ConflictSets:
    kinds: tuple[type[FitResult | CertifyResult | ConflictSets], ...] = (FitResult, CertifyResult, ConflictSets)
    return _read(path, storage_options, *kinds)


def read_model(path: AnyPath, *, storage_options: Storage = None) -> FitResult:
    """Read what `fit` wrote to predict with it; refused if it was changed since."""
    remedy = "restore the file or fit again (to predict with numbers of your own, use streamhalf.Halfspace in Python)"
    return _as_written(read_fit(path, storage_options=storage_options), path, "fit wrote it", remedy)


def read_classifier(path: AnyPath, *, storage_options: Storage = None) -> FitResult | CertifyResult | Halfspace:
    """Read what `fit` or `certify` wrote, refused if it was changed since, or weights as of `read_weights`."""
    if not os.fspath(path).endswith(".npy"):
        content = _read_json(path, storage_options)
        if isinstance(content, dict) and "schema" in content:
            found = read_result(path, storage_options=storage_options)
            remedy = "restore it, or give its halfspace as a JSON object with normal and offset"
            return _as_written(found, path, "it was written", remedy)
    return read_weights(path, storage_options=storage_options)


def _as_written(found: R, path: AnyPath, written: str, remedy: str) -> R:
    if not is_as_written(found):
        raise DataError(
            f"{os.fspath(path)}: the file was changed after {written} (its digest does not fit its content), so its "
            f"halfspace and verdict cannot be trusted; {remedy}"
        )
    return found


def _read(path: AnyPath, storage_options: Storage, *wanted: type[T]) -> T:
    """Read a result of one of these classes; another result is told by its kind."""
    content, where = _read_json(path, storage_options), public_name(os.fspath(path))
    schema = str(content.get("schema")) if isinstance(content, dict) else ""
    kind, words, _ = _KINDS.get(schema, (wanted[0], "", ""))
    if kind not in wanted:
        commands = " or ".join(command for one, _, command in _KINDS.values() if one in wanted)
        raise DataError(f"{where}: this is {words}; give the file that {commands} wrote with --json")
    return from_json(kind, content, where=where)


def read_weights(path: AnyPath, *, storage_options: Storage = None) -> Halfspace:
    """Read a linear classifier: .npy (a vector), or JSON.

    JSON may be a list of weights, an object with `normal` and perhaps `offset`, or a result file.
    """
    name = os.fspath(path)
    if name.endswith(".npy"):
        return Halfspace(_vector(name, _read_npy(name, storage_options)))
    content = _read_json(name, storage_options)
    if isinstance(content, dict) and isinstance(content.get("halfspace"), dict):
        content = content["halfspace"]
    if isinstance(content, list):
        content = {"normal": content}
    return from_json(Halfspace, content, where=name)


def _read_npy(name: str, storage_options: Storage) -> Any:
    content = _content(name, storage_options, "a vector of weights")
    try:
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    # MemoryError: a header that promises more numbers than follow
    except (ValueError, EOFError, MemoryError) as error:
        raise DataError(f"{name}: not an array of numbers: {' '.join(str(error).split())}") from error


def _vector(name: str, array: Any) -> tuple[float, ...]:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise DataError(f"{name}: not an array of real numbers; save one vector of weights")
    squeezed = np.atleast_1d(array.squeeze())
    if squeezed.ndim != 1:
        raise DataError(f"{name}: shape {array.shape}; expected one vector of weights")
    return tuple(float(value) for value in squeezed)


def _read_json(path: AnyPath, storage_options: Storage) -> Any:
    content, name = _content(path, storage_options, "a result file"), public_name(os.fspath(path))
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{name}: not JSON: {' '.join(str(error).split())}; give the file that fit or certify wrote with --json"
        ) from error


def _content(path: AnyPath, storage_options: Storage, wanted: str) -> bytes:
    """Return the bytes of a file that is not too large to be what is wanted."""
    name = public_name(os.fspath(path))
    if "://" in os.fspath(path):
        return read_from(path, _LARGEST_RECORD, storage_options=storage_options)
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST_RECORD + 1)
    except IsADirectoryError as error:
        raise DataError(f"{name}: this is a folder; {wanted} is needed here") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from error
    if len(content) > _LARGEST_RECORD:
        raise DataError(f"{name}: more than {_LARGEST_RECORD} bytes; not {wanted}")
    return content


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number that a result holds")


def _parse_int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)
