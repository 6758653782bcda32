"""Result files and weights: written whole, read as data only and of bounded size."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamhalf.errors import DataError
from streamhalf.paths import read_text_from, refuse_harm, write_text_to
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

_LARGEST_RECORD = 64 << 20
_MOST_DIGITS = 20

_KINDS: dict[str, tuple[type[Any], str, str]] = {
    "streamhalf-fit-1": (FitResult, "a result of fit", "fit"),
    "streamhalf-certificate-1": (CertifyResult, "a certificate (of certify)", "certify"),
    "streamhalf-test-1": (MomentTestResult, "a result of test", "test"),
    "streamhalf-audit-1": (AuditResult, "a result of audit", "audit"),
    "streamhalf-conflicts-1": (ConflictSets, "sets in conflict (of audit --proofs)", "audit"),
    "streamhalf-watch-1": (WatchResult, "a result of watch", "watch"),
}
"""By schema: the class of a document, what to call it, and the command that writes it."""


def write_json(path: str | os.PathLike[str], record: Any, *, storage_options: Mapping[str, Any] | None = None) -> None:
    """Write a record as JSON to a path or URL, atomically."""
    text = json.dumps(to_json(record), indent=2, allow_nan=False) + "\n"
    write_text_to(path, text, storage_options=storage_options)


def save(
    record: FitResult | CertifyResult | MomentTestResult,
    path: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a result, but not into the data that it speaks of."""
    if os.path.exists(record.data.source):
        refuse_harm(record.data.source, {"path": path})
    write_json(path, record, storage_options=storage_options)


def read_fit(path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> FitResult:
    """Read what `fit` wrote; another result is told by its kind."""
    found: FitResult = _read_kind(path, storage_options, FitResult)
    return found


def read_model(path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> FitResult:
    """Read what `fit` wrote to predict with it; refused if it was changed since."""
    found = read_fit(path, storage_options=storage_options)
    if not is_as_written(found):
        raise DataError(
            f"{os.fspath(path)}: the file was changed after fit wrote it (its digest does not fit "
            "its content), so its halfspace and verdict cannot be trusted; restore the file or fit "
            "again (to predict with numbers of your own, use streamhalf.Halfspace in Python)"
        )
    return found


def read_result(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> FitResult | CertifyResult:
    """Read what `fit` or `certify` wrote; the document's schema says which.

    Parameters
    ----------
    path
        Path or URL of the file.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    """
    found: FitResult | CertifyResult = _read_kind(path, storage_options, FitResult, CertifyResult)
    return found


def read_verifiable(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> FitResult | CertifyResult | ConflictSets:
    """Read what `verify` checks against data: results of fit and certify, sets in conflict."""
    found: FitResult | CertifyResult | ConflictSets = _read_kind(
        path, storage_options, FitResult, CertifyResult, ConflictSets
    )
    return found


def read_audit(path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> AuditResult:
    """Read what `audit` wrote."""
    found: AuditResult = _read_kind(path, storage_options, AuditResult)
    return found


def read_conflicts(path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> ConflictSets:
    """Read what `audit --proofs` wrote."""
    found: ConflictSets = _read_kind(path, storage_options, ConflictSets)
    return found


def read_watch(path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> WatchResult:
    """Read what `watch` wrote."""
    found: WatchResult = _read_kind(path, storage_options, WatchResult)
    return found


def _read_kind(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None, *wanted: type[Any]) -> Any:
    """Read a result of one of the classes that are wanted."""
    content, where = _read_json(path, storage_options), public_name(os.fspath(path))
    schema = str(content.get("schema")) if isinstance(content, dict) else ""
    kind, words, _ = _KINDS.get(schema, (wanted[0], "", ""))
    if kind not in wanted:
        commands = " or ".join(command for one, _, command in _KINDS.values() if one in wanted)
        raise DataError(f"{where}: this is {words}; give the file that {commands} wrote with --json")
    return from_json(kind, content, where=where)


def read_weights(path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> Halfspace:
    """Read a linear classifier: .npy (a vector), or JSON.

    JSON may be a list of weights, an object with `normal` and perhaps `offset`, or a result file.
    """
    name = os.fspath(path)
    if name.endswith(".npy"):
        return Halfspace(_vector(name, _read_npy(name)))
    content = _read_json(name, storage_options)
    if isinstance(content, dict) and isinstance(content.get("halfspace"), dict):
        content = content["halfspace"]
    if isinstance(content, list):
        content = {"normal": content}
    return from_json(Halfspace, content, where=name)


def read_classifier(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> FitResult | CertifyResult | Halfspace:
    """Read a linear classifier: what `fit` or `certify` wrote, or weights as of `read_weights`.

    A result that was changed since is refused.
    """
    if os.fspath(path).endswith(".npy") or not _is_result(_read_json(path, storage_options)):
        return read_weights(path, storage_options=storage_options)
    found = read_result(path, storage_options=storage_options)
    if not is_as_written(found):
        raise DataError(
            f"{os.fspath(path)}: the file was changed after it was written (its digest does not "
            "fit its content); restore it, or give its halfspace as a JSON object with normal and "
            "offset"
        )
    return found


def _is_result(content: Any) -> bool:
    return isinstance(content, dict) and "schema" in content


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
        raise DataError(f"{name}: not an array of numbers: {' '.join(str(error).split())}") from error


def _vector(name: str, array: Any) -> tuple[float, ...]:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise DataError(f"{name}: not an array of real numbers; save one vector of weights")
    squeezed = np.atleast_1d(array.squeeze())
    if squeezed.ndim != 1:
        raise DataError(f"{name}: shape {array.shape}; expected one vector of weights")
    return tuple(float(value) for value in squeezed)


def _read_json(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Any:
    name = public_name(os.fspath(path))
    try:
        if "://" in os.fspath(path):
            text = read_text_from(path, _LARGEST_RECORD, storage_options=storage_options)
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read(_LARGEST_RECORD + 1)
        if len(text) > _LARGEST_RECORD:
            raise DataError(f"{name}: more than {_LARGEST_RECORD} characters; not a result file")
        return json.loads(text, parse_constant=_refuse, parse_int=_parse_int)
    except IsADirectoryError as error:
        raise DataError(f"{name}: this is a folder; a result file (JSON) is needed here") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{name}: not JSON: {' '.join(str(error).split())}; give the file that fit or certify wrote with --json"
        ) from error


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number that a result holds")


def _parse_int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)
